"""Parameters of models as large as those that people train, and goldens and records of them with random sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    StageStep,
    Unit,
)
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Capture, Record
from gradassay.goldens.sketch import BUCKETS, measure

CREATED = "2026-01-01T00:00:00Z"
ROUNDING = 3e-8
_PROBLEM = Problem(name="bench", digest="sha256:" + 64 * "0")
_DTYPE = DtypeProfile()


def dense_1b() -> tuple[Parameter, ...]:
    """A decoder of 16 layers, 2048 wide, with 32 heads over 8 and tied embeddings: 1.2e9 elements in 146 tensors."""
    width, inner = 2048, 8192
    mlp = {f"mlp.{name}.weight": (inner, width) for name in ("gate", "up")} | {"mlp.down.weight": (width, inner)}
    return _decoder(16, 128_256, width, _attention(width, own=2048, shared=512), mlp, tied=True)


def moe_30b() -> tuple[Parameter, ...]:
    """A decoder of 48 layers, 2048 wide, with 128 experts each, every one three tensors: 3.1e10 elements in 18,771 tensors."""
    width, inner = 2048, 768
    mlp: dict[str, tuple[int, ...]] = {"mlp.router.weight": (128, width)}
    for expert in range(128):
        mlp |= {f"mlp.experts.{expert}.{name}.weight": (inner, width) for name in ("gate", "up")}
        mlp[f"mlp.experts.{expert}.down.weight"] = (width, inner)
    return _decoder(48, 151_936, width, _attention(width, own=4096, shared=512), mlp, tied=False)


def even(count: int, shape: Sequence[int] = (1024, 1024)) -> tuple[Parameter, ...]:
    """So many parameters of one shape, three of eight of them experts."""
    families = [("expert" if number % 8 < 3 else "dense", number) for number in range(count)]
    return tuple(
        Parameter(name=f"{family}.{number}.weight", shape=tuple(shape), family=family) for family, number in families
    )


def golden(parameters: Sequence[Parameter], units: int, *, seed: int = 0) -> Golden:
    """A golden whose units have random sketches, half of each common to all of them."""
    random = np.random.default_rng(seed)
    basis = random.standard_normal((units, len(parameters), BUCKETS))
    basis += 0.5 * random.standard_normal((len(parameters), BUCKETS))
    header = GoldenHeader(
        problem=_PROBLEM,
        dtype=_DTYPE,
        parameters=tuple(parameters),
        objective="unit-mean",
        units=(Unit(tokens=512),) * units,
        noise={
            parameter.family: NoiseFloor(q50=ROUNDING, q999=1.3 * ROUNDING, samples=240, scale=ROUNDING / 8)
            for parameter in parameters
        },
        created=CREATED,
    )
    return Golden(header=header, bases={1: Basis(sketch=basis, norm2=np.square(basis).sum(axis=2))})


def record(of: Golden, layout: Layout, weights: Mapping[str, ArrayLike] | None = None, *, seed: int = 1) -> Record:
    """What a run of the golden's problem captures. weights: by family, as [dp, accum] or a number; others weigh 1."""
    parameters, basis = of.header.parameters, of.bases[1].sketch[: layout.units]
    by_family = {
        family: np.broadcast_to(np.asarray(w, dtype=np.float64), (layout.dp, layout.accum)).T.ravel()
        for family, w in (weights or {}).items()
    }
    rows = np.array([by_family.get(parameter.family, np.ones(layout.units)) for parameter in parameters])
    sketch = np.einsum("pu,upk->pk", rows / layout.units, basis)
    size = np.sqrt(np.square(sketch).mean(axis=1, keepdims=True))
    sketch += ROUNDING * size * np.random.default_rng(seed).standard_normal(sketch.shape)
    return _record(parameters, layout, sketch)


def lone_record(parameters: Sequence[Parameter], *, seed: int = 0) -> Record:
    """A record with random sketches of no golden; of any two seeds they differ by rounding alone."""
    sketch = np.random.default_rng(0).standard_normal((len(parameters), BUCKETS))
    sketch += ROUNDING * np.random.default_rng(seed + 1).standard_normal(sketch.shape)
    return _record(parameters, Layout(dp=4), sketch)


def whole_record(shape: tuple[int, int], *, seed: int = 0) -> Record:
    """A record of one parameter that keeps its gradient as well; of any two seeds it differs by rounding alone."""
    gradient = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    gradient *= 1 + ROUNDING * np.random.default_rng(seed + 1).standard_normal((shape[0], 1), dtype=np.float32)
    (parameter,) = even(1, shape)
    found = measure(gradient.reshape(-1))
    capture = Capture(
        sketch=found.sketch[None],
        norm2=np.array([found.norm2]),
        absmax=np.array([found.absmax]),
        nonfinite=np.zeros(1, dtype=np.int64),
        present=np.ones(1, dtype=np.uint8),
        full={parameter.name: gradient},
    )
    return Record(header=_header((parameter,), Layout(dp=4)), captures={"reduced.1": capture})


def _record(parameters: Sequence[Parameter], layout: Layout, sketch: NDArray[np.float64]) -> Record:
    count = len(parameters)
    capture = Capture(
        sketch=sketch,
        norm2=np.square(sketch).sum(axis=1),
        absmax=np.abs(sketch).max(axis=1),
        nonfinite=np.zeros(count, dtype=np.int64),
        present=np.ones(count, dtype=np.uint8),
    )
    return Record(header=_header(parameters, layout), captures={"reduced.1": capture})


def _header(parameters: Sequence[Parameter], layout: Layout) -> RecordHeader:
    return RecordHeader(
        problem=_PROBLEM,
        framework=Framework(name="torch"),
        strategy="ddp",
        layout=layout,
        dtype=_DTYPE,
        stages=(StageStep(stage="reduced", step=1),),
        parameters=tuple(parameters),
        environment={"device": "cpu"},
        created=CREATED,
    )


def _attention(width: int, *, own: int, shared: int) -> dict[str, tuple[int, ...]]:
    return {"q": (own, width), "k": (shared, width), "v": (shared, width), "o": (width, own)}


def _decoder(
    layers: int,
    words: int,
    width: int,
    attention: Mapping[str, tuple[int, ...]],
    mlp: Mapping[str, tuple[int, ...]],
    *,
    tied: bool,
) -> tuple[Parameter, ...]:
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (words, width)}
    for layer in range(layers):
        shapes |= {f"layers.{layer}.attention.{name}.weight": shape for name, shape in attention.items()}
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in mlp.items()}
        shapes |= {f"layers.{layer}.norm{number}.weight": (width,) for number in (1, 2)}
    shapes |= {"norm.weight": (width,)} | ({} if tied else {"head.weight": (words, width)})
    return tuple(Parameter(name=name, shape=shape, family=_family(name)) for name, shape in shapes.items())


def _family(name: str) -> str:
    known = {"embedding": "embedding", "experts": "expert", "router": "router", "norm": "norm"}
    return next((family for word, family in known.items() if word in name), "dense")
