"""Databases with nothing in them, of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The database, at the newest revision."""
    made = Database(url)
    upgrade(made)
    yield made
    made.close()


@pytest.fixture
def tokens(database: Database) -> Tokens:
    """The tokens of that database: none."""
    return Tokens(database)
