"""Captures of gradients that stay where they lie are those of gradients that were copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.harness.capture import held
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.piece import Piece, stretch, whole
from gradassay.harness.capture.take import take
from gradassay.harness.capture.units import UnitSketches

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("interpreted")]

ALONE = Exchange(group=None, device=torch.device("cpu"))
PARAMETERS = (
    Parameter(name="up", shape=(10, 256), family="dense"),
    Parameter(name="scale", shape=(7,), family="norm"),
    Parameter(name="none", shape=(9,), family="norm"),
)
RANDOM = torch.Generator().manual_seed(3)
VALUES = torch.randn(2560, generator=RANDOM)
SCALE = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, float("inf"), 7.0])


def assert_alike(one: Capture, two: Capture) -> None:
    np.testing.assert_allclose(one.sketch, two.sketch, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(one.norm2, two.norm2, rtol=1e-6)
    assert one.absmax.tolist() == two.absmax.tolist()
    assert one.nonfinite.tolist() == two.nonfinite.tolist()
    assert one.present.tolist() == two.present.tolist()
    for mine, theirs in ((one.units, two.units), (one.rank_sketch, two.rank_sketch)):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-6)


@pytest.fixture
def nothing_is_copied(on_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient goes to the CPU."""

    def refuse(values: torch.Tensor) -> None:
        raise AssertionError(f"{values.shape} was copied")

    monkeypatch.setattr(held, "as_array", refuse)


def pieces(*, wrong: float = 1.0) -> list[Piece]:
    columns = VALUES.reshape(10, 256)
    runs = np.array([[256 * row, 13] for row in range(10)])
    return [
        Piece(name="up", values=columns[:, :13].reshape(-1), runs=runs),
        Piece(name="up", values=columns[:, 13:].reshape(-1), runs=runs * [1, 0] + [13, 243]),
        whole("up", wrong * VALUES, numel=2560, replica=1),
        whole("scale", SCALE, numel=7),
        whole("none", None, numel=9),
    ]


@pytest.mark.parametrize("wrong", [1.0, 1.5])
def test_a_capture_is_the_same(wrong: float, request: pytest.FixtureRequest) -> None:
    found = pieces(wrong=wrong)
    copied = take(found, PARAMETERS, ALONE).capture
    request.getfixturevalue("nothing_is_copied")
    assert_alike(take(found, PARAMETERS, ALONE).capture, copied)


def test_copies_that_differ_in_one_bit_are_seen(nothing_is_copied: None) -> None:
    other = VALUES.clone()
    other[2000] = torch.nextafter(other[2000], torch.tensor(9.0))
    alike, differing = (
        take([whole("up", VALUES, numel=2560), whole("up", copy, numel=2560, replica=1)], PARAMETERS[:1], ALONE).capture
        for copy in (VALUES.clone(), other)
    )
    assert alike.rank_sketch is None
    assert differing.rank_sketch is not None


def test_full_gradients_are_copied_where_they_are_asked_for(on_device: None) -> None:
    full = take([whole("up", VALUES.bfloat16(), numel=2560)], PARAMETERS[:1], ALONE, full=True).capture.full
    assert full is not None
    assert np.array_equal(full["up"].reshape(-1), VALUES.bfloat16().float().numpy())


def add_all(sketches: UnitSketches) -> list[Capture]:
    captures = []
    for _ in range(2):
        for micro in range(2):
            sketches.add([whole("up", VALUES * (micro + 1), numel=2560), whole("none", None, numel=9)], micro)
            sketches.add([whole("scale", SCALE, numel=7)], micro)
        sketches.add([stretch("up", VALUES[:1000], start=0, length=1000)], 1)
        captures.append(sketches.capture())
    return captures


def test_units_are_the_same_and_no_hook_reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = add_all(UnitSketches(PARAMETERS, ALONE, accum=2, dp_rank=1, dp=2))
    request.getfixturevalue("nothing_is_copied")
    from gradassay.harness.capture.device.numbers import Numbers

    reads: list[int] = []
    read = Numbers.read

    def counted(self: Numbers) -> tuple[np.ndarray, np.ndarray]:
        reads.append(1)
        return read(self)

    monkeypatch.setattr(Numbers, "read", counted)
    there = add_all(UnitSketches(PARAMETERS, ALONE, accum=2, dp_rank=1, dp=2))
    assert len(reads) == 2, "once a capture"
    for one, two in zip(there, copied, strict=True):
        assert_alike(one, two)
    assert there[0].nonfinite.tolist() == [0, 2, 0]


def test_what_lies_here_and_there_is_added_up(on_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of which a part lies on a GPU."""
    monkeypatch.setattr(choice, "stays", lambda values: len(values) == 1000)
    sketches = UnitSketches(PARAMETERS[:1], ALONE, accum=1)
    sketches.add([stretch("up", VALUES[:1000], start=0, length=1000)], 0)
    sketches.add([stretch("up", VALUES[1000:], start=1000, length=1560)], 0)
    mixed = sketches.capture()
    sketches.add([whole("up", VALUES.clone(), numel=2560)], 0)
    assert_alike(mixed, sketches.capture())


def test_what_does_not_fit_is_refused(on_device: None) -> None:
    sketches = UnitSketches(PARAMETERS, ALONE, accum=1)
    with pytest.raises(Incomplete, match="2559 values"):
        sketches.add([whole("up", VALUES[1:], numel=2560)], 0)
    with pytest.raises(Incomplete, match="'down'"):
        sketches.add([whole("down", VALUES, numel=2560)], 0)
