"""Every rank's own gradient of every micro-batch, before accumulation and reduction, as sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradassay.goldens.header import Parameter
from gradassay.goldens.kernel.segments import add
from gradassay.goldens.record import Capture
from gradassay.goldens.sketch import BUCKETS, SEGMENTS, add_checked
from gradassay.harness.capture.device import choice
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import as_array, held, places_of
from gradassay.harness.capture.measured import combine
from gradassay.harness.capture.piece import Piece

if TYPE_CHECKING:
    from gradassay.harness.capture.device.numbers import Numbers

MOST_UNITS = 64

_Place = tuple[int, int, NDArray[np.int64]]
_NOTHING: tuple[None, int, _Place] = (None, 0, (0, 0, np.empty((0, 2), dtype=np.int64)))


def group_count(dp: int, accum: int) -> int:
    """Into how many groups of neighbours dp ranks fall: the largest divisor of dp that keeps units to MOST_UNITS, or 1."""
    divisors = (groups for groups in range(dp, 0, -1) if dp % groups == 0)
    return next(groups for groups in divisors if groups == 1 or groups * accum <= MOST_UNITS)


class UnitSketches:
    """Sketches what backward passes give on this rank, micro step by micro step; nothing is kept but sketches.

    Of P parameters there are [accum * groups, P, 1024] numbers on every rank, which are exchanged once, by one all-reduce.
    What lies on a GPU is added up there, [accum, P, 1072] numbers, and copied once, so that no hook waits for it.
    So that this stays small at any scale, neighbouring ranks are added up where there would be more than MOST_UNITS units.

    whole: a model's own name -> name of the parameter that it is, for those that this rank has the whole gradient of.
    """

    def __init__(
        self,
        parameters: tuple[Parameter, ...],
        exchange: Exchange,
        *,
        accum: int,
        dp_rank: int = 0,
        dp: int = 1,
        whole: Mapping[str, str] | None = None,
    ) -> None:
        self._parameters, self._places = parameters, places_of(parameters)
        self._exchange, self._accum, self._dp = exchange, accum, dp
        self._groups = group_count(dp, accum)
        self._group = dp_rank // (dp // self._groups)
        self._known: dict[str, tuple[NDArray[np.int64] | None, int, _Place]] = {}
        self._whole: dict[str, _Place] = {}
        for own, name in (whole or {}).items():
            index = self._places[name]
            total = parameters[index].numel
            self._whole[own] = (index, total, np.array([[0, total]], dtype=np.int64))
        self._begin()

    def forget(self) -> None:
        """What was added and not captured."""
        if self._facts[:, 0].any():
            self._begin()

    def _begin(self) -> None:
        # One array, so that ranks add it up at once; the pages of other ranks' units cost nothing until then.
        count = len(self._parameters)
        self._numbers = np.zeros(count * (self._count * BUCKETS + 2 + self._exchange.size))
        units, self._facts = self._parts(self._numbers)
        # [accum, P, 1024]: the units of this rank.
        self._own = units[self._group :: self._groups]
        self._totals = np.zeros((count, 3))
        self._rows, self._totals_of = [list(unit) for unit in self._own], list(self._totals)
        self._there: dict[torch.device, Numbers] = {}

    @property
    def _count(self) -> int:
        return self._accum * self._groups

    def _parts(self, numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Units [count, P, 1024]; and [P, 2 + ranks] presence, non-finite elements, each rank's largest magnitude."""
        count = len(self._parameters)
        bound = self._count * count * BUCKETS
        return numbers[:bound].reshape(self._count, count, BUCKETS), numbers[bound:].reshape(count, -1)

    def add_whole(self, name: str, gradient: Tensor, micro: int) -> bool:
        """Adds the gradient of a parameter by the model's own name, if it is one of `whole` and lies there as such on the CPU;
        else returns False.

        Short, because it runs between kernels of the model, which leave nothing of it in any cache: most of what a hook
        takes is to fetch its own code.
        """
        place = self._whole.get(name)
        if place is None or type(gradient) is not Tensor or gradient.is_cuda or gradient.numel() != place[1]:
            return False
        index, total, runs = place
        self._facts[index, 0] = 1
        values, sketch = as_array(gradient).reshape(-1), self._rows[micro][index]
        (add if total > BUCKETS else add_checked)(values, runs, total, sketch, self._totals_of[index])
        return True

    def add(self, pieces: Sequence[Piece], micro: int) -> None:
        """Adds what one backward pass gave for some parameters. Raises Incomplete for names and sizes that do not fit."""
        for piece in pieces:
            if piece.values is None:
                continue
            index, total, runs = self._place(piece, piece.values.numel())
            self._facts[index, 0] = 1
            if choice.stays(piece.values):
                row = micro * len(self._parameters) + index
                self._on(piece.values.device).add(row, piece.values, runs, total)
            else:
                add_checked(as_array(piece.values), runs, total, self._own[micro, index], self._totals[index])

    def _place(self, piece: Piece, elements: int) -> _Place:
        """Index, size and runs of a piece, which fit: hooks show the same runs every time, which are looked at once."""
        shown, number, place = self._known.get(piece.name, _NOTHING)
        if shown is not piece.runs or number != elements:
            (fits,) = held([piece], self._parameters, self._places)
            place = (fits.index, fits.total, fits.runs)
            self._known[piece.name] = (piece.runs, elements, place)
        return place

    def _on(self, device: torch.device) -> Numbers:
        if device not in self._there:
            self._there[device] = choice.numbers(self._accum * len(self._parameters), device)
        return self._there[device]

    def _collect(self) -> None:
        """Adds what lies on GPUs to what lies here."""
        for numbers in self._there.values():
            sketches, totals = numbers.read()
            self._own += sketches.reshape(self._own.shape)
            combine(self._totals, totals.reshape(self._accum, -1, SEGMENTS, 3))

    def capture(self) -> Capture:
        """The units of all ranks as stage `local` of a record; collective, and forgets what was added."""
        self._collect()
        self._facts[:, 1] = self._totals[:, 2]
        self._facts[:, 2 + self._exchange.rank] = self._totals[:, 1]
        units, facts = self._parts(self._exchange.add(self._numbers))
        self._begin()
        mean = units.sum(axis=0) / self._dp
        return Capture(
            sketch=mean,
            norm2=np.einsum("pk,pk->p", mean, mean),
            absmax=facts[:, 2:].max(axis=1),
            nonfinite=facts[:, 1].astype(np.int64),
            present=(facts[:, 0] > 0).astype(np.uint8),
            units=units,
        )
