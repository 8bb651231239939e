"""The mutation score of a golden: how many made-up faults it would show, family by family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.noise import tolerance
from gradassay.goldens.golden import Golden
from gradassay.goldens.sketch import BUCKETS

RANKS = 2
"""The data-parallel size that the made-up faults are made up in."""
_STORED = 2.0**-24


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A made-up fault that does not show, and the families in which it does not."""

    mutation: str
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationScore:
    """caught of `of` pairs of a made-up fault and a family."""

    caught: int
    of: int
    missed: tuple[Missed, ...]

    def to_json(self) -> dict[str, Any]:
        """The score as JSON values."""
        missed = [{"mutation": one.mutation, "families": list(one.families)} for one in self.missed]
        return {"caught": self.caught, "of": self.of, "missed": missed}


def mutation_score(golden: Golden) -> MutationScore:
    """The score over all units of the golden.

    A fault weighs units wrongly; it shows in a family where it moves some parameter by more than an honest run may be
    away from the truth. A fault of units that a family never saw (an idle expert) does not.
    """
    header, basis = golden.header, golden.bases[1]
    coefficients = golden.true_coefficients(len(header.units))
    by_parameter = basis.sketch.transpose(1, 0, 2)
    # [P, U, U]: products of the units' gradients, of which every weighted sum's length follows.
    products = by_parameter @ by_parameter.transpose(0, 2, 1)
    allowed = np.array(
        [
            tolerance(
                header.noise[parameter.family],
                tests=len(header.parameters),
                elements=min(parameter.numel, BUCKETS),
                storage=_STORED,
            ).error
            if parameter.family in header.noise
            else np.inf
            for parameter in header.parameters
        ]
    )
    least = allowed * _lengths(products, coefficients)
    rows = {family: [n for n, p in enumerate(header.parameters) if p.family == family] for family in header.noise}
    caught, missed = 0, []
    mutations = list(_mutations(len(header.units)))
    for name, weights in mutations:
        moved = _lengths(products, coefficients * (weights - 1.0)) > least
        unseen = tuple(family for family, places in rows.items() if not moved[places].any())
        caught += len(rows) - len(unseen)
        if unseen:
            missed.append(Missed(mutation=name, families=unseen))
    return MutationScore(caught=caught, of=len(mutations) * len(rows), missed=tuple(missed))


def _lengths(products: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = np.einsum("u,puv,v->p", weights, products, weights, optimize=True)
    lengths: NDArray[np.float64] = np.sqrt(np.maximum(squares, 0.0))
    return lengths


def _mutations(units: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Names and weights [units] of the faults; what a golden of few units cannot tell from health is left out."""
    yield "twice too large", np.full(units, 2.0)
    yield "half too small", np.full(units, 0.5)
    if units > 1:
        for unit in range(units):
            yield f"unit {unit} lost", 1.0 - np.eye(units)[unit]
    steps = np.arange(units) // RANKS
    if steps[-1]:
        last = int(steps[-1])
        yield "only the last micro-batch", (steps == last).astype(np.float64)
        yield "only the first micro-batch", (steps == 0).astype(np.float64)
        yield "micro-batches weigh dp**(m-M+2)", np.power(float(RANKS), steps - last + 1)
        yield "rank 0 only", (np.arange(units) % RANKS == 0).astype(np.float64)
