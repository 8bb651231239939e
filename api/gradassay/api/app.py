"""The application: settings and a store in, an ASGI app out."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from gradassay.api.assays import Assays
from gradassay.api.problem import add_problem_handlers
from gradassay.api.routes import health, runs
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.store.open import open_store


def create_app(settings: ServiceSettings | None = None) -> FastAPI:
    """The service over the store of the settings, by default those of the environment; the store opens on first use."""
    settings = settings or ServiceSettings.load()
    app = FastAPI(
        title="gradassay",
        version=version("gradassay"),
        description="Keeps captured gradients and says how they diverge from the golden.",
    )
    app.state.settings = settings
    app.state.store = open_store(settings.store)
    app.state.assays = Assays(app.state.store)
    add_problem_handlers(app)
    app.include_router(health.router)
    app.include_router(runs.router)
    return app


def serve(*, host: str | None = None, port: int | None = None, store: str | None = None) -> None:
    """Serves until interrupted; what is not given comes from the settings. Binds to this machine only by default."""
    import uvicorn

    settings = ServiceSettings.load(host=host, port=port, store=store)
    uvicorn.run(create_app(settings), host=settings.host, port=settings.port, server_header=False)
