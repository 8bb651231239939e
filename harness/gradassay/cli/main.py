"""`gradassay`: the entry point, the global options, and the table of commands."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from gradassay.cli import (
    ci,
    demo,
    diff,
    doctor,
    faults,
    gc,
    golden,
    ledger,
    plan,
    post,
    power,
    record,
    serve,
    token,
    wait,
)
from gradassay.cli.failure import report_bug, report_error
from gradassay.cli.session import Session
from gradassay.goldens.errors import GradassayError
from gradassay.goldens.extras import missing_extra

FLAGS = ("--json", "--quiet", "-q", "--debug")
VALUED = ("--url", "--store")
INTERRUPTED = 130

app = typer.Typer(
    name="gradassay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Global options may stand before or after the command. Exit codes: docs/cli.md.",
)
app.command("demo")(demo.demo)
app.command("record")(record.record)
app.add_typer(golden.app, name="golden")
app.command("diff")(diff.diff)
app.command("post")(post.post)
app.command("wait")(wait.wait)
app.command("ci")(ci.ci)
app.command("ledger")(ledger.ledger)
app.command("plan")(plan.plan)
app.command("power")(power.power)
app.add_typer(faults.app, name="faults")
app.command("serve")(serve.serve)
app.add_typer(token.app, name="token")
app.command("gc")(gc.gc)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"gradassay {version('gradassay')}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print data as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No messages and no progress on stderr.")] = False,
    url: Annotated[str, typer.Option("--url", envvar="GRADASSAY_URL", help="Address of the service.")] = "",
    store: Annotated[
        str,
        typer.Option(
            "--store",
            help="Where goldens and records are kept (GRADASSAY_STORE): dir:PATH, sqlite:///PATH, http://HOST.",
        ),
    ] = "",
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of a bug instead of filing it.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Gradient goldens for distributed training, and an assay that names the fault."""
    if store:
        os.environ["GRADASSAY_STORE"] = store
    context.obj = Session(json=json, quiet=quiet, debug=debug, url=url, local=bool(store))


def hoist(arguments: list[str]) -> list[str]:
    """The arguments with global options moved to the front, where the parser expects them; what follows `--` stays."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    first: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments[:end])
    for argument in waiting:
        if argument in FLAGS or argument.startswith(tuple(f"{name}=" for name in VALUED)):
            first.append(argument)
        elif argument in VALUED:
            first.extend([argument, *([value] if (value := next(waiting, None)) is not None else [])])
        else:
            rest.append(argument)
    return [*first, *rest, *arguments[end:]]


def run() -> None:
    """Runs the command line of this process and ends it with the documented exit code."""
    arguments = hoist(sys.argv[1:])
    # An assay solves many tiny systems: threads of the linear algebra library would spend their time waiting for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="gradassay")
    except GradassayError as error:
        sys.exit(report_error(error))
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        sys.exit(report_error(missing) if missing else report_bug(error, debug="--debug" in arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        sys.exit(report_bug(error, debug="--debug" in arguments))


if __name__ == "__main__":
    run()
