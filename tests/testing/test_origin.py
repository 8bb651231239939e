"""What to build for a record of one's own, and what is said where that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders import Toy
from gradassay.goldens.errors import Incomparable, NoGolden, UsageError
from gradassay.goldens.header import DtypeProfile, Problem, RecordHeader
from gradassay.goldens.record import Record
from gradassay.harness.cell import DTYPES
from gradassay.harness.problems import load_problem
from gradassay.testing.origin import buildable


@pytest.fixture
def header(make_toy: Callable[..., Toy], make_record: Callable[..., Record]) -> RecordHeader:
    """Of a record of a problem that is not installed."""
    return replace(make_record(make_toy()).header, dtype=DTYPES["float32"])


def _of(header: RecordHeader, reference: str) -> RecordHeader:
    problem = load_problem(reference)
    return replace(header, problem=Problem(name=problem.name, digest=problem.digest))


def test_a_problem_that_is_installed_is_found_by_its_name(header: RecordHeader):
    assert buildable(_of(header, "dense-tiny")) == ("dense-tiny", "float32")
    half = replace(_of(header, "dense-tiny"), dtype=DTYPES["bfloat16"])
    assert buildable(half) == ("dense-tiny", "bfloat16")


def test_a_problem_of_ones_own_is_named_by_the_test(
    header: RecordHeader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "mine_of_origin.py").write_text("from gradassay.harness.problems.catalogue import moe_tiny as made\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert buildable(_of(header, "moe-tiny"), "mine_of_origin:made") == ("mine_of_origin:made", "float32")
    with pytest.raises(Incomparable, match="could not judge the record"):
        buildable(_of(header, "dense-tiny"), "mine_of_origin:made")
    with pytest.raises(UsageError, match="cannot be imported"):
        buildable(_of(header, "dense-tiny"), "mine_of_nothing:made")


def test_an_unknown_problem_says_how_its_golden_is_built(header: RecordHeader):
    with pytest.raises(NoGolden) as caught:
        buildable(header)
    assert "golden toy.float32: the record is of problem 'toy', which is not known here" in caught.value.message
    assert "gradassay golden build MODULE:FUNCTION --dtype float32" in caught.value.hint
    assert 'problem="MODULE:FUNCTION"' in caught.value.hint


def test_another_problem_of_the_same_name_cannot_judge(header: RecordHeader):
    known = _of(header, "dense-tiny")
    other = replace(known, problem=Problem(name="dense-tiny", digest="sha256:" + "0" * 64))
    with pytest.raises(Incomparable, match="sha256:0000") as caught:
        buildable(other)
    assert load_problem("dense-tiny").digest in caught.value.message


def test_a_profile_that_goldens_are_not_built_in_is_said(header: RecordHeader):
    odd = replace(_of(header, "dense-tiny"), dtype=DtypeProfile(parameter="float32", gradient="float16"))
    with pytest.raises(NoGolden, match="gradients in float16") as caught:
        buildable(odd)
    assert caught.value.hint == "goldens are built in float32, bfloat16, float64"
