"""Gradients that are no gradients: missing, or not finite."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradassay.goldens.assay.result import Pattern
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing(InjectableFault):
    """Parameters that the framework leaves without a gradient, on every rank."""

    name = "missing"
    pattern = Pattern.MISSING
    description = "the framework gives no gradient at all"

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Nothing was given."""
        return (Expected(pattern=self.pattern, parameters=self.names(site)),)

    def interference(self, site: Site) -> Interference:
        """Pieces without values."""
        names = self.names(site)

        def pieces(found: list[Piece]) -> list[Piece]:
            return [replace(piece, values=None) if piece.name in names else piece for piece in found]

        return Interference(pieces=pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite(InjectableFault):
    """The first element of each parameter, wherever it lies."""

    name = "non-finite"
    pattern = Pattern.NON_FINITE
    description = "one element of every gradient is not a number"

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Not a number."""
        return (Expected(pattern=self.pattern, parameters=self.names(site)),)

    def interference(self, site: Site) -> Interference:
        """The rank that holds element 0 spoils it."""
        names = self.names(site)

        def pieces(found: list[Piece]) -> list[Piece]:
            return [_spoiled(piece) if piece.name in names else piece for piece in found]

        return Interference(pieces=pieces)


def _spoiled(piece: Piece) -> Piece:
    before = 0
    for first, length in piece.runs.tolist():
        if first == 0 and length and piece.values is not None:
            values = piece.values.clone()
            values[before] = float("nan")
            return replace(piece, values=values)
        before += length
    return piece
