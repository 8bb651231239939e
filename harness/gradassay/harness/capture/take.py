"""From every rank's pieces to one capture: sketches are made where the gradient lies, and added up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.goldens.sketch import BUCKETS
from gradassay.harness.capture.census import Census, take_census
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.measured import Held, held, measure_into, widened
from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """capture: as a record keeps it, the same on every rank (full gradients on rank 0 only). parameters: the problem's,
    with the shards that were found.
    """

    capture: Capture
    parameters: tuple[Parameter, ...]


def take(
    pieces: list[Piece],
    parameters: tuple[Parameter, ...],
    exchange: Exchange,
    *,
    dp_rank: int = 0,
    dp: int = 1,
    full: bool = False,
) -> Taken:
    """The capture of all ranks' pieces; collective.

    Sketch, norm2, absmax and nonfinite are those of copy 0, or of one that is the same. Where the copies of a parameter
    differ in any bit, its rows of `rank_sketch` [dp, P, 1024] hold what each rank's copy sketches to; a copy spread over
    ranks stands in the row of each of them. full: also add up the gradients themselves on rank 0. Raises Incomplete (see
    census.py).
    """
    own = held(pieces, parameters)
    census = take_census(own, parameters, dp_rank, exchange)
    # One all-reduce: sketch, sum of squares and non-finite count of every parameter, and each rank's largest value. One array,
    # of which the capture keeps a part, so that nothing is there twice.
    count = len(parameters)
    numbers = np.zeros(count * (BUCKETS + 2 + exchange.size))
    sketches, facts = _parts(numbers, count)
    mine = [piece for piece in own if _is_measured(piece, census)]
    totals = np.zeros((count, 3))
    measure_into(sketches, totals, [piece.index for piece in mine], mine)
    facts[:, :2], facts[:, 2 + exchange.rank] = totals[:, (0, 2)], totals[:, 1]
    sketches, facts = _parts(exchange.add(numbers), count)
    capture = Capture(
        sketch=sketches,
        norm2=facts[:, 0].copy(),
        nonfinite=facts[:, 1].astype(np.int64),
        absmax=facts[:, 2:].max(axis=1),
        present=np.array([census.present(index) for index in range(count)], dtype=np.uint8),
        rank_sketch=_copies(own, census, count, dp, exchange),
        full=_full(own, parameters, exchange) if full else None,
    )
    shards = [census.shards(index) if dp > 1 else None for index in range(count)]
    found = tuple(
        parameter if parameter.shards == held_by else replace(parameter, shards=held_by)
        for parameter, held_by in zip(parameters, shards, strict=True)
    )
    return Taken(capture=capture, parameters=found)


def _parts(numbers: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Views of what is exchanged: [P, 1024] sketches and [P, 2 + ranks] facts."""
    return numbers[: count * BUCKETS].reshape(count, BUCKETS), numbers[count * BUCKETS :].reshape(count, -1)


def _is_measured(piece: Held, census: Census) -> bool:
    """Copies that are alike are measured by different ranks, each a part of the parameters."""
    copies = 1 if census.disagree(piece.index) else len(census.claims[piece.index])
    return piece.replica == piece.index % copies


def _copies(own: list[Held], census: Census, count: int, dp: int, exchange: Exchange) -> NDArray[np.float64] | None:
    """[dp, P, 1024] float64 with the rows of parameters whose copies differ, None where none does."""
    differing = [index for index in range(count) if census.disagree(index)]
    if not differing:
        return None
    places = {
        (index, replica): place
        for place, (index, replica) in enumerate(
            (index, replica) for index in differing for replica in census.claims[index]
        )
    }
    sketches = np.zeros((len(places), BUCKETS))
    mine = [piece for piece in own if (piece.index, piece.replica) in places]
    measure_into(sketches, np.zeros((len(places), 3)), [places[piece.index, piece.replica] for piece in mine], mine)
    sketches = exchange.add(sketches)
    rows = np.zeros((dp, count, BUCKETS))
    for index in differing:
        first = sketches[places[index, 0]]
        for dp_rank, replicas in census.holders(index).items():
            copies = sketches[[places[index, replica] for replica in replicas]]
            # A record has one row a dp rank. Of several tensor-parallel ranks' copies that is the one most unlike copy 0,
            # but copy 0 itself beside the rows of others, which are compared with it.
            alone = dp == 1 or 0 not in replicas
            rows[dp_rank, index] = copies[np.argmax(np.linalg.norm(copies - first, axis=1))] if alone else first
    return rows


def _full(
    own: list[Held], parameters: tuple[Parameter, ...], exchange: Exchange
) -> dict[str, NDArray[np.float32]] | None:
    """Gradients shaped as their parameters, added up parameter by parameter on rank 0; None on other ranks."""
    found = {}
    for index, parameter in enumerate(parameters):
        whole = np.zeros(parameter.numel, dtype=np.float32)
        for piece in own:
            if piece.index == index and piece.replica == 0 and piece.values is not None:
                values, before = widened(piece.values), 0
                for first, length in piece.runs.tolist():
                    whole[first : first + length] = values[before : before + length]
                    before += length
        found[parameter.name] = exchange.add_at_root(whole).reshape(parameter.shape)
    return found if exchange.rank == 0 else None
