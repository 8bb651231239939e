"""Ledgers on a database of every kind, over a store in a folder, and goldens to propose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from builders import Toy
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.ledger.ledger import Ledger
from gradassay.goldens.golden import Golden
from gradassay.goldens.store.directory import DirectoryStore

Answer = TypeVar("Answer")
NAME = "toy.float32"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database at the newest revision."""
    if request.param == "postgres":
        address = str(request.getfixturevalue("postgres_url"))
    else:
        address = f"sqlite:///{tmp_path}/service.db"
    database = Database(address)
    upgrade(database)
    database.close()
    return address


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The database of the ledger."""
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """The store of the ledger."""
    return DirectoryStore(tmp_path / "store")


@pytest.fixture
def ledger(database: Database, store: DirectoryStore) -> Ledger:
    """A ledger where one reviewer is enough."""
    return Ledger(database, store)


@pytest.fixture
def two(database: Database, store: DirectoryStore) -> Ledger:
    """The same ledger where two reviewers have to approve."""
    return Ledger(database, store, reviewers=2)


@pytest.fixture
def write_golden(
    make_toy: Callable[..., Toy], make_golden: Callable[..., Golden], tmp_path: Path
) -> Callable[..., Path]:
    """Writes golden files: each variant is another content of one name."""
    toy = make_toy(families={"dense": [(8, 4)], "expert": [(6,)]}, units=4)

    def write(variant: int = 1, *, name: str = "toy") -> Path:
        golden = make_golden(toy)
        problem = replace(golden.header.problem, name=name)
        header = replace(golden.header, problem=problem, references=golden.header.references * variant)
        path = tmp_path / f"golden-{variant}.safetensors"
        replace(golden, header=header).write(path)
        return path

    return write


@pytest.fixture
def propose(ledger: Ledger, write_golden: Callable[..., Path]) -> Callable[..., int]:
    """Proposes variants of a golden into the project `default`; answers with the last one's version."""

    def post(*variants: int, name: str = "toy", who: str = "ci", project: str = "default") -> int:
        for variant in variants:
            version = ledger.propose(write_golden(variant, name=name), who=who, project=project).version
        return version

    return post


@pytest.fixture
def at_once() -> Callable[[list[Callable[[], Answer]]], list[Answer | Exception]]:
    """Runs the calls in threads that all begin at the same moment; answers, or what was raised, in their order."""

    def run(calls: list[Callable[[], Answer]]) -> list[Answer | Exception]:
        gate = threading.Barrier(len(calls))

        def one(call: Callable[[], Answer]) -> Answer | Exception:
            gate.wait()
            try:
                return call()
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(one, calls))

    return run
