"""Faults to put into foreign records: for every pattern, weights with every sensible scale, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foreign import Sizes, Stranger, draw_sizes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fault:
    """What was done. laws: right-hand sides that name it, any of which will do; none where only numbers can tell.

    weights: [dp, accum] or [owner, dp, accum], where units say all; how: other arguments of Stranger.record.
    """

    sizes: Sizes
    names: list[str]
    pattern: str
    laws: tuple[str, ...] = ()
    weights: Array | None = None
    how: Mapping[str, Any] = field(default_factory=dict)


Maker = Callable[[Stranger], Fault | None]
FAULTS: dict[str, Maker] = {}


def fault(maker: Maker) -> Maker:
    FAULTS[maker.__name__] = maker
    return maker


def flat(sizes: Sizes, factor: float = 1.0) -> Array:
    return np.full((sizes.dp, sizes.accum), factor)


def some_owners(stranger: Stranger) -> dict[str, Any]:
    return {"owners": str(stranger.random.choice(["", "shards", "copies"]))}


def known_owners(stranger: Stranger) -> dict[str, Any]:
    random = stranger.random
    return {"owners": str(random.choice(["shards", "copies"])), "average": bool(random.random() < 0.5)}


SCALES: dict[str, tuple[str, Callable[[Sizes], float]]] = {
    "dp": ("dp", lambda s: s.dp),
    "1/dp": ("dp", lambda s: 1 / s.dp),
    "ep": ("ep", lambda s: s.ep),
    "1/ep": ("ep", lambda s: 1 / s.ep),
    "edp": ("edp", lambda s: s.dp / s.ep),
    "1/edp": ("edp", lambda s: s.ep / s.dp),
    "accum": ("accum", lambda s: s.accum),
    "1/accum": ("accum", lambda s: 1 / s.accum),
    "dp*accum": ("dp accum", lambda s: s.dp * s.accum),
    "dp**2": ("dp", lambda s: s.dp**2),
    "replicate": ("replicate", lambda s: s.replicate),
    "1/cp": ("cp", lambda s: 1 / s.cp),
    "tp": ("tp", lambda s: s.tp),
    "2": ("", lambda s: 2.0),
    "2**-16": ("", lambda s: 2.0**-16),
    "2**10": ("", lambda s: 2.0**10),
}


@fault
def uniform(stranger: Stranger) -> Fault | None:
    scale = str(stranger.random.choice(list(SCALES)))
    wants, value = SCALES[scale]
    sizes = draw_sizes(stranger.random, wants=wants)
    weights = flat(sizes, value(sizes))
    return Fault(sizes, stranger.draw_names(), "uniform", (scale,), weights, some_owners(stranger))


@fault
def number(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random)
    factor = float(stranger.random.choice([1.13, 0.87, 3.7, 0.0123]))
    return Fault(sizes, stranger.names("dense"), "uniform", (), flat(sizes, factor), some_owners(stranger))


@fault
def tokens(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random)
    total = sum(stranger.tokens[: sizes.units])
    scale, factor = [("tokens", total), ("1/tokens", 1 / total), ("tokens/units", total / sizes.units)][
        int(stranger.random.integers(3))
    ]
    return Fault(sizes, stranger.names(), "uniform", (scale,), flat(sizes, factor))


@fault
def clip(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random)
    truths = [stranger.true(sizes.units) @ stranger.own(name)[: sizes.units] for name in stranger.names()]
    norm = sum(float(truth @ truth) for truth in truths) ** 0.5
    return Fault(sizes, stranger.names(), "uniform", ("max_norm/norm",), flat(sizes, 1 / norm))


@fault
def sign(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random)
    return Fault(sizes, stranger.draw_names(), "sign", ("-1",), flat(sizes, -1.0), some_owners(stranger))


@fault
def decaying_buffer(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="dp accum")
    weights = flat(sizes) * float(sizes.dp) ** (np.arange(sizes.accum) - sizes.accum + 2)
    return Fault(sizes, stranger.draw_names(), "geometric", ("dp**(m-M+2)",), weights, some_owners(stranger))


@fault
def geometric(stranger: Stranger) -> Fault | None:
    random = stranger.random
    base, rising, shift = (
        str(random.choice(["dp", "ep", "accum", "2", "cp"])),
        random.random() < 0.5,
        random.integers(-1, 3),
    )
    sizes = draw_sizes(random, wants=f"accum dp {base}")
    power = np.arange(sizes.accum) - sizes.accum + 1 + shift
    weights = flat(sizes) * float({**vars(sizes), "2": 2}[base]) ** (power if rising else -power)
    after = f"{1 + shift:+d}" if shift != -1 else ""
    before = f"{-1 - shift:+d}" if shift != -1 else ""
    law = f"{base}**(m-M{after})" if rising else f"{base}**(M{before}-m)"
    return Fault(sizes, stranger.draw_names(), "geometric", (law,), weights)


@fault
def linear(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="accum dp")
    steps = np.arange(sizes.accum)
    text, weights = [("(M-m)", sizes.accum - steps), ("(m+1)", steps + 1)][int(stranger.random.integers(2))]
    scale, factor = [("", 1.0), ("/accum", 1 / sizes.accum), ("/dp", 1 / sizes.dp)][int(stranger.random.integers(3))]
    return Fault(sizes, stranger.draw_names(), "linear", (text + scale,), flat(sizes) * weights * factor)


def _one_step(stranger: Stranger, place: int, pattern: str, text: str) -> Fault:
    sizes = draw_sizes(stranger.random, wants="accum")
    weights = flat(sizes, 0.0)
    weights[:, place] = 1
    if stranger.random.random() < 0.5:
        weights, text = weights * sizes.accum, f"accum*{text}"
    return Fault(sizes, stranger.draw_names(), pattern, (text,), weights, some_owners(stranger))


@fault
def last_only(stranger: Stranger) -> Fault | None:
    return _one_step(stranger, -1, "last-only", "[m = M-1]")


@fault
def first_only(stranger: Stranger) -> Fault | None:
    return _one_step(stranger, 0, "first-only", "[m = 0]")


@fault
def micro_subset(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="accum3")
    weights = flat(sizes, 0.0)
    weights[:, [0, sizes.accum - 1]] = 1
    return Fault(sizes, stranger.draw_names(), "micro-subset", (f"[m in {{0,{sizes.accum - 1}}}]",), weights)


@fault
def one_step_scaled(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="accum3 dp")
    weights = flat(sizes)
    weights[:, 1] = sizes.dp
    return Fault(sizes, stranger.draw_names(), "micro-subset", (), weights)


@fault
def rank_subset(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="edp")
    members = [list(range(sizes.ep)), list(range(0, sizes.dp, sizes.ep)), list(range(1, sizes.dp))]
    chosen = members[int(stranger.random.integers(3))]
    weights = flat(sizes, 0.0)
    weights[chosen] = float(stranger.random.choice([1.0, sizes.dp / len(chosen)]))
    return Fault(sizes, stranger.draw_names(), "rank-subset", (), weights, some_owners(stranger))


@fault
def unreduced(stranger: Stranger) -> Fault | None:
    kind = str(stranger.random.choice(["rank", "ep"]))
    sizes = draw_sizes(stranger.random, wants="edp" if kind == "ep" else "dp")
    weights = sizes.groups(kind)[:, :, None] * np.ones(sizes.accum)
    text = {"rank": "[r = owner]", "ep": "[r in owner's ep group]"}[kind]
    if stranger.random.random() < 0.5:
        weights = weights * (sizes.dp if kind == "rank" else sizes.dp // sizes.ep)
        text = f"{'dp' if kind == 'rank' else 'edp'}*{text}"
    names = stranger.names("expert") if kind == "ep" else stranger.draw_names()
    return Fault(sizes, names, "unreduced", (text,), weights, known_owners(stranger))


@fault
def unreduced_last(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="dp accum")
    weights = sizes.groups("rank")[:, :, None] * (np.arange(sizes.accum) == sizes.accum - 1)
    return Fault(
        sizes, stranger.names("dense"), "unreduced", ("[m = M-1]*[r = owner]",), weights, known_owners(stranger)
    )


@fault
def partly_unreduced(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="dp accum")
    weights = sizes.dp * sizes.groups("rank")[:, :, None] * np.ones(sizes.accum)
    weights[:, :, 0] = 1
    law = "(1 if m = 0 else dp*[r = owner])"
    return Fault(sizes, stranger.draw_names(), "partly-unreduced", (law,), weights, known_owners(stranger))


@fault
def token_weighting(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="dp")
    counts = np.array(stranger.tokens[: sizes.units], dtype=np.float64).reshape(sizes.accum, sizes.dp).T
    if np.ptp(counts) == 0:
        return None
    ratio = counts / counts.mean()
    if stranger.objective == "unit-mean":
        return Fault(sizes, stranger.names(), "token-weighting", ("n[r,m]/mean(n)",), ratio)
    return Fault(sizes, stranger.names(), "token-weighting", ("mean(n)/n[r,m]",), 1 / ratio)


@fault
def term(stranger: Stranger) -> Fault | None:
    scale = str(stranger.random.choice(["0", "dp", "1/dp", "2", "accum"]))
    wants, value = SCALES.get(scale, ("", lambda sizes: 0.0))
    sizes = draw_sizes(stranger.random, wants=wants)
    names = stranger.names("router", "dense")
    scales = {name: {"aux": value(sizes)} for name in names}
    return Fault(sizes, names, "term", (f"w[aux] = {scale}", scale), how={"scales": scales})


@fault
def stale(stranger: Stranger) -> Fault | None:
    sizes, names = draw_sizes(stranger.random), stranger.names("dense")
    return Fault(sizes, names, "stale", ("g = g[step] + g[step-1]",), how={"stale": names})


@fault
def zero(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random)
    return Fault(sizes, stranger.draw_names(), "zero", ("0",), flat(sizes, 0.0), some_owners(stranger))


@fault
def missing(stranger: Stranger) -> Fault | None:
    sizes, names = draw_sizes(stranger.random), stranger.draw_names()
    return Fault(sizes, names, "missing", how={"absent": names, **some_owners(stranger)})


@fault
def non_finite(stranger: Stranger) -> Fault | None:
    sizes, names = draw_sizes(stranger.random), stranger.draw_names()

    def broken(values: Array) -> Array:
        values = values.copy()
        values[:, 0] = np.inf
        return values

    return Fault(sizes, names, "non-finite", how={"after": dict.fromkeys(names, broken)})


@fault
def one_rank_scaled(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="dp")
    weights = np.ones((sizes.dp, sizes.dp, sizes.accum))
    weights[-1] = 2
    names = stranger.names("dense", "router")
    return Fault(Sizes(**vars(sizes) | {"ep": 1}), names, "rank-disagreement", (), weights, {"owners": "copies"})


@fault
def one_rank_garbage(stranger: Stranger) -> Fault | None:
    sizes, names = draw_sizes(stranger.random, wants="dp"), stranger.names("dense", "router")

    def garbled(values: Array) -> Array:
        values = values.copy()
        values[-1] += values.std() * stranger.random.standard_normal(values.shape[1])
        return values

    how = {"after": dict.fromkeys(names, garbled), "owners": "copies"}
    return Fault(sizes, names, "rank-disagreement", how=how)


@fault
def permuted(stranger: Stranger) -> Fault | None:
    names = [name for name in stranger.names("expert") if name.startswith("layers.0.")]
    source = dict(zip(names, names[1:] + names[:1], strict=True))
    return Fault(draw_sizes(stranger.random, wants="dp"), names, "permuted", how={"source": source})


@fault
def garbage(stranger: Stranger) -> Fault | None:
    names = stranger.names("dense")

    def garbled(values: Array) -> Array:
        return values + values.std() * stranger.random.standard_normal(values.shape)

    return Fault(draw_sizes(stranger.random), names, "unexplained", how={"after": dict.fromkeys(names, garbled)})


@fault
def random_weights(stranger: Stranger) -> Fault | None:
    sizes = draw_sizes(stranger.random, wants="edp")
    weights = stranger.random.uniform(0.2, 3, (sizes.dp, sizes.accum))
    return Fault(sizes, stranger.names("dense"), "unexplained", (), weights)
