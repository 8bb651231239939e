"""Gradients that land on other parameters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.golden import Basis
from gradassay.goldens.header import Parameter
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.shadow import Shadow, corrected
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Permuted(InjectableFault):
    """The two first parameters of every shape change places, and so on in pairs."""

    name = "permuted"
    pattern = Pattern.PERMUTED
    description = "parameters of one shape get each other's gradients, as where a flat buffer is misaligned"
    needs = "two parameters of one shape in the family"

    def check(self, site: Site) -> None:
        """Also refuses families without such a pair."""
        InjectableFault.check(self, site)
        if not self.sources(site):
            raise self.useless(site)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Who has whose gradient."""
        sources = self.sources(site)
        pairs = [f"{p.name} <- {sources[p.name].name}" for p in site.problem.parameters if p.name in sources]
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        return (
            Expected(
                pattern=self.pattern,
                formulas=(f"the gradient of another parameter: {', '.join(pairs[:_SHOWN])}{more}",),
                parameters=frozenset(sources),
                reports=self.reports(),
            ),
        )

    def effects(self, site: Site, basis: Basis) -> dict[str, float]:
        """Those that changed places."""
        sources = self.sources(site)
        return {name: size for name, size in InjectableFault.effects(self, site, basis).items() if name in sources}

    def interference(self, site: Site) -> Interference:
        """Every local gradient is another parameter's."""
        sources = self.sources(site)
        parameters = tuple(sources.values())

        def change(shadow: Shadow, micro: int) -> dict[str, Tensor]:
            own = shadow.local(parameters, micro, lambda _rank: 1.0)
            return {name: own[source.name] for name, source in sources.items()}

        return corrected(site, change, replacing=True)

    def sources(self, site: Site) -> dict[str, Parameter]:
        """Whose gradient each parameter gets; an odd one out keeps its own. Experts stay among experts."""
        alike: dict[tuple[bool, tuple[int, ...]], list[Parameter]] = defaultdict(list)
        for parameter in self.covered(site):
            alike[site.spread(parameter.family), parameter.shape].append(parameter)
        sources: dict[str, Parameter] = {}
        for members in alike.values():
            for one, two in zip(members[::2], members[1::2], strict=False):
                sources |= {one.name: two, two.name: one}
        return sources
