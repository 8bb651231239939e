"""A database with nothing in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """SQLite, at the newest revision."""
    made = Database(f"sqlite:///{tmp_path}/service.db")
    upgrade(made)
    yield made
    made.close()


@pytest.fixture
def tokens(database: Database) -> Tokens:
    """The tokens of that database: none."""
    return Tokens(database)
