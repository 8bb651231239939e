"""From an open service to one that answers, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from gradassay.api.judging.sweep import Sweep
from gradassay.api.operations.readiness import Readiness
from gradassay.api.service import Service


@asynccontextmanager
async def running(app: FastAPI, service: Service) -> AsyncIterator[None]:
    """The service, reachable from the app's requests and busy in the background; closed at the end."""
    sweep = Sweep(
        service.database,
        service.store,
        runs=service.runs,
        ledger=service.ledger,
        assays=service.assays,
        every_s=service.settings.sweep_s,
    )
    app.state.service = service
    app.state.readiness = Readiness(database=service.database, store=service.store)
    sweep.start()
    try:
        yield
    finally:
        await asyncio.to_thread(_close, service, sweep)


def _close(service: Service, sweep: Sweep) -> None:
    service.assays.stopping.set()
    sweep.stop()
    service.assays.close()
    service.database.close()
