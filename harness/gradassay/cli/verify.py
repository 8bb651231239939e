"""The checks of `gradassay golden verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.assay.truth import assay_truth
from gradassay.goldens.container import digest_of_file, invalid
from gradassay.goldens.errors import GoldenRefused
from gradassay.goldens.golden import read_golden
from gradassay.goldens.header import Parameter
from gradassay.goldens.report import numbers
from gradassay.goldens.sketch import BUCKETS, ROW, SEGMENTS

if TYPE_CHECKING:
    from pathlib import Path

    from gradassay.goldens.golden import Golden

ROUNDING = 1e-6
"""Relative rounding of a squared norm that was computed from float32 sketches."""


def verify_golden(path: Path) -> list[tuple[str, str]]:
    """Names and results of the checks, all of them passed.

    Raises InvalidFile for the first that is not, GoldenRefused where the golden cannot judge its own truth.
    """
    golden = read_golden(path)
    checks = [("digest", digest_of_file(path))]
    header = golden.header
    checks.append(("header", f"{header.problem.name}, {len(header.parameters)} parameters, {len(header.units)} units"))
    checks.append(("noise floor", _noise(golden, path)))
    checks.append(("norms", _norms(golden, path)))
    checks.append(("truth", _truth(golden, path)))
    return checks


def _noise(golden: Golden, path: Path) -> str:
    families = {parameter.family for parameter in golden.header.parameters}
    missing = sorted(families - golden.header.noise.keys())
    if missing:
        invalid(path, "noise", f"a floor for each of {', '.join(sorted(families))}", f"none for {', '.join(missing)}")
    return f"measured for {', '.join(sorted(families))}"


def _norms(golden: Golden, path: Path) -> str:
    """The exact norms against those of the sketches: the same for small parameters, of the same size for large ones."""
    ratios: list[float] = []
    for step, basis in golden.bases.items():
        sketched = np.einsum("upk,upk->up", basis.sketch, basis.sketch)
        for index, parameter in enumerate(golden.header.parameters):
            exact, estimated = basis.norm2[:, index], sketched[:, index]
            least, most = _bounds(parameter)
            outside = (estimated < least * exact) | (estimated > most * exact)
            if outside.any():
                unit = int(np.argmax(outside))
                _refuse(path, step, f"unit {unit}, {parameter.name}", estimated[unit], exact[unit])
            ratios.extend(estimated[exact > 0] / exact[exact > 0])
    middle = float(np.median(ratios)) if ratios else 1.0
    if not 0.5 < middle < 2.0:
        _refuse(path, 1, "the median over units and parameters", middle, 1.0)
    return f"sketches hold {middle:.4f} times the exact sums of squares (median of {len(ratios)})"


def _truth(golden: Golden, path: Path) -> str:
    assay = assay_truth(golden)
    if assay.verdict is not Verdict.AGREE:
        raise GoldenRefused(f"{path}: the assay of its own truth says: {assay.sentence}", path=str(path))
    factors = ", ".join(f"{family} {numbers.power(value)}" for family, value in sorted(assay.power.items()))
    return f"agrees with itself; smallest factor flagged: {factors}"


def _bounds(parameter: Parameter) -> tuple[float, float]:
    """Least and most that a sketch's squared norm can be of the exact one.

    Equal up to rounding where the sketch holds the elements; else a bucket sums n elements with signs, and the square
    of a sum is at most n times the sum of squares.
    """
    if parameter.numel <= BUCKETS:
        return 1 - ROUNDING, 1 + ROUNDING
    rows = -(-parameter.numel // ROW)
    return 0.0, -(-rows // SEGMENTS) * (1 + ROUNDING)


def _refuse(path: Path, step: int, where: str, estimated: float, exact: float) -> NoReturn:
    invalid(
        path,
        f"basis.{step}.norm2: {where}",
        f"{estimated:.6g}, the squared norm of its sketch",
        f"{exact:.6g}",
        hint="basis and norms are of different gradients; build the golden again",
    )
