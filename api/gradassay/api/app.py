"""The application: settings in, an ASGI app out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from gradassay.api.auth.gate import Gate
from gradassay.api.openapi import describe, operation_id
from gradassay.api.operations.bounded import Bounded
from gradassay.api.operations.observed import Observed
from gradassay.api.operations.running import running
from gradassay.api.problem import add_problem_handlers
from gradassay.api.routes import assays, files, goldens, health, ledger, reviews, runs, session, tokens
from gradassay.api.service import Service
from gradassay.api.settings import ServiceSettings
from gradassay.api.web import pages, static_files

# The files come before the goldens, whose names may hold slashes.
ROUTES = (health, runs, assays, reviews, files, goldens, ledger, tokens, session, static_files, pages)


def create_app(settings: ServiceSettings | None = None, *, service: Service | None = None) -> FastAPI:
    """The service of these settings, by default those of the environment; it opens when the app starts.

    service: one that is open already; the app closes it when it stops.
    """
    settings = service.settings if service else settings or ServiceSettings.load()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
    for part in ROUTES:
        app.include_router(part.router)
    app.add_middleware(Bounded)
    app.add_middleware(Gate)
    app.add_middleware(Observed)
    describe(app)
    return app
