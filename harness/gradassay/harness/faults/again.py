"""Reductions that are done once too often: of an owner's own gradient, or from where they were reduced into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.assay.shapes import ReducedInPlace
from gradassay.harness.faults.kept import COUNTS, GROUP, OWN, Kept
from gradassay.harness.faults.setting import Readers, one_of
from gradassay.harness.faults.site import Site

_SWITCH = one_of("", "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAgain(Kept):
    """whole: "true" where the own gradient is added as it is, not as its part of the mean."""

    whole: str = ""

    name = "own-again"
    pattern = Pattern.OWN_AGAIN
    description = "every rank adds its own gradient (group: its group's) to the reduced one, whole=true: undivided"
    needs = "dp > 1, for experts edp > 1; group=ep needs 1 < ep < dp, group=replica needs replicate > 1"
    settings: ClassVar[Readers] = {"group": GROUP, "whole": _SWITCH}

    def passed(self, site: Site, micro: int) -> float:
        """Everything is reduced as it should be."""
        return 1.0

    def own(self, site: Site, micro: int) -> float:
        """All micro steps alike."""
        return 1.0

    def scale(self, site: Site, group: str) -> str:
        """1, or the number of groups."""
        return COUNTS[group] if self.whole else "1"

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        return f"(1 + {f'{scale}*' if self.whole else ''}{OWN[group]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedAgain(Kept):
    """twice: "true" where a second reduction follows the last one; else each starts from where the last was reduced into."""

    group: str = "rank"
    twice: str = ""

    name = "reduced-again"
    pattern = Pattern.REDUCED_AGAIN
    description = "a shard is reduced into the buffer that the next reduction reads; twice=true: one more at the end"
    needs = "dp > 1, ep = 1 or no experts among them, and accum > 1 or twice=true"
    settings: ClassVar[Readers] = {"twice": _SWITCH}

    def check(self, site: Site) -> None:
        """Also refuses where there is one micro step, or an ep group's gradients cannot be told apart."""
        Kept.check(self, site)
        spread = any(site.spread(parameter.family) for parameter in self.covered(site))
        if spread or (site.layout.accum == 1 and not self.twice):
            raise self.useless(site)

    def _weights(self, site: Site, micro: int) -> tuple[float, float]:
        """Of the owner's units, and of the others'."""
        dp = site.layout.dp
        later = 1 if self.twice else site.layout.accum - 1 - micro
        return dp**-later, sum(dp**-power for power in range(later + 1))

    def passed(self, site: Site, micro: int) -> float:
        """What the other ranks' units weigh."""
        return self._weights(site, micro)[1]

    def own(self, site: Site, micro: int) -> float:
        """How much less the owner's units weigh."""
        own, others = self._weights(site, micro)
        return own - others

    def scale(self, site: Site, group: str) -> str:
        """1."""
        return "1"

    def text(self, site: Site, group: str, scale: str) -> str:
        """The law's right-hand side."""
        return ReducedInPlace(twice=bool(self.twice)).text("1")
