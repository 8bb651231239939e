"""Parameters whose gradient may be a multiple of another parameter's: all pairs by inner products, before a closer look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.evidence import Evidence
from gradassay.goldens.assay.system import FIT_MARGIN, System

# A gradient of fewer elements is a multiple of another one by luck.
LEAST_ELEMENTS = 3
# What rounding may take from the square of a cosine, by far.
_COSINE_ROUNDING = 1e-9
_AT_ONCE = 256


def alike(systems: Sequence[System], evidence: Evidence) -> Iterator[tuple[System, list[int]]]:
    """Systems that may be a multiple of another parameter's gradient, with those parameters: of the same shape, and with an
    angle between them that is small enough as far as inner products tell.
    """
    shapes: dict[tuple[int, ...], list[int]] = {}
    for index, parameter in enumerate(evidence.parameters):
        shapes.setdefault(parameter.shape, []).append(index)
    asking: dict[tuple[int, ...], list[System]] = defaultdict(list)
    for system in systems:
        large = system.parameter.numel >= LEAST_ELEMENTS
        if large and not system.copied and np.linalg.norm(evidence.measured[system.index]) > 0:
            asking[system.parameter.shape].append(system)
    found: dict[int, list[int]] = {}
    for shape, members in asking.items():
        others = np.array(shapes[shape])
        truths = _directions(evidence.truth[others])
        seen = truths.any(axis=1)
        for first in range(0, len(members), _AT_ONCE):
            several = members[first : first + _AT_ONCE]
            cosines = _directions(evidence.measured[[system.index for system in several]]) @ truths.T
            for system, row in zip(several, cosines, strict=True):
                other = others != system.index
                near = other & (1 - row**2 <= (FIT_MARGIN * system.tolerance.error) ** 2 + _COSINE_ROUNDING)
                if near.any() and (seen & other).any():
                    found[system.index] = others[near].tolist()
    for system in systems:
        if system.index in found:
            yield system, found[system.index]


def _directions(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of norm 1, or 0."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms == 0, 1.0, norms))
