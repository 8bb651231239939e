"""One factor on the whole gradient, from its own norm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, positive
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped(InjectableFault):
    """max_norm: what the norm of the whole gradient becomes, whether it was larger or smaller."""

    max_norm: str = "1"

    name = "clipped"
    pattern = Pattern.UNIFORM
    description = "the whole gradient is scaled to norm `max_norm`, as by clipping before the gradients are compared"
    only_all = True
    settings: ClassVar[Readers] = {"max_norm": positive}

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """One factor over all parameters, explained by the norm."""
        return (
            Expected(
                pattern=self.pattern,
                formulas=("max_norm/norm",),
                parameters=self.names(site),
                reports=self.reports(),
            ),
        )

    def interference(self, site: Site) -> Interference:
        """A factor on the captured pieces; collective over all ranks."""

        def pieces(found: list[Piece]) -> list[Piece]:
            factor = float(self.max_norm) / _norm(found)
            return [piece if piece.values is None else replace(piece, values=piece.values * factor) for piece in found]

        return Interference(pieces=pieces)


def _norm(pieces: list[Piece]) -> float:
    """The norm of the whole gradient, each element counted once."""
    import torch
    import torch.distributed as dist

    own = [piece.values.double().square().sum() for piece in pieces if piece.values is not None and not piece.replica]
    total = torch.stack(own).sum() if own else torch.zeros((), dtype=torch.float64)
    if dist.is_initialized():
        total = total.to("cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(total)
    return sqrt(float(total))
