"""From an open service to one that answers, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from gradassay.api.operations.readiness import Readiness
from gradassay.api.service import Service


@asynccontextmanager
async def running(app: FastAPI, service: Service) -> AsyncIterator[None]:
    """The service, reachable from the app's requests; at the end its database is closed."""
    app.state.service = service
    app.state.readiness = Readiness(database=service.database, store=service.store)
    try:
        yield
    finally:
        service.database.close()
