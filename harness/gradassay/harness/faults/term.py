"""One term of the loss, mis-scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Basis
from gradassay.harness.faults.fault import ALL, Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, formula, spellings, value
from gradassay.harness.faults.shadow import Shadow, corrected
from gradassay.harness.faults.site import Site
from gradassay.harness.faults.weighted import relative
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Term(InjectableFault):
    """term: which one, the last of the problem's where none is named. scale: what it weighs.

    On all parameters the loss term itself is multiplied; on a family the local gradients are corrected by the term's own.
    """

    term: str = ""
    scale: str = "1/dp"

    name = "term"
    pattern = Pattern.TERM
    description = "one term of the loss (`term`, by default the auxiliary one) is `scale` times too large"
    needs = "a problem with several loss terms, such as moe-tiny, and a layout in which scale is not 1"
    settings: ClassVar[Readers] = {"term": str, "scale": formula}

    def check(self, site: Site) -> None:
        """Also refuses problems of one term, and terms that there are not."""
        InjectableFault.check(self, site)
        if len(site.problem.terms) < 2 or value(self.scale, site.layout) == 1:
            raise self.useless(site)
        if self._chosen(site) not in site.problem.terms:
            raise UsageError(
                f"{self}: {site.problem.name} has no loss term {self.term!r}",
                hint=f"choose from {', '.join(site.problem.terms)}",
            )

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """The term's own weight."""
        return (
            Expected(
                pattern=self.pattern,
                formulas=spellings(self.scale, site.layout),
                parameters=self.names(site),
                reports=self.reports(),
            ),
        )

    def effects(self, site: Site, basis: Basis) -> dict[str, float]:
        """From the term's own gradients: it does not reach every parameter."""
        true = site.coefficients.T.ravel()
        change = true * (value(self.scale, site.layout) - 1)
        return self.sized(site, relative(change, true, basis.terms[self._chosen(site)], basis.sketch))

    def interference(self, site: Site) -> Interference:
        """Another weight on the term."""
        chosen, scale = self._chosen(site), value(self.scale, site.layout)
        if self.family == ALL:

            def terms(losses: dict[str, Tensor], _rank: int, _micro: int) -> dict[str, Tensor]:
                return {**losses, chosen: losses[chosen] * scale}

            return Interference(terms=terms)
        parameters = self.covered(site)

        def change(shadow: Shadow, micro: int) -> dict[str, Tensor]:
            return shadow.local(parameters, micro, lambda _rank: scale - 1, term=chosen)

        return corrected(site, change)

    def _chosen(self, site: Site) -> str:
        return self.term or site.problem.terms[-1]
