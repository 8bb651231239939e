"""`gradassay serve`: the service on this machine."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.session import Session, session_of
from gradassay.goldens.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from gradassay.api.operations.serving import Serving


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (GRADASSAY_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (GRADASSAY_PORT); 0: a free one.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Keep everything here: goldens and records in MLflow on SQLite, ledger and tokens beside it.",
        ),
    ] = None,
) -> None:
    """Serve the HTTP API and the dashboard until interrupted."""
    try:
        from gradassay.api.operations.serving import serve as serve_until_stopped
        from gradassay.api.settings import ServiceSettings
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "fastapi", "server") from error
    session = session_of(context)
    settings = ServiceSettings.load(host=host, port=port, **_places(context, folder))
    serve_until_stopped(settings, lambda serving: _announce(session, serving))


def _places(context: typer.Context, folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    if context.find_root().params.get("store"):
        raise UsageError("--folder and --store both say where goldens are", hint="give one of them")
    return {
        "store": f"sqlite:///{folder.absolute()}/mlflow.db",
        "database_url": f"sqlite:///{folder.absolute()}/service.db",
    }


def _announce(session: Session, serving: Serving) -> None:
    service = serving.service
    link = service.logins.link(who=_person(), project=service.settings.project) if serving.loopback else None
    login = link and serving.url + link
    if session.json:
        session.emit_json({"url": serving.url, "login": login, "store": str(service.store)})
        return
    session.emit(f"gradassay on {serving.url}, goldens in {service.store}\n")
    if login is not None:
        session.emit(f"Sign in, once and within ten minutes: {login}\n")
    elif not service.tokens.of_project():
        session.say("Nobody can sign in yet: `gradassay token create` on this machine makes the first token.")


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
