"""Running dashboards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards import Dashboard, opened


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """One dashboard for all tests of a file; each posts runs of its own."""
    with opened(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Dashboard]:
    """A dashboard that nobody else has posted to."""
    with opened(tmp_path) as running:
        yield running
