"""Whether the service can do its work now: its database answers, and its store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from gradassay.api.database.database import Database
from gradassay.goldens.errors import GradassayError, NoGolden, NotFound
from gradassay.goldens.store.protocol import GoldenStore

KEPT_S = 5.0
DEADLINE_S = 4.0
OK = "ok"
FAILED = "failed"
LATE = "does not answer"
_NAME = "readiness"
"""A golden that nobody has: asking for it costs a store next to nothing."""
log = structlog.get_logger("gradassay.readiness")


@dataclass(kw_only=True)
class Readiness:
    """Asks database and store at most once in `kept_s`, however many want to know.

    A part that takes longer than `deadline_s` is late; it is not asked again before it has answered.
    """

    database: Database
    store: GoldenStore
    kept_s: float = KEPT_S
    deadline_s: float = DEADLINE_S
    _asked: dict[str, asyncio.Task[str]] = field(default_factory=dict)
    _known: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def check(self) -> dict[str, str]:
        """`ok`, `failed` or `does not answer` for each part; why is logged, and not for everybody."""
        parts = {"database": self._ask_database, "store": self._ask_store}
        found = await asyncio.gather(*(self._part(name, ask) for name, ask in parts.items()))
        return dict(zip(parts, found, strict=True))

    async def _part(self, name: str, ask: Callable[[], str]) -> str:
        if name in self._known:
            at, known = self._known[name]
            if time.monotonic() - at < self.kept_s:
                return known
        if name not in self._asked:
            self._asked[name] = asyncio.create_task(self._remember(name, ask))
        try:
            return await asyncio.wait_for(asyncio.shield(self._asked[name]), self.deadline_s)
        except TimeoutError:
            log.warning("not ready", part=name, why=f"no answer within {self.deadline_s:g} s")
            return LATE

    async def _remember(self, name: str, ask: Callable[[], str]) -> str:
        try:
            why = await asyncio.to_thread(ask)
            if why:
                log.warning("not ready", part=name, why=why)
            self._known[name] = (time.monotonic(), FAILED if why else OK)
            return self._known[name][1]
        finally:
            del self._asked[name]

    def _ask_database(self) -> str:
        try:
            with self.database.read() as session:
                session.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            return str(error)
        return ""

    def _ask_store(self) -> str:
        try:
            self.store.find_golden(_NAME)
        except (NotFound, NoGolden):
            return ""
        except GradassayError as error:
            return error.message
        return ""
