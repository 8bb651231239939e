"""The wheel holds every file of the package, and nothing else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from wheelhouse import CHECKOUT

ROOMS = ("harness", "goldens", "api")
KINDS = (
    "api/database/migrations/versions/revision_0001.py",
    "api/web/static/vendor/*.js",
    "api/web/templates/*.html",
    "goldens/faults/*.toml",
    "goldens/report/templates/*.html",
    "harness/matrix/*.toml",
    "harness/names/shipped/*.toml",
)
pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def packed(wheel: Path) -> set[PurePosixPath]:
    """Every file in the wheel."""
    with ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist()}


def of_the_checkout() -> set[PurePosixPath]:
    """Every file of the package's folders but what running it left behind."""
    return {
        PurePosixPath(path.relative_to(CHECKOUT / room))
        for room in ROOMS
        for path in (CHECKOUT / room / "gradassay").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_file_of_the_package_is_in_the_wheel(packed: set[PurePosixPath]) -> None:
    assert {name for name in packed if name.parts[0] == "gradassay"} == of_the_checkout()


def test_nothing_else_is(packed: set[PurePosixPath], wheel: Path) -> None:
    information = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"

    assert {name.parts[0] for name in packed} == {"gradassay", information}


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_the_package_reads_are_packed(packed: set[PurePosixPath], kind: str) -> None:
    assert [name for name in packed if name.match(f"gradassay/{kind}")]
