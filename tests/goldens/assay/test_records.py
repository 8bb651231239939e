"""Record against record: one factor a parameter, with assumed tolerances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign import Sizes, Stranger
from foreign_faults import flat
from gradassay.goldens.assay.records import assay_records
from gradassay.goldens.assay.result import Pattern, Verdict
from gradassay.goldens.record import Record, read_record

SIZES = Sizes(4, ep=2, accum=3)


@pytest.fixture(scope="module")
def stranger() -> Stranger:
    return Stranger(11, dtype="float32", smallest=16)


def read(folder: Path, content: bytes) -> Record:
    (folder / "record").write_bytes(content)
    return read_record(folder / "record")


def test_two_honest_runs_agree_and_say_what_was_assumed(stranger: Stranger, tmp_path: Path) -> None:
    one, two = (read(tmp_path, stranger.record(SIZES)) for _ in range(2))
    assay = assay_records(one, two)
    assert assay.verdict is Verdict.AGREE
    assert any("assumed" in note for note in assay.notes)


@pytest.mark.parametrize(("factor", "formula"), [(2.0, "ep"), (0.25, "1/dp"), (1 / 3, "1/accum"), (1.1, "1.1")])
def test_factors_are_named(factor: float, formula: str, stranger: Stranger, tmp_path: Path) -> None:
    one = read(tmp_path, stranger.record(SIZES))
    weights = {name: flat(SIZES, factor) for name in stranger.names("expert")}
    assay = assay_records(one, read(tmp_path, stranger.record(SIZES, weights)))
    (finding,) = assay.findings
    assert finding.families == ("expert",)
    assert finding.law.pattern is Pattern.UNIFORM
    assert formula in (finding.law.formula.removeprefix("w[r,m] = "), *finding.law.ties)


def test_weights_of_units_are_not_invented(stranger: Stranger, tmp_path: Path) -> None:
    one = read(tmp_path, stranger.record(SIZES))
    weights = {name: flat(SIZES) * 4.0 ** (np.arange(3) - 1) for name in stranger.names()}
    assay = assay_records(one, read(tmp_path, stranger.record(SIZES, weights)))
    assert assay.verdict is Verdict.DIVERGE
    for finding in assay.findings:
        assert finding.law.pattern is Pattern.UNEXPLAINED
        assert np.isnan(np.array(finding.weights, dtype=np.float64)).all()


def test_other_problems_units_and_stages_are_incomparable(stranger: Stranger, tmp_path: Path) -> None:
    one = read(tmp_path, stranger.record(SIZES))
    other = read(tmp_path, Stranger(12, dtype="float32").record(SIZES))
    smaller = read(tmp_path, stranger.record(Sizes(2)))
    assert assay_records(one, other).verdict is Verdict.INCOMPARABLE
    assert "units" in assay_records(one, smaller).sentence
    assert assay_records(one, one, stage="clipped").verdict is Verdict.INCOMPARABLE
    assert assay_records(one, one).verdict is Verdict.AGREE


def test_layouts_of_as_many_units_are_comparable(stranger: Stranger, tmp_path: Path) -> None:
    one = read(tmp_path, stranger.record(SIZES))
    assert assay_records(one, read(tmp_path, stranger.record(Sizes(2, accum=6)))).verdict is Verdict.AGREE
