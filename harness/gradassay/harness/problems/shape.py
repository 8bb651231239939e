"""The shape of a language model of this package, and the parameters that follow from it; needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Start(StrEnum):
    """How a parameter's initial values are made; see weights.py."""

    EMBEDDING = "embedding"
    MATRIX = "matrix"
    POSITION = "position"
    WRITE = "write"
    ROUTER = "router"
    SCALE = "scale"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a causal language model. experts = 0: a dense MLP in every block; otherwise a shared expert of width
    `shared` beside `experts` routed ones of width `inner`, `top_k` of which serve a token. tied: the embedding is the
    output head too, and positions are frozen. auxiliary: coefficient of the load-balancing loss, summed over layers.
    """

    vocabulary: int
    length: int
    hidden: int
    heads: int
    layers: int
    inner: int
    experts: int = 0
    shared: int = 0
    top_k: int = 2
    auxiliary: float = 0.0
    tied: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss terms, () for one."""
        return ("main", "aux") if self.experts else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One parameter: canonical name, shape, family, how it starts (gain on the usual scale), whether it is trained."""

    name: str
    shape: tuple[int, ...]
    family: str
    start: Start
    gain: float = 1.0
    trained: bool = True


def weights_of(shape: Shape) -> tuple[Weight, ...]:
    """Every parameter in canonical order: as the model registers them, experts by number."""
    hidden = shape.hidden
    found = [
        Weight(
            name="embedding.weight",
            shape=(shape.vocabulary, hidden),
            family="tied" if shape.tied else "embedding",
            start=Start.EMBEDDING,
        ),
        Weight(
            name="position.weight",
            shape=(shape.length, hidden),
            family="embedding",
            start=Start.POSITION,
            gain=0.5,
            trained=not shape.tied,
        ),
    ]
    for layer in range(shape.layers):
        found += _block(f"layers.{layer}", shape)
    found += _norm("norm", hidden)
    if not shape.tied:
        found.append(_linear("head", hidden, shape.vocabulary))
    return tuple(found)


def _block(prefix: str, shape: Shape) -> list[Weight]:
    hidden = shape.hidden
    found = _norm(f"{prefix}.attention_norm", hidden)
    found += [_linear(f"{prefix}.attention.{part}", hidden, hidden) for part in ("query", "key")]
    found += _biased(f"{prefix}.attention.value", hidden, hidden)
    found += _biased(f"{prefix}.attention.output", hidden, hidden, start=Start.WRITE)
    found += _norm(f"{prefix}.mlp_norm", hidden)
    found += _biased(f"{prefix}.mlp.up", hidden, shape.shared or shape.inner)
    found += _biased(f"{prefix}.mlp.down", shape.shared or shape.inner, hidden, start=Start.WRITE)
    if shape.experts:
        found.append(
            Weight(
                name=f"{prefix}.moe.router.weight",
                shape=(shape.experts, hidden),
                family="router",
                start=Start.ROUTER,
            )
        )
        for expert in range(shape.experts):
            name = f"{prefix}.moe.experts.{expert}"
            found.append(_linear(f"{name}.up", hidden, shape.inner, family="expert"))
            found.append(_linear(f"{name}.down", shape.inner, hidden, family="expert", start=Start.WRITE))
    return found


def _norm(name: str, size: int) -> list[Weight]:
    return [
        Weight(name=f"{name}.weight", shape=(size,), family="norm", start=Start.SCALE),
        Weight(name=f"{name}.bias", shape=(size,), family="norm", start=Start.SHIFT),
    ]


def _linear(name: str, ins: int, outs: int, *, family: str = "dense", start: Start = Start.MATRIX) -> Weight:
    return Weight(name=f"{name}.weight", shape=(outs, ins), family=family, start=start)


def _biased(name: str, ins: int, outs: int, *, start: Start = Start.MATRIX) -> list[Weight]:
    bias = Weight(name=f"{name}.bias", shape=(outs,), family="bias", start=Start.SHIFT)
    return [_linear(name, ins, outs, start=start), bias]
