"""Reductions that were left out: every rank keeps what its own group of ranks computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes.protocol import times
from gradassay.harness.faults.kept import COUNTS, GROUP, OWN, Kept
from gradassay.harness.faults.setting import Readers, below, formula, listed, numbers
from gradassay.harness.faults.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreduced(Kept):
    """factor: what the own units weigh; left out, the number of groups, as where a mean over them is left out."""

    factor: str = ""

    name = "unreduced"
    pattern = Pattern.UNREDUCED
    description = "every rank keeps its own gradient (group=ep, group=replica: its group's), `factor` times"
    needs = "dp > 1, for experts edp > 1; group=ep needs 1 < ep < dp, group=replica needs replicate > 1"
    settings: ClassVar[Readers] = {"group": GROUP, "factor": formula}

    def passed(self, site: Site, micro: int) -> float:
        """Nothing is reduced."""
        return 0.0

    def own(self, site: Site, micro: int) -> float:
        """All micro steps alike."""
        return 1.0

    def scale(self, site: Site, group: str) -> str:
        """The factor."""
        return self.factor or COUNTS[group]

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        return times(scale, OWN[group])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyUnreduced(Kept):
    """reduced: the micro steps that are reduced as they should be."""

    reduced: tuple[int, ...] = (0,)

    name = "partly-unreduced"
    pattern = Pattern.PARTLY_UNREDUCED
    description = (
        "only the micro steps in `reduced` are reduced; of the others every rank keeps its own (group: its group's)"
    )
    needs = "accum > 1, dp > 1, for experts edp > 1"
    settings: ClassVar[Readers] = {"group": GROUP, "reduced": numbers}

    def check(self, site: Site) -> None:
        """Also refuses micro steps that there are not, and all of them."""
        if site.layout.accum == 1:
            raise self.useless(site)
        Kept.check(self, site)
        below(self.reduced, site.layout.accum, "accum")

    def passed(self, site: Site, micro: int) -> float:
        """Some micro steps are reduced."""
        return float(micro in self.reduced)

    def own(self, site: Site, micro: int) -> float:
        """The others."""
        return float(micro not in self.reduced)

    def scale(self, site: Site, group: str) -> str:
        """The number of groups, as where a mean over them is left out."""
        return COUNTS[group]

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        steps = listed(self.reduced).replace("+", ",")
        inside = f"m in {{{steps}}}" if len(self.reduced) > 1 else f"m = {steps}"
        return f"(1 if {inside} else {times(scale, OWN[group])})"
