"""From every rank's pieces to one capture: sketches are made where the gradient lies, and added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.harness.capture.census import Census, take_census
from gradassay.harness.capture.copies import differing
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import Held, held, widened
from gradassay.harness.capture.piece import Piece
from gradassay.harness.capture.sums import Figures, Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """capture: as a record keeps it, the same on every rank (full gradients on rank 0 only). parameters: the problem's,
    with the shards that were found. dtype: the element type of any rank's gradients that rounds most.
    """

    capture: Capture
    parameters: tuple[Parameter, ...]
    dtype: torch.dtype


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

    Sketch, norm2, absmax and nonfinite are those of the first copy, or of one that is the same. Where the copies of a
    parameter differ in any bit, its rows of `rank_sketch` [dp, P, 1024] hold what each rank's copy sketches to; a copy spread
    over ranks stands in the row of each of them. full: also add up the gradients themselves on rank 0. Raises Incomplete (see
    census.py).
    """
    own = held(pieces, parameters)
    census = take_census(own, parameters, dp_rank, exchange)
    count = len(parameters)
    sums = Sums(count, exchange)
    digests = sums.add(own, census.shares(own), told=[census.copied(piece.index) for piece in own])
    differ = differing(census, own, digests, exchange)
    figures = sums.over_ranks()
    capture = Capture(
        sketch=figures.sketch,
        norm2=figures.norm2,
        nonfinite=figures.nonfinite,
        absmax=figures.absmax,
        present=np.array([census.present(index) for index in range(count)], dtype=np.uint8),
        rank_sketch=_copies(own, census, differ, figures, dp, exchange) if differ else None,
        full=_full(own, parameters, census, exchange) if full else None,
    )
    shards = [census.shards(index) if dp > 1 else None for index in range(count)]
    found = tuple(
        parameter if parameter.shards == held_by else replace(parameter, shards=held_by)
        for parameter, held_by in zip(parameters, shards, strict=True)
    )
    return Taken(capture=capture, parameters=found, dtype=census.dtype)


def _copies(
    own: Sequence[Held], census: Census, differ: Sequence[int], figures: Figures, dp: int, exchange: Exchange
) -> NDArray[np.float64]:
    """[dp, P, 1024] float64 with the rows of parameters whose copies differ; their `figures` become those of the first copy,
    whichever was measured before.
    """
    copies = [(index, number) for index in differ for number in census.claims[index]]
    places = {copy: place for place, copy in enumerate(copies)}
    sums = Sums(len(copies), exchange)
    sums.add(own, [places.get((piece.index, piece.replica)) for piece in own], told=[False] * len(own))
    each = sums.over_ranks()
    rows = np.zeros((dp, *figures.sketch.shape))
    for index in differ:
        first = places[index, census.first(index)]
        figures.sketch[index], figures.norm2[index] = each.sketch[first], each.norm2[first]
        figures.absmax[index], figures.nonfinite[index] = each.absmax[first], each.nonfinite[first]
        for dp_rank, numbers in census.holders(index).items():
            held_by = [places[index, number] for number in numbers]
            # A record has one row a dp rank. Of several tensor-parallel ranks' copies that is the one most unlike the first,
            # but the first itself beside the rows of others, which are compared with it.
            apart = np.linalg.norm(each.sketch[held_by] - each.sketch[first], axis=1)
            shown = first if dp > 1 and first in held_by else held_by[int(np.argmax(apart))]
            rows[dp_rank, index] = each.sketch[shown]
    return rows


def _full(
    own: Sequence[Held], parameters: tuple[Parameter, ...], census: Census, exchange: Exchange
) -> dict[str, NDArray[np.float32]] | None:
    """Gradients shaped as their parameters, added up parameter by parameter on rank 0; None on other ranks."""
    found = {}
    for index, parameter in enumerate(parameters):
        whole = np.zeros(parameter.numel, dtype=np.float32)
        for piece in own:
            if piece.index == index and piece.replica == census.first(index) and piece.values is not None:
                values, before = widened(piece.values), 0
                for first, length in piece.runs.tolist():
                    whole[first : first + length] = values[before : before + length]
                    before += length
        found[parameter.name] = exchange.add_at_root(whole).reshape(parameter.shape)
    return found if exchange.rank == 0 else None
