"""Golden and record files as a stranger would write them: straight from the format, sharing no code with the product.

Everything is drawn from a seed: parameters of one element to thousands, families, layouts, objectives, starved experts,
two steps, two terms. A record is `sum over units of c_true[u] * w[u] * g[u]` with element-wise rounding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

Array = NDArray[np.float64]
ROUNDING = {"float32": 1e-7, "bfloat16": 4e-3}
FLOORS = {
    "float32": {"q50": 1e-7, "q999": 4e-7, "samples": 240},
    "bfloat16": {"q50": 4e-3, "q999": 1.2e-2, "samples": 240},
}


@cache
def signs(rows: int) -> Array:
    """[rows, 64] of 1 and -1, as spec v1 has them."""
    with np.errstate(over="ignore"):
        mixed = np.uint64(0x601DA55A) + np.arange(rows, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return 1.0 - 2.0 * ((mixed[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(np.float64)


def sketched(values: Array) -> Array:
    """[..., 1024] of [..., N]."""
    *lead, count = values.shape
    if count <= 1024:
        return np.concatenate([values, np.zeros((*lead, 1024 - count))], axis=-1)
    rows = -(-count // 64)
    padded = np.concatenate([values, np.zeros((*lead, rows * 64 - count))], axis=-1).reshape(*lead, rows, 64)
    starts = [rows * segment // 16 for segment in range(16)]
    return np.add.reduceat(padded * signs(rows), starts, axis=-2).reshape(*lead, 1024)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layout."""

    dp: int
    ep: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    replicate: int = 1
    accum: int = 1

    @property
    def units(self) -> int:
        return self.dp * self.accum

    def groups(self, kind: str) -> Array:
        """[owner, rank]: 1 where the rank is in the owner's group."""
        ranks = np.arange(self.dp)
        size = {"rank": 1, "ep": self.ep, "replica": self.dp // self.replicate}[kind]
        return (ranks[:, None] // size == ranks[None] // size).astype(np.float64)


def draw_sizes(random: np.random.Generator, *, wants: str = "", most: int = 24) -> Sizes:
    """Sizes at random; wants: space-separated among dp, accum, accum3, ep, edp, replicate, cp, tp, which are then above 1."""
    while True:
        dp, accum = int(random.integers(1, 17)), int(random.integers(1, 9))
        divisors = [size for size in range(1, dp + 1) if dp % size == 0]
        others = {
            name: int(random.choice([2, 3, 4, 8])) if name in wants or random.random() < 0.2 else 1
            for name in ("tp", "cp", "pp")
        }
        replicate = int(random.choice(divisors)) if "replicate" in wants or random.random() < 0.3 else 1
        sizes = Sizes(dp=dp, ep=int(random.choice(divisors)), replicate=replicate, accum=accum, **others)
        met = {
            "dp": dp > 1,
            "accum": accum > 1,
            "accum3": accum > 2,
            "ep": sizes.ep > 1,
            "edp": 1 < sizes.ep < dp,
            "replicate": 1 < replicate < dp,
        }
        if sizes.units <= most and all(met.get(want, True) for want in wants.split()):
            return sizes


@dataclass
class Stranger:
    """A problem of random gradients, and the files of its golden and its records."""

    seed: int
    dtype: str = ""
    objective: str = ""
    terms: tuple[str, ...] = ()
    steps: int = 1
    units: int = 24
    common: float | None = None
    smallest: int = 1
    parameters: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.dtype = self.dtype or str(self.random.choice(["float32", "bfloat16"]))
        self.objective = self.objective or str(self.random.choice(["unit-mean", "token-mean"]))
        uneven = self.objective == "token-mean" or self.random.random() < 0.3
        self.tokens = [int(self.random.integers(50, 2000)) if uneven else 512 for _ in range(self.units)]
        self.common = float(self.random.choice([0.0, 0.5, 1.0])) if self.common is None else self.common
        self.parameters = self.parameters or self._drawn()
        self.gradients = {
            (step, term, parameter["name"]): self._gradients(parameter, term)
            for step in range(1, self.steps + 1)
            for term in self.terms or ("",)
            for parameter in self.parameters
        }

    def _drawn(self) -> list[dict[str, Any]]:
        random = self.random
        found: list[dict[str, Any]] = []

        def add(name: str, family: str, *shape: int) -> None:
            found.append({"name": name, "shape": [max(self.smallest, size) for size in shape], "family": family})

        for layer in range(int(random.integers(1, 3))):
            add(f"layers.{layer}.attention", "dense", int(random.integers(20, 90)), int(random.integers(20, 90)))
            add(f"layers.{layer}.norm", "norm", int(random.integers(16, 200)))
            add(f"layers.{layer}.bias", "bias", int(random.choice([1, 7, 64])))
            add(f"layers.{layer}.router", "router", int(random.integers(4, 16)), 32)
            shape = int(random.integers(8, 60)), int(random.integers(8, 60))
            for expert in range(int(random.integers(2, 5))):
                add(f"layers.{layer}.experts.{expert}", "expert", *shape)
        if random.random() < 0.5:
            add("embedding", str(random.choice(["embedding", "tied"])), int(random.integers(100, 300)), 24)
        return found

    def _gradients(self, parameter: dict[str, Any], term: str) -> Array:
        count = int(np.prod(parameter["shape"]))
        size = parameter.setdefault("size", 10.0 ** self.random.uniform(-4, 2)) * (0.3 if term == "aux" else 1.0)
        values = self.common * self.random.standard_normal(count) + self.random.standard_normal((self.units, count))
        if parameter["family"] == "expert":
            starved = [unit for unit in range(2, self.units) if self.random.random() < 0.08]
            values[parameter.setdefault("starved", starved)] = 0.0
        return size * values

    def own(self, name: str, step: int = 1, scales: Mapping[str, float] | None = None) -> Array:
        """[U, N]: each unit's own gradient, terms multiplied by their scales."""
        return sum(
            ((scales or {}).get(term, 1.0) * self.gradients[step, term, name] for term in self.terms or ("",)),
            start=np.zeros(1),
        )

    def true(self, units: int) -> Array:
        """[units] c_true."""
        counts = np.array(self.tokens[:units], dtype=np.float64)
        return np.full(units, 1 / units) if self.objective == "unit-mean" else counts / counts.sum()

    def names(self, *families: str) -> list[str]:
        """Names of the parameters of these families, of all where none is given."""
        return [item["name"] for item in self.parameters if not families or item["family"] in families]

    def draw_names(self) -> list[str]:
        """One family, all of them, or one layer, at random."""
        kind = self.random.random()
        if kind < 0.2:
            return self.names()
        if kind < 0.35:
            return [name for name in self.names() if name.startswith("layers.0.")]
        return self.names(str(self.random.choice(sorted({item["family"] for item in self.parameters}))))

    def holders(self, name: str, sizes: Sizes) -> list[int]:
        """Ranks that hold a parameter: experts are spread over expert-parallel ranks."""
        if ".experts." in name:
            return list(range(int(name.rsplit(".", 1)[1]) % sizes.ep, sizes.dp, sizes.ep))
        return list(range(sizes.dp))

    def _header(self, kind: str, parameters: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "format": 1,
            "kind": kind,
            "problem": {"name": "foreign", "digest": f"sha256:{self.seed:064x}"},
            "dtype": {"parameter": self.dtype, "gradient": self.dtype, "reduce": "float32"},
            "parameters": [
                {key: item[key] for key in ("name", "shape", "family", "stage", "shards") if key in item}
                for item in parameters
            ],
            "environment": {"device": "cpu"},
        }

    def golden(self, **changes: Any) -> bytes:
        """The golden's file; changes replace fields of its header."""
        arrays: dict[str, Array] = {}
        names = self.names()
        for step in range(1, self.steps + 1):
            arrays[f"basis.{step}.sketch"] = np.stack([sketched(self.own(name, step)) for name in names], axis=1)
            arrays[f"basis.{step}.norm2"] = np.stack([(self.own(name, step) ** 2).sum(1) for name in names], axis=1)
            for term in self.terms:
                rows = [sketched(self.gradients[step, term, name]) for name in names]
                arrays[f"basis.{step}.sketch.{term}"] = np.stack(rows, axis=1)
        header = self._header("golden", self.parameters) | {
            "objective": self.objective,
            "units": [{"tokens": count} for count in self.tokens],
            "noise": {item["family"]: FLOORS[self.dtype] for item in self.parameters},
            "references": [],
        }
        if self.terms:
            header["terms"] = list(self.terms)
        return save(arrays, {"gradassay": json.dumps(header | changes)})

    def record(
        self,
        sizes: Sizes,
        weights: Mapping[str, Array | float] | None = None,
        *,
        owners: str = "",
        average: bool = False,
        scales: Mapping[str, Mapping[str, float]] | None = None,
        stale: Sequence[str] = (),
        source: Mapping[str, str] | None = None,
        after: Mapping[str, Callable[[Array], Array]] | None = None,
        absent: Sequence[str] = (),
        float64: bool = False,
        rounding: float = 1.0,
        order: Sequence[int] | None = None,
        **changes: Any,
    ) -> bytes:
        """A record's file.

        weights: by name, a number, [dp, accum] or [owner, dp, accum]. owners: "shards", "copies" or "". average: the
        gradient is the mean of the copies, not the first. scales: by name and term. stale: names whose gradient holds the
        step before. source: whose gradient a parameter got. after: changes to the rounded gradients [owner, N].
        """
        step = self.steps
        listed = [self.parameters[place] for place in order] if order is not None else list(self.parameters)
        count = len(listed)
        sketches, copies = np.zeros((count, 1024)), np.zeros((sizes.dp, count, 1024))
        norm2, absmax = np.zeros(count), np.zeros(count)
        nonfinite, present = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.uint8)
        documents = []
        for row, parameter in enumerate(listed):
            name = parameter["name"]
            own = self.own((source or {}).get(name, name), step, (scales or {}).get(name))[: sizes.units]
            chosen = np.broadcast_to((weights or {}).get(name, 1.0), (sizes.dp, sizes.dp, sizes.accum))
            per_unit = chosen.transpose(0, 2, 1).reshape(sizes.dp, sizes.units)
            values = (per_unit * self.true(sizes.units)) @ own
            if name in stale:
                values = values + self.true(sizes.units) @ self.own(name, step - 1)[: sizes.units]
            one = not owners or (chosen == chosen[:1]).all()
            level = ROUNDING[self.dtype] * rounding * np.sqrt((values**2).mean(axis=1, keepdims=True))
            noise = self.random.standard_normal((1 if one else sizes.dp, values.shape[1]))
            values = values + level * noise
            values = (after or {}).get(name, lambda plain: plain)(values)
            if name in absent:
                values, present[row] = values * 0, 0
            holders = self.holders(name, sizes)
            whole = values[holders[0]]
            document = dict(parameter)
            if owners == "shards":
                cuts = [values.shape[1] * part // len(holders) for part in range(len(holders) + 1)]
                shards = [[rank, cuts[part], cuts[part + 1]] for part, rank in enumerate(holders)]
                whole = np.concatenate([values[rank, first:end] for rank, first, end in shards])
                document["shards"] = shards
            if owners == "copies":
                copies[holders, row] = sketched(np.nan_to_num(values[holders]))
                whole = values[holders].mean(axis=0) if average else whole
            documents.append(document)
            nonfinite[row] = (~np.isfinite(whole)).sum()
            whole = np.where(np.isfinite(whole), whole, 0.0)
            sketches[row], norm2[row], absmax[row] = sketched(whole), whole @ whole, np.abs(whole).max()
        kind = np.float64 if float64 else np.float32
        key = f"reduced.{step}"
        arrays: dict[str, NDArray[Any]] = {
            f"{key}.sketch": sketches.astype(kind),
            f"{key}.norm2": norm2,
            f"{key}.absmax": absmax,
            f"{key}.nonfinite": nonfinite,
            f"{key}.present": present,
        }
        if owners == "copies":
            arrays[f"{key}.rank_sketch"] = copies.astype(kind)
        header = self._header("record", documents) | {
            "framework": {"name": "stranger", "version": "1"},
            "strategy": "unknown",
            "layout": vars(sizes),
            "stages": [{"stage": "reduced", "step": step}],
            "convention": {},
            "source": {"commit": "0", "dirty": False},
            "created": "2026-11-30T12:00:00Z",
        }
        return save(arrays, {"gradassay": json.dumps(header | changes)})
