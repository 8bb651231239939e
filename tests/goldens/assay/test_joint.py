"""Several layouts explained together: one formula in every cell, constants excluded, contradictions said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from foreign import Array, Sizes, Stranger
from foreign_faults import flat
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.joint import explain_jointly, layouts_within
from gradassay.goldens.assay.result import Assay, JointFinding, Pattern
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record

Weights = Callable[[Sizes], Array]
CELLS = (Sizes(4, ep=2, accum=3), Sizes(4, ep=4, accum=2), Sizes(6, ep=3, accum=2), Sizes(3, accum=4), Sizes(4, ep=2))


@pytest.fixture(scope="module")
def stranger() -> Stranger:
    return Stranger(7, dtype="float32", objective="unit-mean", smallest=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, stranger: Stranger) -> Path:
    made = tmp_path_factory.mktemp("joint")
    (made / "golden").write_bytes(stranger.golden())
    return made


def together(
    stranger: Stranger, folder: Path, weights: Weights, cells: Sequence[Sizes] = CELLS, **how: str
) -> list[Assay]:
    golden = read_golden(folder / "golden")
    assays = []
    for sizes in cells:
        record = stranger.record(sizes, dict.fromkeys(stranger.names("expert"), weights(sizes)), **how)
        (folder / "record").write_bytes(record)
        assays.append(assay_record(read_record(folder / "record"), golden))
    return assays


def only(assays: Sequence[Assay]) -> JointFinding:
    (found,) = explain_jointly(assays)
    assert found.families == ("expert",)
    return found


@pytest.mark.parametrize(
    ("weights", "formula"),
    [
        (lambda s: flat(s, s.ep), "ep"),
        (lambda s: flat(s, 1 / s.dp), "1/dp"),
        (lambda s: flat(s, s.dp / s.ep), "edp"),
        (lambda s: flat(s, s.accum), "accum"),
        (lambda s: flat(s, s.dp * s.accum), "dp*accum"),
        (lambda s: flat(s, 2.0), "2"),
        (lambda s: flat(s, -1.0), "-1"),
        (lambda s: flat(s) * s.dp ** (np.arange(s.accum) - s.accum + 2.0), "dp**(m-M+2)"),
        (lambda s: flat(s) * 2.0 ** (s.accum - 1.0 - np.arange(s.accum)), "2**(M-1-m)"),
        (lambda s: flat(s) * (np.arange(s.accum) == s.accum - 1) * s.accum, "accum*[m = M-1]"),
    ],
)
def test_one_law_in_every_cell(weights: Weights, formula: str, stranger: Stranger, folder: Path) -> None:
    assays = together(stranger, folder, weights)
    found = only(assays)
    assert found.law.formula == f"w[r,m] = {formula}"
    diverging = [assay for assay in assays if assay.findings]
    assert len(found.cells) == len(diverging)
    assert not found.law.ties


def test_one_cell_leaves_ties_that_two_do_not(stranger: Stranger, folder: Path) -> None:
    def weights(sizes: Sizes) -> Array:
        return flat(sizes, sizes.ep)

    alone = only(together(stranger, folder, weights, CELLS[:1]))
    assert {"2", "edp"} <= {alone.law.formula.removeprefix("w[r,m] = "), *alone.law.ties}
    assert alone.law.separated_by
    both = only(together(stranger, folder, weights, CELLS[:2]))
    assert both.law.formula == "w[r,m] = ep"
    assert "2" not in both.law.ties


def test_agreeing_cells_exclude_constants(stranger: Stranger, folder: Path) -> None:
    """ep = 1 agrees: a factor of 2 everywhere would not."""
    cells = (Sizes(4, ep=2, accum=3), Sizes(4, accum=3))
    found = only(together(stranger, folder, lambda sizes: flat(sizes, sizes.ep), cells))
    assert found.law.formula == "w[r,m] = ep"
    assert "2" not in found.law.ties
    assert len(found.cells) == 1


def test_cells_that_contradict_each_other(stranger: Stranger, folder: Path) -> None:
    """Negative control: factors that no formula gives."""
    found = only(together(stranger, folder, lambda sizes: flat(sizes, 2.0 if sizes.accum == 3 else 5.0), CELLS[:2]))
    assert found.law.pattern is Pattern.UNEXPLAINED
    assert "no one law" in found.law.formula
    assert found.law.confidence == 0


def test_owners_are_explained_jointly(stranger: Stranger, folder: Path) -> None:
    cells = (Sizes(4, ep=2, accum=3), Sizes(6, ep=3, accum=2))
    assays = together(
        stranger, folder, lambda s: s.dp * s.groups("rank")[:, :, None] * np.ones(s.accum), cells, owners="copies"
    )
    assert only(assays).law.formula == "w[r,m] = dp*[r = owner]"


def test_nothing_to_explain(stranger: Stranger, folder: Path) -> None:
    assert explain_jointly(together(stranger, folder, flat)) == ()


def test_layouts_within() -> None:
    found = list(layouts_within(max_ranks=4, max_units=8))
    assert len(set(found)) == len(found)
    assert all(layout.dp <= 4 and layout.units <= 8 and layout.dp % layout.ep == 0 for layout in found)
    assert {(layout.dp, layout.ep, layout.accum) for layout in found} >= {(1, 1, 1), (4, 4, 2), (4, 1, 1), (1, 1, 8)}
