"""Fixtures for every room: factories of small goldens and records with known weights."""

from __future__ import annotations

import os
from collections.abc import Callable

# Tests share few cores with the ranks that others of them start; threads inside small matrices would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Output is asserted at the width of a pipe, whatever terminal the tests are started from.
os.environ.pop("COLUMNS", None)

import pytest

import builders
from builders import Toy
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record
from services.postgres import postgres_server, postgres_url  # noqa: F401  (fixtures, for tests of every room)
from wheelhouse import bare, everything, training, wheel  # noqa: F401


@pytest.fixture(scope="session")
def make_toy() -> Callable[..., Toy]:
    """Makes a problem of random gradients; see builders.make_toy."""
    return builders.make_toy


@pytest.fixture(scope="session")
def make_golden() -> Callable[..., Golden]:
    """Makes the golden of a toy; see builders.make_golden."""
    return builders.make_golden


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    """Makes a record of a toy with chosen weights; see builders.make_record."""
    return builders.make_record
