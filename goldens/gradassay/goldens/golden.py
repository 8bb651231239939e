"""The golden file: the gradient of every unit alone, what they add up to, and how honest runs round."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.container import FORMAT, Container, invalid, open_container, to_bytes
from gradassay.goldens.header import GoldenHeader, check_parameters, dump_header, parse_header
from gradassay.goldens.sketch import BUCKETS, LARGEST

# Step 0 is what came before the first step that records hold: where buffers that were not cleared have their gradient from.
_SKETCH = re.compile(r"basis\.(0|[1-9][0-9]{0,8})\.sketch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The gradient of every unit's mean loss at one step.

    sketch: [U, P, 1024] float64. norm2: [U, P] float64. terms: [U, P, 1024] by name where the objective is a sum.
    """

    sketch: NDArray[np.float64]
    norm2: NDArray[np.float64]
    terms: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Basis, noise floor and references of one problem in one dtype profile.

    bases: by step, from 1; 0 is the step before, which only explains.
    """

    header: GoldenHeader
    bases: Mapping[int, Basis]

    @property
    def name(self) -> str:
        """The name under which versions are kept: problem and parameter dtype."""
        return f"{self.header.problem.name}.{self.header.dtype}"

    def true_coefficients(self, units: int) -> NDArray[np.float64]:
        """[units] float64: by how much each unit's own gradient counts in the truth of the first `units` units."""
        if self.header.objective == "unit-mean":
            return np.full(units, 1.0 / units)
        tokens = np.array([unit.tokens for unit in self.header.units[:units]], dtype=np.float64)
        total = tokens.sum()
        return tokens / total if total else np.zeros(units)

    def says_the_same(self, other: Golden) -> bool:
        """Whether the other one differs at most in when it was made, and so in the digests of the same references' records."""
        return _undated(self.header) == _undated(other.header) and self._arrays_equal(other)

    def _arrays_equal(self, other: Golden) -> bool:
        ours, theirs = self._arrays(), other._arrays()
        return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)

    def to_bytes(self) -> bytes:
        """The golden's file content."""
        return to_bytes(dump_header(self.header, "golden", FORMAT), self._arrays())

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        arrays: dict[str, NDArray[np.generic]] = {}
        for step, basis in self.bases.items():
            arrays[f"basis.{step}.sketch"] = basis.sketch
            arrays[f"basis.{step}.norm2"] = basis.norm2
            for term, sketch in basis.terms.items():
                arrays[f"basis.{step}.sketch.{term}"] = sketch
        return arrays

    def write(self, path: Path) -> None:
        """Writes the file so that it appears whole or not at all."""
        write_atomically(path, self.to_bytes())


def _undated(header: GoldenHeader) -> GoldenHeader:
    references = tuple(replace(reference, record="") for reference in header.references)
    return replace(header, references=references, created="")


def read_golden(path: Path) -> Golden:
    """The golden at `path`; raises InvalidFile or UnknownFormat where header and arrays do not agree."""
    container = open_container(path, "golden")
    header = parse_header(GoldenHeader, container.document, path)
    check_parameters(header.parameters, path)
    if not header.units or any(unit.tokens < 0 for unit in header.units):
        invalid(path, "units", "at least one, with tokens of at least 0", [unit.tokens for unit in header.units][:8])
    for family, floor in header.noise.items():
        if not (0 <= floor.q50 <= floor.q999 < np.inf and floor.samples >= 1):
            invalid(path, f"noise: {family}", "0 <= q50 <= q999 and samples of at least 1", floor)
    if len(set(header.terms)) != len(header.terms):
        invalid(path, "terms", "each name once", list(header.terms))
    steps = sorted(int(match[1]) for name in container.names if (match := _SKETCH.fullmatch(name)))
    if 1 not in steps:
        invalid(path, "basis.1.sketch", "an array of this name", "none")
    return Golden(header=header, bases={step: _basis(container, step, header) for step in steps})


def _basis(container: Container, step: int, header: GoldenHeader) -> Basis:
    units, count = len(header.units), len(header.parameters)

    def read(name: str, shape: tuple[int, ...], limit: float = LARGEST) -> NDArray[np.float64]:
        values = container.array(name, shape=shape, kinds=("F64", "F32")).astype(np.float64, copy=False)
        if not (-limit <= values.min(initial=0.0) and values.max(initial=0.0) <= limit):
            position = np.argwhere(~(np.abs(values) <= limit))[0]
            item = f"{name}: unit {position[0]}, {header.parameters[int(position[1])].name}"
            invalid(container.path, item, f"finite values of at most {limit:.4g}", "NaN, infinity or more")
        return values

    prefix = f"basis.{step}.sketch"
    return Basis(
        sketch=read(prefix, (units, count, BUCKETS)),
        norm2=read(f"basis.{step}.norm2", (units, count), limit=np.finfo(np.float64).max),
        terms={term: read(f"{prefix}.{term}", (units, count, BUCKETS)) for term in header.terms},
    )
