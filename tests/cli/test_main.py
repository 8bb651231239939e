"""Global options, exit codes and streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.cli import failure
from gradassay.cli.main import hoist
from gradassay.goldens.errors import KINDS, GradassayError, NoGolden

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]
COMMANDS = (
    "demo",
    "record",
    "golden",
    "diff",
    "post",
    "wait",
    "ledger",
    "plan",
    "faults",
    "serve",
    "token",
    "gc",
    "doctor",
)


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from gradassay.cli.main import run\n"
        "try:\n"
        "    run()\n"
        "except SystemExit:\n"
        "    heavy = {'torch', 'mlflow', 'fastapi', 'numpy', 'numba', 'pydantic'} & set(sys.modules)\n"
        "    sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {command} " in done.stdout for command in COMMANDS)


def test_version(gradassay: Command) -> None:
    ran = gradassay("--version")

    assert ran.code == 0
    assert ran.out.startswith("gradassay ")


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["diff", "a", "b", "--json"], ["--json", "diff", "a", "b"]),
        (["golden", "list", "--store", "dir:x", "-q"], ["--store", "dir:x", "-q", "golden", "list"]),
        (["golden", "list", "--store=dir:x"], ["--store=dir:x", "golden", "list"]),
        (["diff", "--", "--json", "b"], ["diff", "--", "--json", "b"]),
        (["diff", "--url"], ["--url", "diff"]),
    ],
)
def test_global_options_may_stand_anywhere(given: list[str], parsed: list[str]) -> None:
    assert hoist(given) == parsed


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["diff"],
        ["diff", "a", "b", "--format", "pdf"],
        ["diff", "a", "b", "--step", "0"],
        ["record", "dense-tiny", "--strategy", "ddp", "--dp", "none"],
    ],
)
def test_usage_errors_exit_2_on_stderr(inside: Command, arguments: list[str]) -> None:
    ran = inside(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert "Usage: gradassay" in ran.err


def test_every_error_leaves_with_the_code_of_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    for code, kind in KINDS.items():
        error = type("Some", (GradassayError,), {"code": code})("what happened", hint="what to do\nand then")

        assert failure.report_error(error) == kind.exit
        assert capsys.readouterr().err == "gradassay: what happened\n  what to do\n  and then\n"
    assert failure.report_error(NoGolden("nothing")) == 3


def test_a_bug_exits_70_and_says_where_its_traceback_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert failure.report_bug(KeyError("lost"), debug=False) == 70
    said = capsys.readouterr().err
    (written,) = tmp_path.glob("gradassay-bug-*.txt")
    assert str(written) in said
    assert "Traceback" not in said
    assert "KeyError: 'lost'" in written.read_text()

    assert failure.report_bug(KeyError("lost"), debug=True) == 70
    assert "KeyError: 'lost'" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(files: Files) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gradassay.cli.main", "diff", files.golden, files.doubled, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert (process.wait(), said) == (1, b"")


def test_an_interrupt_exits_130(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "gradassay.cli.main", "diff", pipe, pipe],
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell ignore interrupts, and what they start would as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    writer = os.open(pipe, os.O_WRONLY)
    process.send_signal(signal.SIGINT)
    # Who is in the middle of a read that starts again after a signal hears of it when the read ends.
    os.close(writer)
    _, said = process.communicate()

    assert process.returncode == 130
    assert "Traceback" not in said


def test_colour_needs_a_terminal_and_no_color_forbids_it(gradassay: Command, files: Files) -> None:
    forced = gradassay("diff", files.golden, files.doubled, variables={"FORCE_COLOR": "1"})
    assert "\x1b[" in forced.out
    both = gradassay("diff", files.golden, files.doubled, variables={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert "\x1b[3" not in both.out
    assert "\x1b" not in gradassay("diff", files.golden, files.doubled).out


def test_width_follows_columns(gradassay: Command, files: Files) -> None:
    narrow = gradassay("diff", files.golden, files.doubled, variables={"COLUMNS": "60"})

    assert max(map(len, narrow.out.splitlines())) <= 60


def test_streams_of_another_encoding_do_not_break(gradassay: Command, files: Files) -> None:
    ran = gradassay("diff", files.golden, files.doubled, variables={"PYTHONIOENCODING": "ascii"})

    assert ran.code == 1
    assert "diverge" in ran.out


def test_plan_proposes_layouts(inside: Command) -> None:
    ran = inside("plan", "--json", "--ranks", "4", "--units", "8")

    assert ran.code == 0
    assert json.loads(ran.out)
