"""What an injected fault is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Basis
from gradassay.goldens.header import Parameter
from gradassay.harness.faults.setting import Readers, listed
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference
from gradassay.harness.strategies import STRATEGIES

ALL = "all"
EVERY_STRATEGY = tuple(STRATEGIES)
SEVERAL_RANKS = tuple(name for name in STRATEGIES if name != "single")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an assay must find of a fault.

    formulas: right-hand sides of the law, any of which will do; () where the pattern alone decides. parameters: canonical
    names that it holds for. weights: [dp, accum], where units explain it. reports: public reports to be named.
    """

    pattern: Pattern
    formulas: tuple[str, ...] = ()
    parameters: frozenset[str]
    weights: NDArray[np.float64] | None = None
    reports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectableFault(ABC):
    """One way to break a step. family: to whose parameters it is done ("all": to every one). report: the public report
    that was asked for, or "".

    name, pattern, description: what it is called, what it looks like and what happens. needs: what a cell must offer.
    strategies: around which it can be injected. only_all: whether it cannot be confined to a family. settings: keys of its
    text beyond the family, each with what reads it.
    """

    family: str = ALL
    report: str = ""

    name: ClassVar[str]
    pattern: ClassVar[Pattern]
    description: ClassVar[str]
    needs: ClassVar[str] = ""
    strategies: ClassVar[tuple[str, ...]] = EVERY_STRATEGY
    only_all: ClassVar[bool] = False
    settings: ClassVar[Readers] = {}

    @abstractmethod
    def interference(self, site: Site) -> Interference:
        """The changes to the step of the site's rank."""

    @abstractmethod
    def expected(self, site: Site) -> tuple[Expected, ...]:
        """The laws that an assay must find, each of other parameters."""

    def check(self, site: Site) -> None:
        """Raises UsageError, saying what the fault needs, where the cell does not offer it."""
        if site.strategy and site.strategy not in self.strategies:
            raise UsageError(
                f"{self} cannot be injected around {site.strategy}",
                hint=f"it {self._needing()}; strategies: {', '.join(self.strategies)}",
            )
        if not self.covered(site):
            families = ", ".join(dict.fromkeys(parameter.family for parameter in site.problem.parameters))
            raise UsageError(
                f"{self}: {site.problem.name} has no parameters of family {self.family!r}",
                hint=f"choose from {families}, or {ALL}",
            )

    def covered(self, site: Site) -> tuple[Parameter, ...]:
        """The parameters of its family."""
        return tuple(p for p in site.problem.parameters if self.family in (ALL, p.family))

    def names(self, site: Site) -> frozenset[str]:
        """Names of the parameters of its family."""
        return frozenset(parameter.name for parameter in self.covered(site))

    def effects(self, site: Site, basis: Basis) -> dict[str, float]:
        """How far it moves the gradient of each parameter that it changes, relative to the truth; inf where it does not say.

        basis: every unit's own gradient.
        """
        seen = np.any(basis.norm2[: site.layout.units] > 0, axis=0)
        return self.sized(site, np.where(seen, np.inf, 0.0))

    def sized(self, site: Site, sizes: NDArray[np.float64]) -> dict[str, float]:
        """The covered parameters among [P] sizes that are above zero, by name."""
        names = self.names(site)
        pairs = zip(site.problem.parameters, sizes.tolist(), strict=True)
        return {parameter.name: size for parameter, size in pairs if size > 0 and parameter.name in names}

    def useless(self, site: Site) -> UsageError:
        """The error for a cell in which the fault would change nothing."""
        return UsageError(
            f"{self} changes nothing in layout {site.layout} of {site.problem.name}", hint=self._needing()
        )

    def reports(self) -> tuple[str, ...]:
        """The report to be named by an assay."""
        return (self.report,) if self.report else ()

    def _needing(self) -> str:
        return f"needs {self.needs}" if self.needs else "choose another cell"

    def __str__(self) -> str:
        default = type(self)()
        changed = []
        for field in fields(self):
            if field.name in self.settings and (mine := getattr(self, field.name)) != getattr(default, field.name):
                changed.append(f"{field.name}={listed(mine) if isinstance(mine, tuple) else mine}")
        return ":".join([self.name, self.family, *([",".join(changed)] if changed else [])])
