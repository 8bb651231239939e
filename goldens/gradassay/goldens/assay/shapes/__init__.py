"""Shapes that weights take over ranks and micro steps, before a scale: w[r,m] = s * shape(r,m)."""

from gradassay.goldens.assay.shapes.again import OwnAgain
from gradassay.goldens.assay.shapes.geometric import Geometric, StageGeometric
from gradassay.goldens.assay.shapes.in_place import ReducedInPlace
from gradassay.goldens.assay.shapes.known import known_shapes
from gradassay.goldens.assay.shapes.micro import Linear, MicroStep
from gradassay.goldens.assay.shapes.protocol import Place, Setting, Shape
from gradassay.goldens.assay.shapes.read import read_shapes
from gradassay.goldens.assay.shapes.subset import Subset
from gradassay.goldens.assay.shapes.tokens import TokenWeighting
from gradassay.goldens.assay.shapes.uniform import Uniform
from gradassay.goldens.assay.shapes.unreduced import PartlyUnreduced, Unreduced, group_count, own_ranks

__all__ = [
    "Geometric",
    "Linear",
    "MicroStep",
    "OwnAgain",
    "PartlyUnreduced",
    "Place",
    "ReducedInPlace",
    "Setting",
    "Shape",
    "StageGeometric",
    "Subset",
    "TokenWeighting",
    "Uniform",
    "Unreduced",
    "group_count",
    "known_shapes",
    "own_ranks",
    "read_shapes",
]
