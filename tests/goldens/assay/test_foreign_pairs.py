"""Pairs that are not ours: what was put into a stranger's record is what the assay says, in words and in numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign import Stranger, draw_sizes
from foreign_faults import FAULTS, Fault, flat
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record
from law_text import claimed

DTYPES = ("float32", "bfloat16")
PRECISION = {"float32": 2e-5, "bfloat16": 0.05}
HIGHEST_POWER = {"float32": 1.00001, "bfloat16": 1.01}
# Patterns whose text is no formula of units.
WORDS_ONLY = {"unexplained", "zero", "missing", "non-finite", "rank-disagreement", "term", "stale", "permuted"}


def assayed(golden: bytes, record: bytes, folder: Path) -> Assay:
    """Through files, as the command line has them."""
    (folder / "golden.safetensors").write_bytes(golden)
    (folder / "record.safetensors").write_bytes(record)
    return assay_record(read_record(folder / "record.safetensors"), read_golden(folder / "golden.safetensors"))


def unseen(stranger: Stranger, units: int) -> set[str]:
    """Parameters that none of so many units reaches."""
    return {name for name in stranger.names() if not stranger.own(name, stranger.steps)[:units].any()}


@pytest.mark.parametrize("seed", range(30))
def test_honest_pairs_agree(seed: int, tmp_path: Path) -> None:
    stranger = Stranger(
        seed, dtype=DTYPES[seed % 2], terms=("main", "aux") if seed % 5 == 0 else (), steps=1 + seed % 3 // 2
    )
    golden = stranger.golden()
    for owners in ("", "shards", "copies"):
        sizes = draw_sizes(stranger.random)
        record = stranger.record(sizes, owners=owners, average=bool(seed % 2), float64=bool(seed % 4 == 0))
        assay = assayed(golden, record, tmp_path)
        expected = Verdict.INCONCLUSIVE if unseen(stranger, sizes.units) else Verdict.AGREE
        assert assay.verdict is expected, assay.sentence
        numbers = {
            family: sum(min(1024, np.prod(p["shape"])) for p in stranger.parameters if p["family"] == family)
            for family in assay.power
        }
        for family, power in assay.power.items():
            if numbers[family] >= 64:
                assert power <= HIGHEST_POWER[stranger.dtype], family


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 1.00001), ("float32", 0.99999), ("bfloat16", 1.01)])
@pytest.mark.parametrize("seed", range(4))
def test_a_small_factor_on_one_tensor_is_flagged(seed: int, dtype: str, factor: float, tmp_path: Path) -> None:
    stranger = Stranger(seed, dtype=dtype)
    sizes = draw_sizes(stranger.random)
    name = stranger.names("dense")[0]
    assay = assayed(stranger.golden(), stranger.record(sizes, {name: flat(sizes, factor)}), tmp_path)
    assert assay.verdict is Verdict.DIVERGE
    (finding,) = assay.findings
    assert finding.parameters == (name,)
    assert finding.law.pattern == "uniform"
    assert finding.law.value == pytest.approx(factor, abs=0.2 * abs(factor - 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_named(kind: str, seed: int, tmp_path: Path) -> None:
    stranger = Stranger(
        1000 + seed,
        dtype=DTYPES[seed % 2],
        terms=("main", "aux") if kind == "term" or seed % 4 == 3 else (),
        steps=2 if kind == "stale" else 1,
        smallest=16,
    )
    fault = FAULTS[kind](stranger)
    if fault is None:
        return
    names = set(fault.names) - unseen(stranger, fault.sizes.units)
    if kind in ("missing", "non_finite"):
        names = set(fault.names) - (unseen(stranger, fault.sizes.units) if kind == "missing" else set())
    weights = {} if fault.weights is None else dict.fromkeys(fault.names, fault.weights)
    assay = assayed(stranger.golden(), stranger.record(fault.sizes, weights, **fault.how), tmp_path)
    if not names:
        return
    assert assay.verdict is Verdict.DIVERGE, assay.sentence
    assert assay.exit == 1
    check_words(assay, fault, names)
    check_numbers(assay, fault, stranger)


def check_words(assay: Assay, fault: Fault, names: set[str]) -> None:
    """One finding over exactly what was hit, whose law or one of whose ties is the fault."""
    told = "; ".join(f"{finding.law} {finding.parameters}" for finding in assay.findings)
    assert {name for finding in assay.findings for name in finding.parameters} == names, told
    if fault.pattern == "unexplained":
        assert all(finding.law.pattern == "unexplained" for finding in assay.findings), told
        return
    (finding,) = assay.findings
    law = finding.law.formula.removeprefix("w[r,m] = ")
    if fault.laws:
        assert set(fault.laws) & {law, *finding.law.ties}, told
    if not finding.law.ties or not fault.laws:
        assert finding.law.pattern == fault.pattern, told


def check_numbers(assay: Assay, fault: Fault, stranger: Stranger) -> None:
    """Every formula that is printed, ties included, gives the weights that were put in, wherever a unit can be seen."""
    if fault.weights is None or fault.pattern in WORDS_ONLY:
        return
    put_in = np.broadcast_to(fault.weights, (fault.sizes.dp, fault.sizes.dp, fault.sizes.accum))
    for finding in assay.findings:
        for text in (finding.law.formula, *finding.law.ties):
            if "max_norm" in text:
                continue
            said = claimed(text, fault.sizes, stranger.tokens)
            for name in finding.parameters:
                own = stranger.own(name)[: fault.sizes.units]
                seen = own.any(axis=1).reshape(fault.sizes.accum, fault.sizes.dp).T
                holders = stranger.holders(name, fault.sizes) if fault.weights.ndim == 3 else [0]
                off = np.abs(said - put_in)[holders][:, seen].max()
                assert off <= PRECISION[stranger.dtype] * np.abs(put_in).max(), (text, name)


def test_pairs_can_fail(tmp_path: Path) -> None:
    """Negative control: with more rounding than the golden allows, an honest pair is not honest any more."""
    stranger = Stranger(0, dtype="float32")
    sizes = draw_sizes(stranger.random)
    assay = assayed(stranger.golden(), stranger.record(sizes, rounding=100.0), tmp_path)
    assert assay.verdict is Verdict.DIVERGE
    assert all(finding.law.pattern == "unexplained" for finding in assay.findings)


def test_faults_cannot_hide_in_another_law(tmp_path: Path) -> None:
    """Negative control of the checks themselves: a wrong expectation is found out."""
    stranger = Stranger(1, dtype="float32", smallest=16)
    sizes = draw_sizes(stranger.random, wants="edp accum3")
    fault = Fault(sizes, stranger.names("dense"), "uniform", ("ep",), flat(sizes, 1.37))
    weights = dict.fromkeys(fault.names, fault.weights)
    assay = assayed(stranger.golden(), stranger.record(sizes, weights), tmp_path)
    with pytest.raises(AssertionError):
        check_words(assay, fault, set(fault.names))
    with pytest.raises(AssertionError):
        check_numbers(assay, Fault(sizes, fault.names, "uniform", ("ep",), flat(sizes, 1.38)), stranger)
