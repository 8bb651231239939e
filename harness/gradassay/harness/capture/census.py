"""Who holds what, as all ranks know it, and the proof that nothing is missing or counted twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.errors import Incomplete
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.exchange import Exchange
from gradassay.harness.capture.measured import Held, digests

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One piece of one rank. runs: [n, 2] int64. present: it has a gradient. digest: of its place and bytes."""

    dp_rank: int
    index: int
    replica: int
    present: bool
    digest: int
    runs: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Claims of all ranks by parameter and copy, each copy proved to cover its parameter exactly once.

    claims: [parameter][replica number] -> claims in the order of ranks.
    """

    claims: tuple[dict[int, list[Claim]], ...]

    def present(self, index: int) -> bool:
        """Whether the framework gave a gradient for the parameter."""
        return any(claim.present for claim in self.claims[index][0])

    def disagree(self, index: int) -> bool:
        """Whether the copies of a parameter differ in any bit."""
        copies = [sorted(claim.digest for claim in claims) for claims in self.claims[index].values()]
        return any(copy != copies[0] for copy in copies)

    def holders(self, index: int) -> dict[int, list[int]]:
        """Data-parallel rank -> numbers of the copies that it holds (a part of): several where it is several ranks."""
        found: dict[int, list[int]] = defaultdict(list)
        for claims in self.claims[index].values():
            for claim in claims:
                if claim.replica not in found[claim.dp_rank]:
                    found[claim.dp_rank].append(claim.replica)
        return found

    def shards(self, index: int) -> tuple[tuple[int, int, int], ...] | None:
        """(dp rank, first element, end) of copy 0, sorted by place; None for copies that one rank holds whole."""
        copies, first = self.claims[index], self.claims[index][0]
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
        [
            [dp_rank, piece.index, piece.replica, piece.values is not None, digest, len(piece.runs)]
            for piece, digest in zip(pieces, digests(pieces), strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 6)
    runs = np.concatenate([piece.runs.astype(np.int64) for piece in pieces] or [np.empty((0, 2), dtype=np.int64)])
    by_parameter: list[dict[int, list[Claim]]] = [defaultdict(list) for _ in parameters]
    for rank_heads, rank_runs in zip(exchange.tables(heads), exchange.tables(runs), strict=True):
        before = 0
        for owner, index, replica, present, digest, count in rank_heads.tolist():
            claim = Claim(
                dp_rank=owner,
                index=index,
                replica=replica,
                present=bool(present),
                digest=digest,
                runs=rank_runs[before : before + count],
            )
            before += count
            if count or not parameters[index].numel:
                by_parameter[index][replica].append(claim)
    _check(by_parameter, parameters)
    return Census(claims=tuple(dict(sorted(copies.items())) for copies in by_parameter))


def _check(claims: list[dict[int, list[Claim]]], parameters: tuple[Parameter, ...]) -> None:
    faults: list[tuple[str, str]] = []
    for parameter, copies in zip(parameters, claims, strict=True):
        if 0 not in copies:
            faults.append((parameter.name, "no rank holds it"))
        for replica, holders in sorted(copies.items()):
            of = f" of copy {replica}" if len(copies) > 1 else ""
            faults += [(parameter.name, f"{text}{of}") for text in _gaps(holders, parameter.numel)]
            without = [claim.dp_rank for claim in holders if not claim.present]
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
