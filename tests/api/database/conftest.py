"""Empty databases of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gradassay.api.database.database import Database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The empty database."""
    opened = Database(url)
    yield opened
    opened.close()
