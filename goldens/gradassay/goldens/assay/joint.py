"""One law for a whole matrix: formulas that cannot be told apart in one layout are, in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.assay.cluster import description_bits
from gradassay.goldens.assay.naming import Formula, distinct, separating
from gradassay.goldens.assay.result import Assay, Finding, JointFinding, Law, Pattern, Verdict
from gradassay.goldens.assay.scale import Scale, scales
from gradassay.goldens.assay.shapes import (
    Geometric,
    PartlyUnreduced,
    Place,
    Setting,
    Shape,
    Unreduced,
    known_shapes,
    own_ranks,
)
from gradassay.goldens.faults import look_alikes
from gradassay.goldens.layout import Layout

_TIES = 8
_LEAST_TOLERANCE = 1e-6
_REPORT_BONUS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One assay as seen by one family. finding: None where the family agrees there."""

    name: str
    setting: Setting
    finding: Finding | None


def explain_jointly(assays: Sequence[Assay]) -> tuple[JointFinding, ...]:
    """For every family that diverges anywhere, the one formula that holds in all cells, those that agree included.

    Cells without a verdict on a family say nothing. Where no formula holds everywhere, the finding says so.
    """
    found: dict[tuple[str, tuple[str, ...]], list[tuple[str, JointFinding]]] = {}
    for family in dict.fromkeys(
        family for assay in assays for finding in assay.findings for family in finding.families
    ):
        cells = [cell for assay in assays if (cell := _cell(assay, family)) is not None]
        joint = _explain(family, cells)
        found.setdefault((joint.law.formula, joint.cells), []).append((family, joint))
    known = {parameter.family for assay in assays for parameter in assay.parameters}
    return tuple(_merged([family for family, _ in group], group[0][1], known=known) for group in found.values())


def _cell(assay: Assay, family: str) -> _Cell | None:
    tokens = np.array(assay.tokens or np.ones((assay.layout.dp, assay.layout.accum)), dtype=np.float64)
    setting = Setting(layout=assay.layout, tokens=tokens)
    name = f"{assay.b.title or assay.b.ref} {assay.layout}"
    findings = [finding for finding in assay.findings if family in finding.families]
    if findings:
        return _Cell(name=name, setting=setting, finding=max(findings, key=lambda finding: finding.count))
    seen = [parameter for parameter in assay.parameters if parameter.family == family]
    if seen and all(parameter.verdict is Verdict.AGREE for parameter in seen):
        return _Cell(name=name, setting=setting, finding=None)
    return None


def _explain(family: str, cells: Sequence[_Cell]) -> JointFinding:
    diverging = [cell for cell in cells if cell.finding is not None]
    names = tuple(cell.name for cell in diverging)
    formulas = _formulas(family, cells)
    if not formulas:
        laws = dict.fromkeys(cell.finding.law.formula for cell in diverging if cell.finding)
        same = len(laws) == 1
        pattern = diverging[0].finding.law.pattern if same and diverging[0].finding else Pattern.UNEXPLAINED
        formula = next(iter(laws)) if same else f"no one law holds in all cells: {'; '.join(laws)}"
        return JointFinding(families=(family,), law=Law(pattern=pattern, formula=formula, confidence=0.0), cells=names)
    best, *rest = distinct(sorted(formulas, key=lambda formula: (formula.bits, formula.text)))
    ties = rest[:_TIES]
    law = Law(
        pattern=best.pattern,
        formula=f"w[r,m] = {best.text}",
        scale=str(best.scale),
        ties=tuple(tie.text for tie in ties),
        separated_by=separating(best, ties, diverging[0].setting) if ties else None,
    )
    return JointFinding(families=(family,), law=law, cells=names)


def _merged(families: list[str], joint: JointFinding, *, known: set[str]) -> JointFinding:
    law = joint.law
    who = "all" if len(known) > 1 and known <= set(families) else ", ".join(families)
    texts = [law.formula.removeprefix("w[r,m] = "), *law.ties]
    return JointFinding(
        families=tuple(families),
        law=law,
        cells=joint.cells,
        known_faults=look_alikes(law.pattern, texts, families, whole=False),
        sentence=f"{who} parameters in {len(joint.cells)} cells together: {law.formula}",
    )


def _formulas(family: str, cells: Sequence[_Cell]) -> list[Formula]:
    """The formulas that hold in every cell."""
    largest: dict[str, float] = {}
    for cell in cells:
        for name, value in cell.setting.values.items():
            largest[name] = max(value, largest.get(name, 1.0))
    if all(cell.setting.layout.world == cell.setting.layout.dp for cell in cells):
        largest["world"] = largest["dp"]
    known = scales(largest | {"tokens": 1.0})
    factors = [np.array([scale.value(cell.setting.values) for scale in known]) for cell in cells]
    found = []
    for shape in _shapes(cells, largest):
        for sign in (1, -1):
            held = [_held(shape, sign * factor, cell) for factor, cell in zip(factors, cells, strict=True)]
            for place in np.flatnonzero(np.logical_and.reduce(held)).tolist():
                formula = Formula(shape=shape, scale=known[place], negative=sign < 0)
                bits = description_bits(shape, known[place], expert=family == "expert")
                reports = look_alikes(formula.pattern, [formula.text], [family], whole=True)
                found.append(replace(formula, bits=bits - _REPORT_BONUS * bool(reports)))
    return found


def _shapes(cells: Sequence[_Cell], largest: Mapping[str, float]) -> list[Shape]:
    """Every shape that means something in some cell."""
    owned = any(cell.finding is not None and cell.finding.owners for cell in cells)
    shapes: dict[Shape, None] = {}
    for cell in cells:
        shapes |= dict.fromkeys(known_shapes(cell.setting, stages=1, owners=owned))
    bases = [Scale(powers=((name, 1),)) for name in ("dp", "ep", "edp", "accum") if largest[name] > 1]
    shapes |= dict.fromkeys(Geometric(base, rising) for base in bases for rising in (True, False))
    return list(shapes)


def _held(shape: Shape, factors: NDArray[np.float64], cell: _Cell) -> NDArray[np.bool_]:
    """[n], with which factors a shape gives a cell's weights: what was found, or 1 everywhere where the cell agrees."""
    finding = cell.finding
    if finding is None:
        expected = _weights(shape, cell.setting, Place(owner=0))
        if expected is None:
            return np.zeros(len(factors), dtype=bool)
        return np.asarray(np.abs(np.multiply.outer(factors, expected) - 1).max(axis=(1, 2)) <= _LEAST_TOLERANCE)
    measured = [(owner.rank, owner.weights) for owner in finding.owners or ()]
    if not measured and finding.weights is not None:
        return _close(shape, factors, cell.setting, None, finding.weights, finding)
    held = [_close(shape, factors, cell.setting, rank, weights, finding) for rank, weights in measured]
    return np.logical_and.reduce(held) if held else np.zeros(len(factors), dtype=bool)


def _close(
    shape: Shape,
    factors: NDArray[np.float64],
    setting: Setting,
    owner: int | None,
    weights: Sequence[Sequence[float | None]],
    finding: Finding,
) -> NDArray[np.bool_]:
    expected = _weights(shape, setting, Place(owner=owner))
    measured: NDArray[np.float64] = np.array(weights, dtype=np.float64)
    observed = ~np.isnan(measured)
    if expected is None or not observed.any():
        return np.zeros(len(factors), dtype=bool)
    tolerance = max(_LEAST_TOLERANCE, 8 * (finding.weights_stderr or 0.0), finding.residual or 0.0)
    largest = float(np.abs(measured[observed]).max())
    off = np.abs(np.multiply.outer(factors, expected[observed]) - measured[observed]).max(axis=1)
    return np.asarray(off <= tolerance * largest)


def _weights(shape: Shape, setting: Setting, place: Place) -> NDArray[np.float64] | None:
    """The shape's weights; all are 1 where the layout leaves it nothing to vary with."""
    weights = shape.weights(setting, place)
    if weights is not None:
        return weights
    layout = setting.layout
    if isinstance(shape, Unreduced | PartlyUnreduced):
        flat = place.owner is not None and len(own_ranks(shape.group, layout, place.owner)) == layout.dp
    else:
        flat = layout.accum == 1 or (isinstance(shape, Geometric) and shape.base.value(setting.values) == 1.0)
    return np.ones((layout.dp, layout.accum)) if flat else None


def layouts_within(*, max_ranks: int, max_units: int) -> Iterator[Layout]:
    """Every data- and expert-parallel layout of at most so many ranks and units, smallest first."""
    found = [
        Layout(dp=dp, ep=ep, accum=accum)
        for dp in range(1, max_ranks + 1)
        for ep in range(1, dp + 1)
        for accum in range(1, max_units // dp + 1)
        if dp % ep == 0
    ]
    yield from sorted(found, key=lambda layout: (layout.dp, layout.units, layout.ep))
