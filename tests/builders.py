"""Small goldens and records with known weights, made with numpy alone: what the harness would capture of a linear toy.

A `Toy` holds the whole gradient of every unit. Its golden is the basis; a record of it is
`sum over u of c_true[u] * w[u] * g[u]` with chosen weights, plus rounding of a chosen relative size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradassay.goldens.golden import Basis, Golden
from gradassay.goldens.header import (
    DtypeProfile,
    Framework,
    GoldenHeader,
    NoiseFloor,
    Parameter,
    Problem,
    RecordHeader,
    Reference,
    StageStep,
    Unit,
)
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record
from gradassay.goldens.sketch import sketch

CREATED = "2026-11-30T12:00:00Z"
ROUNDING = {"float32": 3e-8, "bfloat16": 2e-3, "float64": 1e-16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """A made-up problem. terms: by term and parameter, [U, numel] float64; the unit's gradient is their sum."""

    name: str
    objective: str
    tokens: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    terms: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(repr=False)

    @property
    def problem(self) -> Problem:
        """Name and digest, the digest over everything that makes the problem."""
        digest = hashlib.sha256(repr((self.name, self.objective, self.tokens, self.parameters)).encode())
        for gradients in self.terms.values():
            for values in gradients.values():
                digest.update(values.tobytes())
        return Problem(name=self.name, digest=f"sha256:{digest.hexdigest()}")

    def unit_gradients(self, parameter: str, scales: Mapping[str, float] | None = None) -> NDArray[np.float64]:
        """[U, numel]: each unit's own gradient of the named parameter, each term multiplied by its scale (1)."""
        return np.sum(
            [(scales or {}).get(term, 1.0) * values[parameter] for term, values in self.terms.items()], axis=0
        )

    def coefficients(self, units: int) -> NDArray[np.float64]:
        """[units]: what the objective gives each of the first `units` units."""
        if self.objective == "unit-mean":
            return np.full(units, 1 / units)
        tokens = np.array(self.tokens[:units], dtype=np.float64)
        return tokens / tokens.sum()


def make_toy(
    *,
    name: str = "toy",
    families: Mapping[str, Sequence[Sequence[int]]] | None = None,
    units: int = 12,
    objective: str = "unit-mean",
    tokens: Sequence[int] | None = None,
    terms: Sequence[str] = ("loss",),
    idle: Mapping[str, Sequence[int]] | None = None,
    common: float = 0.5,
    seed: int = 0,
) -> Toy:
    """A problem of random gradients. families: shapes by family; its parameters are called `<family>.<number>.weight`.

    idle: by parameter, the units whose gradient is exactly zero. common: the part that all units share, relative to
    each unit's own, so that units are as collinear as wanted.
    """
    shapes = families or {"dense": [(24, 16), (48,)], "expert": [(40, 36), (40, 36)], "norm": [(16,)]}
    parameters = tuple(
        Parameter(name=f"{family}.{number}.weight", shape=tuple(shape), family=family)
        for family, members in shapes.items()
        for number, shape in enumerate(members)
    )
    random = np.random.default_rng(seed)
    gradients: dict[str, dict[str, NDArray[np.float64]]] = {}
    for term in terms:
        gradients[term] = {}
        for parameter in parameters:
            shared = common * random.standard_normal(parameter.numel)
            values = shared + random.standard_normal((units, parameter.numel))
            values[list((idle or {}).get(parameter.name, ()))] = 0.0
            gradients[term][parameter.name] = values
    counts = tuple(tokens) if tokens is not None else (512,) * units
    return Toy(name=name, objective=objective, tokens=counts, parameters=parameters, terms=gradients)


def make_golden(toy: Toy | None = None, *, dtype: str = "float32", noise: float | None = None) -> Golden:
    """The toy's golden. noise: relative size of honest rounding, that of the dtype where it is not given."""
    toy = toy or make_toy()
    rounding = ROUNDING[dtype] if noise is None else noise
    several = toy.terms if len(toy.terms) > 1 else {}
    whole = {parameter.name: toy.unit_gradients(parameter.name) for parameter in toy.parameters}
    smallest: dict[str, int] = {}
    for parameter in toy.parameters:
        smallest[parameter.family] = min(parameter.numel, smallest.get(parameter.family, parameter.numel))
    header = GoldenHeader(
        problem=toy.problem,
        dtype=DtypeProfile(parameter=dtype, gradient=dtype),
        parameters=toy.parameters,
        objective="unit-mean" if toy.objective == "unit-mean" else "token-mean",
        units=tuple(Unit(tokens=count) for count in toy.tokens),
        noise={
            family: NoiseFloor(
                q50=rounding, q999=rounding * (1 + 3 / sqrt(numel)), samples=240, scale=3.3 * rounding / sqrt(numel)
            )
            for family, numel in smallest.items()
        },
        references=(Reference(strategy="fsdp2", layout=Layout(dp=4)),),
        terms=tuple(several),
        created=CREATED,
    )
    basis = Basis(
        sketch=_basis(toy, whole),
        norm2=np.stack([np.square(whole[parameter.name]).sum(axis=1) for parameter in toy.parameters], axis=1),
        terms={term: _basis(toy, gradients) for term, gradients in several.items()},
    )
    return Golden(header=header, bases={1: basis})


def _basis(toy: Toy, gradients: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    columns = [np.stack([sketch(row) for row in gradients[parameter.name]]) for parameter in toy.parameters]
    return np.stack(columns, axis=1)


def make_record(
    toy: Toy | None = None,
    *,
    layout: Layout | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    terms: Mapping[str, float] | None = None,
    noise: float | None = None,
    dtype: str = "float32",
    strategy: str = "ddp",
    framework: str = "torch",
    sharded: bool = False,
    copies: bool = False,
    full: bool = False,
    missing: Sequence[str] = (),
    seed: int = 1,
) -> Record:
    """A record of the toy.

    weights: by family or parameter name: a number, [dp, accum] by rank and micro step, or [dp, dp, accum], the first
    axis being the rank that owns the elements (sharded) or the copy (copies). Others weigh 1. terms: factor by term.
    sharded: contiguous even shards are declared. copies: each rank's own copy is kept in rank_sketch; the record's
    gradient is that of rank 0. missing: parameters without a gradient.
    """
    toy, layout = toy or make_toy(), layout or Layout(dp=4, accum=3)
    rounding = ROUNDING[dtype] if noise is None else noise
    random = np.random.default_rng(seed)
    owners = layout.dp if sharded or copies else 1
    rows: list[NDArray[np.float64]] = []
    parameters: list[Parameter] = []
    for parameter in toy.parameters:
        chosen = (weights or {}).get(parameter.name, (weights or {}).get(parameter.family, 1.0))
        by_owner = np.broadcast_to(np.asarray(chosen, dtype=np.float64), (owners, layout.dp, layout.accum))
        by_unit = by_owner.transpose(0, 2, 1).reshape(owners, layout.units)
        gradients = toy.unit_gradients(parameter.name, terms)[: layout.units]
        values = (by_unit * toy.coefficients(layout.units)) @ gradients
        values += (
            rounding * np.sqrt(np.square(values).mean(axis=1, keepdims=True)) * random.standard_normal(values.shape)
        )
        if parameter.name in missing:
            values = np.zeros_like(values)
        bounds = [parameter.numel * rank // layout.dp for rank in range(layout.dp + 1)]
        shards = tuple((rank, bounds[rank], bounds[rank + 1]) for rank in range(layout.dp)) if sharded else None
        if sharded:
            values = np.concatenate([values[rank, bounds[rank] : bounds[rank + 1]] for rank in range(layout.dp)])[None]
        rows.append(values)
        parameters.append(Parameter(name=parameter.name, shape=parameter.shape, family=parameter.family, shards=shards))
    first = [values[0] for values in rows]
    capture = Capture(
        sketch=np.stack([sketch(values) for values in first]),
        norm2=np.array([np.square(values).sum() for values in first]),
        absmax=np.array([np.abs(values).max(initial=0.0) for values in first]),
        nonfinite=np.zeros(len(rows), dtype=np.int64),
        present=np.array([parameter.name not in missing for parameter in toy.parameters], dtype=np.uint8),
        rank_sketch=np.stack([np.stack([sketch(copy) for copy in values]) for values in rows], axis=1)
        if copies
        else None,
        full={
            parameter.name: values.astype(np.float32).reshape(parameter.shape)
            for parameter, values in zip(parameters, first, strict=True)
        }
        if full
        else None,
    )
    header = RecordHeader(
        problem=toy.problem,
        framework=Framework(name=framework, version="2.13.0"),
        strategy=strategy,
        layout=layout,
        dtype=DtypeProfile(parameter=dtype, gradient=dtype),
        stages=(StageStep(stage="reduced", step=1),),
        parameters=tuple(parameters),
        environment={"device": "cpu"},
        created=CREATED,
    )
    return Record(header=header, captures={"reduced.1": capture})
