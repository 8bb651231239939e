"""`gradassay power`: the smallest errors that a golden shows, measured by injection, beside what published checks show."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.session import Session, session_of
from gradassay.cli.stores import resolve_reference
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.goldens.golden import Golden
    from gradassay.harness.power import Smallest


def power(
    context: typer.Context,
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help="A file, or golden:NAME[@approved|@vN].")],
    deadline: Annotated[
        float, typer.Option("--deadline", min=1, metavar="SECONDS", help="After this an honest run is taken down.")
    ] = 600.0,
) -> None:
    """Run honest steps of the golden's problem, put errors of all sizes into them, and say the smallest that are flagged."""
    from gradassay.cli.tables import table
    from gradassay.harness.power.table import by_check, by_family

    session = session_of(context)
    known = _golden(session, golden)
    found = _measured(session, known, deadline_s=deadline)
    if session.json:
        session.emit_json({"golden": golden, "name": known.name, "smallest": [_json(one) for one in found]})
        return
    for rows in (by_family(found), by_check(found)):
        titles, *others = rows
        session.show(table(titles, others, right=titles[1:]))
        session.emit("\n")
    session.say("sizes: a factor of 1 + size, a weight of 1 + size, a share of the tensor; the worst tensor counts")


def _golden(session: Session, text: str) -> Golden:
    from gradassay.goldens.golden import read_golden

    found = resolve_reference(session, text)
    if len(found) != 1 or found[0].kind != "golden":
        raise UsageError(f"{text} is no golden", hint="name one: a file, or golden:NAME")
    return read_golden(found[0].path)


def _measured(session: Session, golden: Golden, *, deadline_s: float) -> list[Smallest]:
    import tempfile
    from pathlib import Path

    from gradassay.harness.launch import Pool
    from gradassay.harness.power import measure, run_honest

    progress = session.progress()
    with tempfile.TemporaryDirectory(prefix="gradassay-power-") as folder:
        with Pool() as pool:
            honest = run_honest(golden, pool, Path(folder), deadline_s=deadline_s, progress=progress)
        return measure(honest, progress=progress)


def _json(one: Smallest) -> dict[str, Any]:
    """Sizes that nothing flags are null."""
    return {
        key: None if isinstance(value, float) and not isfinite(value) else value for key, value in asdict(one).items()
    }
