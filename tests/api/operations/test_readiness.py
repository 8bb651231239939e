"""Whether database and store answer, asked seldom."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gradassay.api.database.database import Database
from gradassay.api.operations.readiness import Readiness
from gradassay.goldens.errors import Unreachable
from gradassay.goldens.store.directory import DirectoryStore


class Store(DirectoryStore):
    """A store that fails, or does not answer until it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked, self.fails, self.may_answer = 0, False, threading.Event()
        self.may_answer.set()

    def find_golden(self, *arguments, **named):
        self.asked += 1
        self.may_answer.wait(20)
        if self.fails:
            raise Unreachable("the store is away")
        return super().find_golden(*arguments, **named)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def readiness(store: Store, **settings: float) -> Readiness:
    return Readiness(database=Database(f"sqlite:///{store.folder}.db"), store=store, **settings)


def test_both_answer(store: Store):
    assert asyncio.run(readiness(store).check()) == {"database": "ok", "store": "ok"}


def test_many_who_ask_cost_one_question(store: Store):
    async def ask(checks: Readiness) -> None:
        await asyncio.gather(*(checks.check() for _ in range(20)))
        await checks.check()

    asyncio.run(ask(readiness(store)))
    assert store.asked == 1


def test_store_that_fails_and_comes_back(store: Store):
    async def ask(checks: Readiness) -> list[dict[str, str]]:
        store.fails = True
        first = await checks.check()
        store.fails = False
        return [first, await checks.check()]

    assert asyncio.run(ask(readiness(store, kept_s=0))) == [
        {"database": "ok", "store": "failed"},
        {"database": "ok", "store": "ok"},
    ]


def test_store_that_does_not_answer_is_asked_once(store: Store):
    async def ask(checks: Readiness) -> list[dict[str, str]]:
        store.may_answer.clear()
        late = [await checks.check(), await checks.check()]
        store.may_answer.set()
        await next(iter(checks._asked.values()))
        return [*late, await checks.check()]

    late = {"database": "ok", "store": "does not answer"}
    assert asyncio.run(ask(readiness(store, deadline_s=0.05))) == [late, late, {"database": "ok", "store": "ok"}]
    assert store.asked == 1


def test_database_that_is_broken(store: Store):
    checks = readiness(store)
    Path(f"{store.folder}.db").write_bytes(b"not a database" * 100)
    assert asyncio.run(checks.check()) == {"database": "failed", "store": "ok"}
