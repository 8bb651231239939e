"""Who holds what, as all ranks know it, and the proof that nothing is missing or counted twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.change import UNIT_ROUNDOFF
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.held import Held

_SHOWN = 4
_HEAD = 5
_DTYPES = sorted(UNIT_ROUNDOFF, key=UNIT_ROUNDOFF.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One piece of one rank. runs: [n, 2] int64. dtype: of its gradient; None where it has none."""

    dp_rank: int
    dtype: torch.dtype | None
    runs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Claims of all ranks by parameter and copy, each copy proved to cover its parameter exactly once.

    claims: [parameter][number of the copy] -> claims in the order of ranks; copies in the order of the numbers that ranks
    gave them.
    """

    claims: tuple[dict[int, list[Claim]], ...]

    @property
    def dtype(self) -> torch.dtype:
        """The element type of any gradient that rounds most; that which rounds least where there is none."""
        given = {claim.dtype for copies in self.claims for claims in copies.values() for claim in claims}
        return max((dtype for dtype in given if dtype is not None), key=UNIT_ROUNDOFF.__getitem__, default=_DTYPES[0])

    def copied(self, index: int) -> bool:
        """Whether there is more than one copy of the parameter."""
        return len(self.claims[index]) > 1

    def first(self, index: int) -> int:
        """The number of the copy that a record keeps."""
        return next(iter(self.claims[index]))

    def present(self, index: int) -> bool:
        """Whether the framework gave a gradient for the parameter."""
        return any(claim.dtype is not None for claim in self.claims[index][self.first(index)])

    def shares(self, pieces: Sequence[Held]) -> list[int | None]:
        """To which parameters pieces are to be added so that one copy of each is, None for none: copies are alike, but for
        accidents, and are measured by different ranks, each a part of the parameters.
        """
        return [piece.index if self._is_measured(piece) else None for piece in pieces]

    def _is_measured(self, piece: Held) -> bool:
        copies = self.claims[piece.index]
        return piece.replica == list(copies)[piece.index % len(copies)]

    def holders(self, index: int) -> dict[int, list[int]]:
        """Data-parallel rank -> numbers of the copies that it holds (a part of): several where it is several ranks."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, claims in self.claims[index].items():
            for dp_rank in {claim.dp_rank for claim in claims}:
                found[dp_rank].append(number)
        return found

    def shards(self, index: int) -> tuple[tuple[int, int, int], ...] | None:
        """(dp rank, first element, end) of the first copy, sorted by place; None for copies that one rank holds whole."""
        copies, first = self.claims[index], self.claims[index][self.first(index)]
        if len(copies) > 1 and len({claim.dp_rank for claim in first}) == 1:
            return None
        merged: list[tuple[int, int, int]] = []
        for start, length, dp_rank in sorted((*run, claim.dp_rank) for claim in first for run in claim.runs.tolist()):
            if merged and merged[-1][0] == dp_rank and merged[-1][2] == start:
                merged[-1] = (dp_rank, merged[-1][1], start + length)
            else:
                merged.append((dp_rank, start, start + length))
        return tuple(merged)


def take_census(pieces: list[Held], parameters: tuple[Parameter, ...], dp_rank: int, exchange: Exchange) -> Census:
    """Every rank's claims; collective.

    Raises Incomplete, on every rank alike, for elements that no rank or several ranks hold, and for parts without a
    gradient where others have one.
    """
    heads = np.array(
        [[dp_rank, piece.index, piece.replica, _number(piece.dtype), len(piece.runs)] for piece in pieces],
        dtype=np.int64,
    )
    words = np.concatenate([[len(pieces)], heads.ravel(), *(piece.runs.ravel() for piece in pieces)], dtype=np.int64)
    by_parameter: list[dict[int, list[Claim]]] = [defaultdict(list) for _ in parameters]
    for table in exchange.tables(words.reshape(-1, 1)):
        told = table.ravel()
        bound = 1 + _HEAD * int(told[0])
        runs, before = told[bound:].reshape(-1, 2), 0
        for owner, index, replica, dtype, count in told[1:bound].reshape(-1, _HEAD).tolist():
            if count or not parameters[index].numel:
                claim = Claim(
                    dp_rank=owner,
                    dtype=_DTYPES[dtype] if dtype >= 0 else None,
                    runs=runs[before : before + count],
                )
                by_parameter[index][replica].append(claim)
            before += count
    _check(by_parameter, parameters)
    return Census(claims=tuple(dict(sorted(copies.items())) for copies in by_parameter))


def _number(dtype: torch.dtype | None) -> int:
    return -1 if dtype is None else _DTYPES.index(dtype)


def _check(claims: list[dict[int, list[Claim]]], parameters: tuple[Parameter, ...]) -> None:
    faults: list[tuple[str, str]] = []
    for parameter, copies in zip(parameters, claims, strict=True):
        if not copies:
            faults.append((parameter.name, "no rank holds it"))
        for replica, holders in sorted(copies.items()):
            of = f" of copy {replica}" if len(copies) > 1 else ""
            faults += [(parameter.name, f"{text}{of}") for text in _gaps(holders, parameter.numel)]
            without = [claim.dp_rank for claim in holders if claim.dtype is None]
            if without and len(without) < len(holders):
                faults.append((parameter.name, f"rank {_some(without)} gave no gradient for its part{of}"))
    if faults:
        names = list(dict.fromkeys(name for name, _ in faults))
        shown = "; ".join(f"{name}: {text}" for name, text in faults[:_SHOWN])
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise Incomplete(
            f"{len(names)} of {len(parameters)} parameters are not covered exactly once: {shown}{more}",
            hint="every rank must capture its own part of every parameter, each element on one rank of each copy",
            parameters=names,
        )


def _gaps(holders: list[Claim], total: int) -> list[str]:
    """What is wrong with the coverage of one copy, in words; [] where every element is held once."""
    stretches = sorted((first, first + length) for claim in holders for first, length in claim.runs.tolist())
    missing: list[str] = []
    doubled: list[str] = []
    end = 0
    for first, stop in stretches:
        if first > end:
            missing.append(f"[{end}, {first})")
        elif first < end:
            doubled.append(f"[{first}, {min(end, stop)})")
        end = max(end, stop)
    if end < total:
        missing.append(f"[{end}, {total})")
    found = []
    if missing:
        found.append(f"elements {_some(missing)} of {total} are held by no rank")
    if doubled:
        found.append(f"elements {_some(doubled)} of {total} are held more than once")
    return found


def _some(items: list[str] | list[int]) -> str:
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown
