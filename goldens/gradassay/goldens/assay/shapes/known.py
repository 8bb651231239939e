"""Every shape that needs no look at the weights."""

from __future__ import annotations

from collections.abc import Iterator

from gradassay.goldens.assay.scale import Scale
from gradassay.goldens.assay.shapes.again import OwnAgain
from gradassay.goldens.assay.shapes.geometric import Geometric, StageGeometric
from gradassay.goldens.assay.shapes.in_place import ReducedInPlace
from gradassay.goldens.assay.shapes.micro import Linear, MicroStep
from gradassay.goldens.assay.shapes.protocol import Setting, Shape
from gradassay.goldens.assay.shapes.tokens import TokenWeighting
from gradassay.goldens.assay.shapes.uniform import Uniform
from gradassay.goldens.assay.shapes.unreduced import PartlyUnreduced, Unreduced


def known_shapes(setting: Setting, *, stages: int, owners: bool) -> Iterator[Shape]:
    """Every shape that needs no look at the weights, simplest first within its kind."""
    layout = setting.layout
    yield Uniform()
    if not setting.resolved:
        return
    names = ("dp", "ep", "edp", "accum", "pp", "tp", "cp", "replicate")
    bases = [Scale(powers=((name, 1),)) for name in names if name != "edp" or layout.ep > 1]
    bases.append(Scale(constant=2.0))
    bases = [base for base in bases if base.value(setting.values) != 1.0]
    if layout.accum > 1:
        yield from (Geometric(base, rising) for base in bases for rising in (True, False))
        yield from (Linear(rising=False), Linear(rising=True), MicroStep(last=True), MicroStep(last=False))
    if stages > 1:
        yield from (StageGeometric(base, rising) for base in bases for rising in (True, False))
    yield from (TokenWeighting(over, inverse) for over in ("unit", "rank", "micro") for inverse in (False, True))
    if owners:
        yield from (ReducedInPlace(twice) for twice in (False, True))
        inner: list[Shape] = [Uniform()]
        if layout.accum > 1:
            inner += [MicroStep(last=True), MicroStep(last=False)]
            inner += [Geometric(base, rising) for base in bases for rising in (True, False)]
        for group in ("rank", "ep", "replica"):
            yield from (OwnAgain(group, whole) for whole in (False, True))
            yield from (Unreduced(group, shape) for shape in inner)
            for count in range(1, layout.accum):
                for reduced in dict.fromkeys((tuple(range(count)), tuple(range(layout.accum - count, layout.accum)))):
                    yield from (PartlyUnreduced(group, reduced, averaged) for averaged in (False, True))
