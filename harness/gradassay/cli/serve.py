"""`gradassay serve`: the service on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from gradassay.goldens.errors import MissingExtra


def serve(
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (GRADASSAY_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (GRADASSAY_PORT).")
    ] = None,
) -> None:
    """Serve the HTTP API over the configured store until interrupted."""
    try:
        from gradassay.api import app
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "fastapi", "server") from error
    app.serve(host=host, port=port)
