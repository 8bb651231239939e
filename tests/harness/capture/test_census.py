"""Coverage is proved from what every rank says of itself; here the ranks are made up."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import torch

from gradassay.goldens.errors import Incomplete, UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.census import Census, take_census
from gradassay.harness.capture.copies import differing
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import held
from gradassay.harness.capture.piece import Piece, stretch, whole
from gradassay.harness.capture.sums import Sums

ALONE = Exchange(group=None, device=torch.device("cpu"))
WEIGHT = Parameter(name="weight", shape=(10, 4), family="dense")
VALUES = torch.arange(40.0)


class _Others:
    """Stands for the exchange of ranks whose pieces are all known: each of what they would send, by kind of table."""

    def __init__(self, tables: list[list[np.ndarray]]) -> None:
        self._tables = iter(tables)

    def tables(self, _table: np.ndarray) -> list[np.ndarray]:
        return next(self._tables)


class _Recorded(_Others):
    """Keeps the tables that a rank would send."""

    def __init__(self) -> None:
        self.sent: list[np.ndarray] = []

    def tables(self, table: np.ndarray) -> list[np.ndarray]:
        self.sent.append(table)
        return [table]


def _census(*ranks: list[Piece], parameters: tuple[Parameter, ...] = (WEIGHT,)) -> Census:
    recorded = _Recorded()
    for rank, pieces in enumerate(ranks):
        with suppress(Incomplete):
            take_census(held(pieces, parameters), parameters, rank, recorded)  # type: ignore[arg-type]
        assert len(recorded.sent) == rank + 1, "one rank alone covers little, and must still tell the others"
    return take_census([], parameters, 0, _Others([recorded.sent]))  # type: ignore[arg-type]


def _differing(*ranks: list[Piece]) -> list[int]:
    census, recorded = _census(*ranks), _Recorded()
    own = [held(pieces, (WEIGHT,)) for pieces in ranks]
    digests = [Sums(1, ALONE).add(pieces, [None] * len(pieces), told=[True] * len(pieces)) for pieces in own]
    for pieces, known in zip(own, digests, strict=True):
        differing(census, pieces, known, recorded)  # type: ignore[arg-type]
    return differing(census, [], [], _Others([recorded.sent]))  # type: ignore[arg-type]


def _part(start: int, end: int, replica: int = 0, times: float = 1.0) -> Piece:
    return stretch("weight", VALUES[start:end] * times, start=start, length=end - start, replica=replica)


def test_shards_that_cover_everything_once():
    census = _census([_part(0, 16)], [_part(16, 32)], [_part(32, 40)], [_part(40, 40)])
    assert census.present(0)
    assert census.shards(0) == ((0, 0, 16), (1, 16, 32), (2, 32, 40))
    assert not census.copied(0)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[_part(0, 16)], [_part(20, 40)]], r"weight: elements \[16, 20\) of 40 are held by no rank"),
        ([[_part(0, 16)], [_part(12, 40)]], r"weight: elements \[12, 16\) of 40 are held more than once"),
        ([[_part(0, 40)], [_part(0, 40)]], r"\[0, 40\) of 40 are held more than once"),
        ([[_part(1, 40)], []], r"\[0, 1\) of 40 are held by no rank"),
        ([[_part(0, 39)], []], r"\[39, 40\) of 40 are held by no rank"),
        ([[], []], "weight: no rank holds it"),
        ([[_part(0, 40)], [_part(0, 30, replica=1)]], r"\[30, 40\) of 40 are held by no rank of copy 1"),
        (
            [[_part(0, 16)], [stretch("weight", None, start=16, length=24)]],
            "weight: rank 1 gave no gradient for its part",
        ),
    ],
)
def test_what_is_missing_or_doubled_is_named(ranks, message):
    with pytest.raises(Incomplete, match=message):
        _census(*ranks)


def test_strided_shards_cover_by_runs():
    left = np.array([[4 * row, 2] for row in range(10)])
    right = left + np.array([2, 0])
    pieces = [Piece(name="weight", values=VALUES[:20], runs=runs) for runs in (left, right)]
    assert _census([pieces[0]], [pieces[1]]).shards(0) is not None
    with pytest.raises(Incomplete, match=r"\[2, 4\), \[6, 8\), \[10, 12\), \[14, 16\) and 6 more of 40 are held by no"):
        _census([pieces[0]], [])


def test_copies_are_compared_to_the_last_bit():
    copies = [whole("weight", VALUES, numel=40, replica=rank) for rank in range(3)]
    census = _census(*([copy] for copy in copies))
    assert census.copied(0)
    assert census.shards(0) is None
    assert census.holders(0) == {0: [0], 1: [1], 2: [2]}
    assert _differing(*([copy] for copy in copies)) == []
    other = VALUES.clone()
    other[7] = torch.nextafter(other[7], torch.tensor(100.0))
    assert _differing([copies[0]], [whole("weight", other, numel=40, replica=1)], [copies[2]]) == [0]


def test_copies_of_shards_are_compared_too():
    same = [[_part(0, 20)], [_part(20, 40)], [_part(0, 20, 1)], [_part(20, 40, 1)]]
    assert _differing(*same, [_part(40, 40, 1)]) == []
    assert _census(*same).shards(0) == ((0, 0, 20), (1, 20, 40))
    assert _differing(*same[:3], [_part(20, 40, 1, times=2)]) == [0]


def test_copies_have_the_numbers_that_ranks_gave_them_in_their_order():
    census = _census([_part(0, 40, 12)], [_part(0, 40, 5)], [_part(40, 40, 3)], [_part(0, 40, 7)])
    assert list(census.claims[0]) == [5, 7, 12]
    assert census.first(0) == 5
    assert census.holders(0) == {1: [5], 3: [7], 0: [12]}
    shares = [census.shares(held([_part(0, 40, number)], (WEIGHT,))) for number in (12, 5, 3, 7)]
    assert shares == [[None], [0], [None], [None]], "each parameter is measured once"


def test_the_element_type_is_that_which_rounds_most():
    halves = [stretch("weight", VALUES[:20].bfloat16(), start=0, length=20), _part(20, 40)]
    assert _census(halves[:1], halves[1:]).dtype == torch.bfloat16
    assert _census([_part(0, 40)]).dtype == torch.float32
    assert _census([whole("weight", None, numel=40)]).dtype == torch.float64


def test_gradients_of_unknown_element_types_are_refused():
    with pytest.raises(UsageError, match="weight: a gradient of element type int32"):
        held([whole("weight", VALUES.int(), numel=40)], (WEIGHT,))


def test_a_parameter_without_gradient_is_not_present():
    assert not _census([whole("weight", None, numel=40)]).present(0)


def test_pieces_that_do_not_fit_the_problem():
    with pytest.raises(Incomplete, match="'wieght', which is no parameter"):
        held([whole("wieght", VALUES, numel=40)], (WEIGHT,))
    with pytest.raises(Incomplete, match="40 values for a piece of 41 elements"):
        held([whole("weight", VALUES, numel=41)], (WEIGHT,))
    with pytest.raises(Incomplete, match="a piece reaches to element 41 of 40"):
        held([stretch("weight", VALUES[:2], start=39, length=2)], (WEIGHT,))


def test_an_exchange_of_one_process_gives_back_what_it_got():
    assert ALONE.tables(np.ones((2, 3), dtype=np.int64))[0].sum() == 6
    assert ALONE.add(np.ones(3)).sum() == 3
    assert (ALONE.rank, ALONE.size) == (0, 1)
