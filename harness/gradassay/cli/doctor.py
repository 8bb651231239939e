"""`gradassay doctor`: whether everything works that gradassay builds on, and what to do where it does not."""

from __future__ import annotations

import typer

from gradassay.cli.session import leave, session_of
from gradassay.goldens.errors import Exit


def doctor(context: typer.Context) -> None:
    """Check this machine: versions, torch and its devices, gloo, frameworks, MLflow, the store, free disk."""
    from gradassay.cli.checks import Check, run_checks

    session = session_of(context)
    checks: list[Check] = []
    for check in run_checks(session.url):
        checks.append(check)
        if not session.json:
            mark = "✓" if check.ok else "✗"
            session.emit(f"{mark} {check.name:<11} {check.found}\n")
            if not check.ok and check.remedy:
                session.emit(f"  {'':<11} {check.remedy}\n")
    if session.json:
        session.emit_json(
            [{"name": item.name, "ok": item.ok, "found": item.found, "remedy": item.remedy} for item in checks]
        )
    leave(Exit.AGREE if all(check.ok for check in checks) else Exit.INVALID)
