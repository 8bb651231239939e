"""Faults that weigh units otherwise than the objective does: before the reduction, whatever the strategy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.golden import Basis
from gradassay.harness.faults.fault import ALL, Expected, InjectableFault
from gradassay.harness.faults.shadow import Shadow, corrected
from gradassay.harness.faults.site import Site
from gradassay.harness.interference import Interference

if TYPE_CHECKING:
    from torch import Tensor

_UNTOUCHED = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedFault(InjectableFault):
    """A fault that is weights on units and nothing else.

    On all parameters it multiplies the loss, on a family its local gradients. Where ranks of one ep group are weighed
    otherwise, an expert's local gradient, which holds all of their units, is corrected by the units' own gradients.
    """

    @abstractmethod
    def weights(self, site: Site) -> NDArray[np.float64]:
        """[dp, accum]: what every unit weighs relative to what it should."""

    @abstractmethod
    def formulas(self, site: Site) -> tuple[str, ...]:
        """Right-hand sides of w[r,m], any of which names it."""

    def check(self, site: Site) -> None:
        """Also refuses a cell in which every weight is 1."""
        InjectableFault.check(self, site)
        if np.allclose(self.weights(site), 1, rtol=0, atol=1e-12):
            raise self.useless(site)

    def expected(self, site: Site) -> tuple[Expected, ...]:
        """One law for all of its parameters."""
        return (
            Expected(
                pattern=self.pattern,
                formulas=self.formulas(site),
                parameters=self.names(site),
                weights=self.weights(site),
                reports=self.reports(),
            ),
        )

    def effects(self, site: Site, basis: Basis) -> dict[str, float]:
        """From every unit's own gradient, without what rounding could have made."""
        true = site.coefficients.T.ravel()
        sizes = relative(true * (self.weights(site).T.ravel() - 1), true, basis.sketch, basis.sketch)
        return self.sized(site, np.where(sizes > _UNTOUCHED, sizes, 0.0))

    def interference(self, site: Site) -> Interference:
        """Weights on the loss, on local gradients, or as a correction of them."""
        weights = self.weights(site)
        if self.family == ALL:

            def terms(losses: dict[str, Tensor], rank: int, micro: int) -> dict[str, Tensor]:
                return {term: loss * float(weights[rank, micro]) for term, loss in losses.items()}

            return Interference(terms=terms)
        if np.ptp(weights[list(site.sources(self.family))], axis=0).any():
            parameters = self.covered(site)

            def change(shadow: Shadow, micro: int) -> dict[str, Tensor]:
                return shadow.local(parameters, micro, lambda rank: float(weights[rank, micro]) - 1)

            return corrected(site, change)
        names = self.names(site)

        def gradient(name: str, rank: int, micro: int, values: Tensor) -> Tensor | None:
            return values * float(weights[rank, micro]) if name in names else None

        return Interference(gradient=gradient)


def relative(
    change: NDArray[np.float64], true: NDArray[np.float64], of: NDArray[np.float64], basis: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[P]: the norm of `change` [units] times vectors `of` [U, P, 1024], relative to `true` [units] times the basis."""
    away = np.linalg.norm(np.tensordot(change, of[: len(change)], 1), axis=1)
    truth = np.linalg.norm(np.tensordot(true, basis[: len(true)], 1), axis=1)
    sizes: NDArray[np.float64] = np.divide(away, truth, out=np.where(away > 0, np.inf, 0.0), where=truth > 0)
    return sizes
