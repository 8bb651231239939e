"""The service's own machine: where it keeps things, and who works there."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from gradassay.goldens.errors import UsageError

Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", help="Keep everything here: goldens and records in MLflow on SQLite, ledger and tokens beside it."
    ),
]


def places(context: typer.Context, folder: Path | None) -> dict[str, Any]:
    """The settings that say where a service in this folder keeps things; none without a folder."""
    if folder is None:
        return {}
    if context.find_root().params.get("store"):
        raise UsageError("--folder and --store both say where goldens are", hint="give one of them")
    return {
        "store": f"sqlite:///{folder.absolute()}/mlflow.db",
        "database_url": f"sqlite:///{folder.absolute()}/service.db",
    }


def person() -> str:
    """The name of the user; `operator` where the machine knows none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
