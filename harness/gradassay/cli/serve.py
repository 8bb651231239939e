"""`gradassay serve`: the service on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.machine import Folder, person, places
from gradassay.cli.session import Session, session_of

if TYPE_CHECKING:
    from gradassay.api.operations.serving import Serving


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (GRADASSAY_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (GRADASSAY_PORT); 0: a free one.")
    ] = None,
    folder: Folder = None,
) -> None:
    """Serve the HTTP API and the dashboard until interrupted."""
    from gradassay.api.operations.serving import serve as serve_until_stopped
    from gradassay.api.settings import ServiceSettings

    session = session_of(context)
    settings = ServiceSettings.load(host=host, port=port, **places(context, folder))
    serve_until_stopped(settings, lambda serving: _announce(session, serving))


def _announce(session: Session, serving: Serving) -> None:
    service = serving.service
    link = service.logins.link(who=person(), project=service.settings.project) if serving.loopback else None
    login = link and serving.url + link
    if session.json:
        session.emit_json({"url": serving.url, "login": login, "store": str(service.store)})
    else:
        session.emit(f"gradassay on {serving.url}, goldens in {service.store}\n")
        if login is not None:
            session.emit(f"Sign in, once and within ten minutes: {login}\n")
    if login is None and not service.tokens.of_project():
        session.say("Nobody can sign in yet: `gradassay token create` on this machine makes the first token.")
