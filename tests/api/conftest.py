"""A running service over a directory store, tokens for it, and small files to post."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import served
from builders import Toy
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from gradassay.goldens.store.directory import DirectoryStore
from judged import Bench
from served import Service, serving


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service on a free port of this machine; `service.client` holds a token with every scope of its project."""
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(uploads))
    with serving(tmp_path, uploads=uploads) as running:
        yield running


@pytest.fixture(scope="session")
def mint() -> Callable[..., dict[str, str]]:
    """Makes the headers of a new token, as in `mint(service, "post", project="other")`; see served.mint."""
    return served.mint


@pytest.fixture
def toy(make_toy: Callable[..., Toy]) -> Toy:
    """A small problem with two families."""
    return make_toy(families={"dense": [(24, 16)], "expert": [(40, 30), (40, 30)]}, units=8)


@pytest.fixture
def record(toy: Toy, make_record: Callable[..., Record]) -> bytes:
    """A record file whose experts are twice too large."""
    return make_record(toy, layout=Layout(dp=4, ep=2, accum=2), weights={"expert": 2.0}).to_bytes()


@pytest.fixture
def golden(toy: Toy, make_golden: Callable[..., Golden], tmp_path: Path) -> Path:
    """The golden file of the same problem."""
    path = tmp_path / "golden.safetensors"
    make_golden(toy).write(path)
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A migrated database of every kind."""
    address = f"sqlite:///{tmp_path}/bench.db"
    if request.param == "postgres":
        address = str(request.getfixturevalue("postgres_url"))
    opened = Database(address)
    upgrade(opened)
    yield opened
    opened.close()


@pytest.fixture
def bench(database: Database, tmp_path: Path, toy: Toy) -> Iterator[Bench]:
    """One replica without HTTP, over a store in a folder."""
    made = Bench.open(database, DirectoryStore(tmp_path / "store"), folder=tmp_path, toy=toy)
    yield made
    made.assays.close()
