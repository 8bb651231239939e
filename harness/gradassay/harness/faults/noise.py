"""Errors that no weights on units explain: noise, and lost precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gradassay.goldens.assay.result import Pattern
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, positive
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference
from gradassay.harness.problems.counter import DEVIATION, bells

if TYPE_CHECKING:
    from torch import Tensor

    from gradassay.harness.capture.piece import Piece

_SEED = 41


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained(InjectableFault):
    """size: of the noise, relative to the gradient. The same noise on every copy of a parameter."""

    size: str = "0.1"

    name = "unexplained"
    pattern = Pattern.UNEXPLAINED
    description = "noise of relative size `size` is added to the reduced gradient"
    settings: ClassVar[Readers] = {"size": positive}

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Something outside the units' span."""
        return (Expected(pattern=self.pattern, parameters=self.names(site)),)

    def interference(self, site: Site) -> Interference:
        """Noise on the captured pieces."""
        totals = {parameter.name: parameter.numel for parameter in self.covered(site)}

        def pieces(found: list[Piece]) -> list[Piece]:
            return [_noisy(piece, totals[piece.name], self.size) if piece.name in totals else piece for piece in found]

        return Interference(pieces=pieces)


def _noisy(piece: Piece, total: int, size: str) -> Piece:
    import torch

    if piece.values is None or not len(piece.runs):
        return piece
    drawn = bells(_SEED, piece.name, total) / DEVIATION
    noise = np.concatenate([drawn[first : first + length] for first, length in piece.runs.tolist()])
    own = piece.values.double()
    added = own.square().mean().sqrt() * float(size) * torch.from_numpy(noise).to(own.device)
    return replace(piece, values=(own + added).to(piece.values.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision(InjectableFault):
    """Local gradients rounded before they are reduced."""

    name = "precision"
    pattern = Pattern.UNEXPLAINED
    description = "every local gradient is rounded to bfloat16 before the reduction"
    needs = "dtype float32 or float64"

    def check(self, site: Site) -> None:
        """Also refuses bfloat16, where it would change nothing."""
        InjectableFault.check(self, site)
        if site.dtype == "bfloat16":
            raise self.useless(site)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """A precision class, which has a public report."""
        return (
            Expected(pattern=self.pattern, parameters=self.names(site), reports=self.reports() or ("pytorch-190627",)),
        )

    def interference(self, site: Site) -> Interference:
        """A cast and back."""
        import torch

        names = self.names(site)

        def gradient(name: str, _rank: int, _micro: int, values: Tensor) -> Tensor | None:
            return values.to(torch.bfloat16).to(values.dtype) if name in names else None

        return Interference(gradient=gradient)
