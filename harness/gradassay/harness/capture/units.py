"""Every rank's own gradient of every micro-batch, before accumulation and reduction, as sketches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradassay.goldens.header import Parameter
from gradassay.goldens.record import Capture
from gradassay.goldens.sketch import BUCKETS
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.measured import held, places_of
from gradassay.harness.capture.piece import Piece

MOST_UNITS = 64


def group_count(dp: int, accum: int) -> int:
    """Into how many groups of neighbours dp ranks fall: the largest divisor of dp that keeps units to MOST_UNITS, or 1."""
    divisors = (groups for groups in range(dp, 0, -1) if dp % groups == 0)
    return next(groups for groups in divisors if groups == 1 or groups * accum <= MOST_UNITS)


class UnitSketches:
    """Sketches what backward passes give on this rank, micro step by micro step; nothing is kept but sketches.

    Of P parameters a rank keeps [accum, P, 1024] numbers; ranks exchange them once, by one all-reduce. So that this stays
    small at any scale, neighbouring ranks are added up where there would be more than MOST_UNITS units.
    """

    def __init__(self, parameters: tuple[Parameter, ...], *, accum: int) -> None:
        self._parameters, self._places = parameters, places_of(parameters)
        self._sketch = np.zeros((accum, len(parameters), BUCKETS))
        self._absmax = np.zeros(len(parameters))
        self._nonfinite = np.zeros(len(parameters), dtype=np.int64)
        self._present = np.zeros(len(parameters), dtype=np.uint8)

    def add(self, pieces: Sequence[Piece], micro: int) -> None:
        """Adds what one backward pass gave for some parameters. Raises Incomplete for names and sizes that do not fit."""
        for piece in held(list(pieces), self._parameters, self._places):
            measured = piece.measure()
            if measured is not None:
                self._sketch[micro, piece.index] += measured.sketch
                self._absmax[piece.index] = max(self._absmax[piece.index], measured.absmax)
                self._nonfinite[piece.index] += measured.nonfinite
                self._present[piece.index] = 1

    def capture(self, exchange: Exchange, *, dp_rank: int, dp: int) -> Capture:
        """The units of all ranks as stage `local` of a record; collective, and forgets what was added."""
        accum, count, _ = self._sketch.shape
        groups = group_count(dp, accum)
        units = np.zeros((accum, groups, count, BUCKETS))
        units[:, dp_rank // (dp // groups)] = self._sketch
        facts = np.zeros((count, 2 + exchange.size))
        facts[:, 0], facts[:, 1], facts[:, 2 + exchange.rank] = self._nonfinite, self._present, self._absmax
        # One all-reduce for everything; a unit's number is micro * groups + group.
        flat = exchange.add(np.concatenate((units.reshape(-1), facts.reshape(-1))))
        sums, facts = (
            flat[: units.size].reshape(accum * groups, count, BUCKETS),
            flat[units.size :].reshape(facts.shape),
        )
        for array in (self._sketch, self._absmax, self._nonfinite, self._present):
            array.fill(0)
        mean = sums.sum(axis=0) / dp
        return Capture(
            sketch=mean,
            norm2=np.einsum("pk,pk->p", mean, mean),
            absmax=facts[:, 2:].max(axis=1),
            nonfinite=facts[:, 0].astype(np.int64),
            present=(facts[:, 1] > 0).astype(np.uint8),
            units=sums,
        )
