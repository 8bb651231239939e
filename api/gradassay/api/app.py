"""The application: settings in, an ASGI app out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from gradassay.api.openapi import describe, operation_id
from gradassay.api.operations.observed import Observed
from gradassay.api.problem import add_problem_handlers
from gradassay.api.settings import ServiceSettings

if TYPE_CHECKING:
    from gradassay.api.service import Service


def create_app(settings: ServiceSettings | None = None, *, service: Service | None = None) -> FastAPI:
    """The service of these settings, by default those of the environment; it opens when the app starts.

    service: one that is open already; the app closes it when it stops.
    """
    settings = service.settings if service else settings or ServiceSettings.load()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        from gradassay.api.operations.running import running
        from gradassay.api.service import Service

        async with running(app, service or Service.open(settings)):
            yield

    app = FastAPI(
        title="gradassay",
        version=version("gradassay"),
        description="Keeps captured gradients and says how they diverge from the golden.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=operation_id,
    )
    app.state.settings = settings
    add_problem_handlers(app)
    for name in ("health", "runs", "files", "assays", "reviews", "goldens", "ledger", "tokens", "session"):
        _include(app, f"gradassay.api.routes.{name}")
    _include(app, "gradassay.api.web.static")
    _include(app, "gradassay.api.web.pages")
    try:
        gate = import_module("gradassay.api.auth.gate")
        app.add_middleware(gate.Gate)
    except ImportError:
        pass
    app.add_middleware(Observed)
    describe(app)
    return app


def _include(app: FastAPI, module: str) -> None:
    """While the tree grows."""
    try:
        app.include_router(import_module(module).router)
    except (ImportError, AttributeError):
        pass
