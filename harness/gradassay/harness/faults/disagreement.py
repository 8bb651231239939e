"""Copies of one gradient that differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Basis
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, below, formula, listed, numbers, spellings, value
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from gradassay.harness.capture.piece import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDisagreement(InjectableFault):
    """ranks: those that scale what they hold; the last one, or those of the last replica, where none are named."""

    ranks: tuple[int, ...] = ()
    scale: str = "1.5"

    name = "rank-disagreement"
    pattern = Pattern.RANK_DISAGREEMENT
    description = "after the reduction some ranks (`ranks`) hold `scale` times what the others hold"
    needs = "parameters that several ranks hold a copy or a share of: dp > 1, for experts edp > 1"
    strategies = ("ddp", "fsdp2", "hsdp", "deepspeed-zero0", "deepspeed-zero3")
    settings: ClassVar[Readers] = {"ranks": numbers, "scale": formula}

    def check(self, site: Site) -> None:
        """Also refuses where every parameter has one holder, and ranks that there are not."""
        InjectableFault.check(self, site)
        if not self.shared(site) or value(self.scale, site.layout) == 1:
            raise self.useless(site)
        below(self.chosen(site), site.layout.dp, "dp")

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """A factor on the owners that disagree."""
        owners = listed(self.chosen(site)).replace("+", ",")
        return (
            Expected(
                pattern=self.pattern,
                formulas=tuple(
                    f"{scale} if owner in {{{owners}}} else 1" for scale in spellings(self.scale, site.layout)
                ),
                parameters=self.shared(site),
                reports=self.reports(),
            ),
        )

    def effects(self, site: Site, basis: Basis) -> dict[str, float]:
        """Those that several ranks hold, one of the chosen among them."""
        shared, places = self.shared(site), {rank % site.layout.ep for rank in self.chosen(site)}
        each = site.problem.experts // site.layout.ep
        away = {p.name for p in self.covered(site) if site.spread(p.family) and number_of(p.name) // each not in places}
        every = InjectableFault.effects(self, site, basis)
        return {name: size for name, size in every.items() if name in shared and name not in away}

    def interference(self, site: Site) -> Interference:
        """A factor on the pieces of the chosen ranks."""
        shared, factor = self.shared(site), value(self.scale, site.layout)

        def pieces(found: list[Piece]) -> list[Piece]:
            if site.rank not in self.chosen(site):
                return found
            return [
                replace(piece, values=piece.values * factor)
                if piece.name in shared and piece.values is not None
                else piece
                for piece in found
            ]

        return Interference(pieces=pieces)

    def chosen(self, site: Site) -> tuple[int, ...]:
        dp, replicate = site.layout.dp, site.layout.replicate
        size = dp // replicate if replicate > 1 else 1
        return self.ranks or tuple(range(dp - size, dp))

    def shared(self, site: Site) -> frozenset[str]:
        """Names of the covered parameters that several ranks hold."""
        layout = site.layout
        holders = {
            parameter.name: layout.edp if site.spread(parameter.family) else layout.dp
            for parameter in self.covered(site)
        }
        return frozenset(name for name, count in holders.items() if count > 1)


def number_of(name: str) -> int:
    """The number of an expert in a canonical name such as `layers.0.moe.experts.7.up.weight`; UsageError for another name."""
    number = name.partition("experts.")[2].partition(".")[0]
    if not number.isdecimal():
        raise UsageError(f"{name} says no expert's number", hint="name experts as in layers.0.moe.experts.7.up.weight")
    return int(number)
