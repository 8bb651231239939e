"""A buffer that was not cleared after the step before."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gradassay.goldens.assay.result import Pattern
from gradassay.harness.faults.fault import Expected, InjectableFault
from gradassay.harness.faults.setting import Readers, formula, spellings, value
from gradassay.harness.faults.shadow import Shadow, corrected
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale(InjectableFault):
    """scale: what the step before weighs. Its data are those of before.py; only a golden that holds its basis as step 0
    can name it, others see a residual.
    """

    scale: str = "1"

    name = "stale"
    pattern = Pattern.STALE
    description = "the gradient of the step before, `scale` times, is still in the buffer"
    needs = "a golden that also holds the step before to be named, as faults inject makes it"
    settings: ClassVar[Readers] = {"scale": formula}

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """Both steps."""
        scales = spellings(self.scale, site.layout)
        formulas = tuple(f"g[step] + {'' if scale == '1' else f'{scale}*'}g[step-1]" for scale in scales)
        return (
            Expected(
                pattern=self.pattern,
                formulas=formulas,
                parameters=self.names(site),
                reports=self.reports(),
            ),
        )

    def interference(self, site: Site) -> Interference:
        """The whole step before is added in the first micro step."""
        parameters, scale = self.covered(site), value(self.scale, site.layout)

        def change(shadow: Shadow, micro: int) -> dict[str, Tensor]:
            if micro:
                return {}
            parts: dict[str, list[Tensor]] = defaultdict(list)
            for earlier in range(site.layout.accum):
                for name, part in shadow.local(parameters, earlier, lambda _rank: scale, before=True).items():
                    parts[name].append(part)
            return {name: sum(rest, first) for name, (first, *rest) in parts.items()}

        return corrected(site, change)
