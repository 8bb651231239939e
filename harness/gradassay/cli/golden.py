"""`gradassay golden`: builds goldens, and keeps, shows, approves, fetches and checks them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli import deciding
from gradassay.cli.cells import Dtype
from gradassay.cli.session import Session, session_of
from gradassay.cli.stores import configured_service, configured_store, resolve_reference
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.goldens.reference import Referred
    from gradassay.goldens.store.protocol import GoldenVersion

app = typer.Typer(help="Build, list, show, approve, reject, fetch and check goldens.", no_args_is_help=True)
app.command("approve")(deciding.approve)
app.command("reject")(deciding.reject)
app.command("undo")(deciding.undo)

Ref = Annotated[
    str, typer.Argument(metavar="REF", help="A golden file, or golden:NAME or golden:NAME@v3 of the store.")
]


@app.command("list")
def list_goldens(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only versions of this golden.")] = None,
) -> None:
    """List the versions that the store or the service holds, and which of them are approved."""
    from gradassay.cli.describe import short_digest
    from gradassay.cli.tables import table

    session = session_of(context)
    where, listed = _listed(session, name)
    if session.json:
        session.emit_json(
            [version_json(version) | ({"status": status} if status else {}) for version, status in listed]
        )
        return
    session.say(f"{len(listed)} golden versions in {where}")
    if listed:
        rows = (
            (v.name, f"v{v.version}", ", ".join(v.channels) or status or "—", v.created, short_digest(v.digest))
            for v, status in listed
        )
        session.show(table(("name", "version", "channels", "stored", "digest"), rows))


def _listed(session: Session, name: str | None) -> tuple[str, list[tuple[GoldenVersion, str]]]:
    """Where the versions are, and each with what became of it, which only a service knows."""
    if session.remote:
        from gradassay.client.store import ServiceStore

        with configured_service(session) as client:
            service = ServiceStore(client)
            return str(service), list(service.standing(name))
    store = configured_store(session)
    return str(store), [(version, "") for version in store.goldens(name)]


@app.command("show")
def show(context: typer.Context, reference: Ref) -> None:
    """Show what a golden holds: problem, units, noise floor, power, references, and who approved it."""
    from gradassay.cli.describe import describe_golden, golden_json
    from gradassay.goldens.container import digest_of_file
    from gradassay.goldens.golden import read_golden

    session = session_of(context)
    found = one_golden(session, reference)
    golden, digest = read_golden(found.path), digest_of_file(found.path)
    approvals = configured_store(session).approvals(golden.name) if found.ref.startswith("golden:") else ()
    if session.json:
        history = {"approvals": [approval.to_json() for approval in approvals]}
        session.emit_json(golden_json(golden, found.ref, digest) | history)
    else:
        session.show(describe_golden(golden, found.ref, digest, approvals))


@app.command("pull")
def pull(
    context: typer.Context,
    reference: Ref,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
) -> None:
    """Write a golden of the store to a file."""
    from gradassay.goldens.atomic import write_atomically

    session = session_of(context)
    found = one_golden(session, reference)
    write_atomically(out, found.path.read_bytes())
    if session.json:
        session.emit_json({"ref": found.ref, "file": str(out)})
    session.say(f"{found.ref}: {out}")


@app.command("verify")
def verify(context: typer.Context, reference: Ref) -> None:
    """Check a golden: its digest, its header against its arrays, its figures computed anew, its power."""
    from gradassay.cli.verify import verify_golden

    session = session_of(context)
    found = one_golden(session, reference)
    checks = verify_golden(found.path)
    if session.json:
        session.emit_json({"ref": found.ref, "checks": [{"name": name, "result": result} for name, result in checks]})
        return
    for name, result in checks:
        session.emit(f"✓ {name}: {result}\n")


@app.command("build")
def build(
    context: typer.Context,
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="Name of a problem, or module:function.")],
    dtype: Dtype = "float32",
    matrix: Annotated[Path | None, typer.Option("--matrix", help="TOML file of the reference cells.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the golden to this file instead of the store.")
    ] = None,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", min=0, help="Also hold the step after an SGD update at this rate.")
    ] = 0.0,
    second_units: Annotated[
        int, typer.Option("--second-units", min=1, help="Units (dp * accum) of the step before that update.")
    ] = 12,
) -> None:
    """Run the reference cells of a problem and build its golden: basis, noise floor and references.

    With a learning rate it also holds the step after an update by SGD, for records of as many units that ran the same.
    """
    from gradassay.cli.building import build_and_keep

    session = session_of(context)
    kept = build_and_keep(
        session,
        problem,
        dtype=dtype,
        matrix=matrix,
        out=out,
        learning_rate=learning_rate,
        second_units=second_units,
    )
    _say_kept(session, kept)


def _say_kept(session: Session, kept: GoldenVersion | Path) -> None:
    if isinstance(kept, Path):
        if session.json:
            session.emit_json({"file": str(kept)})
        session.say(f"golden: {kept}")
        return
    if session.json:
        session.emit_json(version_json(kept))
    session.say(
        f"{kept.name} v{kept.version} is stored; approve it with: gradassay golden approve {kept.name} {kept.version}"
    )


def version_json(version: GoldenVersion) -> dict[str, object]:
    """The version as `--json` prints it."""
    return {
        "name": version.name,
        "version": version.version,
        "digest": version.digest,
        "created": version.created,
        "channels": list(version.channels),
    }


def one_golden(session: Session, reference: str) -> Referred:
    """The one golden that is meant; a bare name that is no file is looked up in the store."""
    if not any(mark in reference for mark in (":", "/", ".safetensors")) and not Path(reference).exists():
        reference = f"golden:{reference}"
    found = [item for item in resolve_reference(session, reference) if item.kind == "golden"]
    if len(found) != 1:
        raise UsageError(
            f"{reference}: means {len(found)} goldens, not one",
            hint="name a golden file, or golden:NAME[@approved|@vN] of the store",
        )
    return found[0]
