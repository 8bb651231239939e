"""A made-up team's month: goldens in three versions, runs of five frameworks before and after their fixes.

Everything is computed from a linear toy, so that laws, residuals and drift are what the assay really finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sqlalchemy import update

from builders import Toy, make_golden, make_record
from gradassay.api.auth.caller import Caller
from gradassay.api.auth.scope import Scope
from gradassay.api.database.tables import EntryRow, RunRow, Table, VersionRow
from gradassay.api.judging.refresh import ensure_drift
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.service import Service
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Framework, Parameter, Reference, Source
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record

LAYERS, EXPERTS, UNITS = 3, 4, 16
SEED = 1000
HARDWARE: Mapping[str, Any] = {
    "device": "cuda",
    "gpu": "NVIDIA H100 80GB HBM3",
    "cuda": "12.8",
    "nccl": "2.27.3",
    "python": "3.12.3",
}
THEN: Mapping[str, Any] = {**HARDWARE, "torch": "2.9.1"}
NOW: Mapping[str, Any] = {**HARDWARE, "torch": "2.10.0", "cuda": "13.0", "nccl": "2.28.9"}
REFERENCES = tuple(
    Reference(
        strategy=strategy, layout=Layout.parse(layout), record=f"sha256:{hashlib.sha256(layout.encode()).hexdigest()}"
    )
    for strategy, layout in (
        ("ddp", "dp2"),
        ("fsdp2", "dp4.accum2"),
        ("hsdp", "dp4.replicate2"),
        ("zero1", "dp4.ep2.accum3"),
    )
)
NOISE = {"float32": 1e-7, "bfloat16": 4e-3}
ROUGHER = {"dense": 1.0, "bias": 1.1, "embedding": 1.3, "expert": 1.6, "norm": 1.8, "router": 2.4}
COMMITS = tuple(hashlib.sha1(bytes([number])).hexdigest() for number in range(12))


def parameters() -> tuple[Parameter, ...]:
    """Those of a small mixture-of-experts transformer."""
    found: list[tuple[str, tuple[int, ...], str]] = [("embedding.weight", (96, 16), "embedding")]
    for layer in range(LAYERS):
        at = f"layers.{layer}"
        found += [(f"{at}.attention.{part}.weight", (24, 24), "dense") for part in ("query", "key", "value", "output")]
        found += [(f"{at}.attention.output.bias", (24,), "bias"), (f"{at}.norm.weight", (24,), "norm")]
        found += [(f"{at}.router.weight", (EXPERTS, 24), "router")]
        for expert in range(EXPERTS):
            found += [(f"{at}.experts.{expert}.{part}.weight", (32, 24), "expert") for part in ("up", "down")]
    found.append(("head.weight", (96, 16), "dense"))
    return tuple(Parameter(name=name, shape=shape, family=family) for name, shape, family in found)


def toy(name: str = "moe-small", *, seed: int = 7) -> Toy:
    """The problem, its gradients drawn from the seed."""
    random = np.random.default_rng(seed)
    members = parameters()
    gradients: dict[str, NDArray[np.float64]] = {}
    for number, parameter in enumerate(members):
        size = 10.0 ** (-2.5 + 1.5 * np.sin(number))
        shared = 0.5 * random.standard_normal(parameter.numel)
        gradients[parameter.name] = size * (shared + random.standard_normal((UNITS, parameter.numel)))
    return Toy(name=name, objective="unit-mean", tokens=(512,) * UNITS, parameters=members, terms={"loss": gradients})


def golden(problem: Toy, *, dtype: str = "float32", environment: Mapping[str, Any] = THEN) -> Golden:
    """The golden of the problem as this environment built it."""
    made = make_golden(problem, dtype=dtype, noise=NOISE[dtype])
    noise = {
        family: replace(floor, q50=floor.q50 * ROUGHER[family], q999=floor.q999 * ROUGHER[family])
        for family, floor in made.header.noise.items()
    }
    header = replace(made.header, references=REFERENCES, environment=dict(environment), noise=noise)
    return replace(made, header=header)


def rounded(known: Golden, *, size: float = 4e-8, environment: Mapping[str, Any] = NOW, seed: int = 3) -> Golden:
    """The same golden built again elsewhere: every unit's gradient rounded a little differently."""
    basis, random = known.bases[1], np.random.default_rng(seed)
    moved = basis.sketch * (1 + size * random.standard_normal(basis.sketch.shape))
    header = replace(known.header, environment=dict(environment))
    return replace(known, header=header, bases={1: replace(basis, sketch=moved)})


def restructured(known: Golden, *, factor: float = 2.0, environment: Mapping[str, Any] = NOW) -> Golden:
    """The golden after a change of code: the router's gradients are `factor` times what they were."""
    basis = known.bases[1]
    routers = [row for row, parameter in enumerate(known.header.parameters) if parameter.family == "router"]
    sketch, norm2 = basis.sketch.copy(), basis.norm2.copy()
    sketch[:, routers] *= factor
    norm2[:, routers] *= factor**2
    header = replace(known.header, environment=dict(environment))
    return replace(known, header=header, bases={1: replace(basis, sketch=sketch, norm2=norm2)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A run of the month. day: how many days ago it was posted; by: the job that posted it."""

    framework: str
    version: str
    strategy: str
    layout: str
    day: float
    commit: str
    by: str = "ci-nightly"
    weights: Mapping[str, ArrayLike] = field(default_factory=dict)
    dtype: str = "float32"
    missing: tuple[str, ...] = ()

    def record(self, problem: Toy, seed: int) -> Record:
        """Its record."""
        made = make_record(
            problem,
            layout=Layout.parse(self.layout),
            weights=self.weights,
            dtype=self.dtype,
            strategy=self.strategy,
            missing=self.missing,
            seed=seed,
        )
        header = replace(
            made.header,
            framework=Framework(name=self.framework, version=self.version),
            environment=dict(NOW if self.day < 10 else THEN),
            source=Source(commit=self.commit),
        )
        return replace(made, header=header)


def geometric(layout: str) -> NDArray[np.float64]:
    """[dp, accum] of Megatron-LM 3023: dp**(m - M + 2)."""
    sizes = Layout.parse(layout)
    row = [float(sizes.dp) ** (micro - sizes.accum + 2) for micro in range(sizes.accum)]
    return np.tile(row, (sizes.dp, 1))


def last_only(layout: str) -> NDArray[np.float64]:
    """[dp, accum] where only the last micro-batch was reduced."""
    sizes = Layout.parse(layout)
    row = [0.0] * (sizes.accum - 1) + [1.0]
    return np.tile(row, (sizes.dp, 1))


def month() -> Iterator[Posted]:
    """The runs, oldest first."""
    layouts = ("dp2", "dp4.accum2", "dp4.ep2.accum3", "dp8.ep4.accum2")
    everyone = ("dense", "expert", "router", "norm", "bias", "embedding")
    for number, layout in enumerate(layouts):
        for strategy in ("ddp", "fsdp2", "zero1"):
            yield Posted(
                framework="torch", version="2.9.1", strategy=strategy, layout=layout, day=26 - number, commit=COMMITS[0]
            )
    yield Posted(
        framework="torch", version="2.9.1", strategy="hsdp", layout="dp4.replicate2.accum2", day=22, commit=COMMITS[0]
    )
    for number in range(8):
        broken = number < 5
        for layout in ("dp4.ep2.accum3", "dp8.ep4.accum2") if number in (4, 7) else ("dp4.ep2.accum3",):
            yield Posted(
                framework="deepspeed",
                version="0.15.3" if broken else "0.15.4",
                strategy="deepspeed-zero2",
                layout=layout,
                day=20 - 2 * number,
                commit=COMMITS[number + 1],
                by="ci-deepspeed",
                weights={"expert": float(Layout.parse(layout).ep)} if broken else {},
            )
    yield Posted(
        framework="deepspeed",
        version="0.15.4",
        strategy="deepspeed-zero3",
        layout="dp4.accum2",
        day=5,
        commit=COMMITS[8],
        by="ci-deepspeed",
    )
    for layout in ("dp4.accum2", "dp4.ep2.accum3"):
        yield Posted(
            framework="megatron-fsdp",
            version="0.2.3",
            strategy="megatron-fsdp",
            layout=layout,
            day=4,
            commit=COMMITS[9],
            by="ci-megatron",
            weights=dict.fromkeys(everyone, geometric(layout)),
        )
    yield Posted(
        framework="megatron-fsdp",
        version="0.3.0",
        strategy="megatron-fsdp",
        layout="dp8.ep4.accum2",
        day=3,
        commit=COMMITS[10],
        by="ci-megatron",
    )
    yield Posted(
        framework="torchtitan",
        version="0.2.2",
        strategy="torchtitan-fsdp2",
        layout="dp4.ep2.accum3",
        day=2,
        commit=COMMITS[10],
        by="ci-torchtitan",
        weights={"expert": 2.0},
    )
    yield Posted(
        framework="accelerate",
        version="1.12.0",
        strategy="accelerate-fsdp2",
        layout="dp4.accum2",
        day=1.5,
        commit=COMMITS[11],
        by="ci-accelerate",
        weights=dict.fromkeys(everyone, last_only("dp4.accum2")),
    )
    yield Posted(
        framework="accelerate",
        version="1.12.0",
        strategy="accelerate-ddp",
        layout="dp4.accum2",
        day=1,
        commit=COMMITS[11],
        by="ci-accelerate",
        missing=("layers.1.norm.weight", "layers.2.norm.weight"),
    )
    yield Posted(
        framework="torch",
        version="2.10.0",
        strategy="fsdp2",
        layout="dp8.ep4.accum2",
        day=0.2,
        commit=COMMITS[11],
        by="laptop",
    )


def seed(service: Service, folder: Path) -> None:
    """Fills an empty service with the month. folder: for files on their way into the store."""
    problem = toy()
    first = golden(problem)
    dense = toy("dense-tiny", seed=8)
    others = {name: golden(dense, dtype=name) for name in ("float32", "bfloat16")}
    file = folder / "incoming.safetensors"

    def propose(made: Golden, day: float, *, who: str, why: str) -> tuple[str, int]:
        made.write(file)
        version = service.ledger.propose(file, who=who, project="default", why=why)
        _dated(service, VersionRow, VersionRow.proposed_at, day, golden=version.name, version=version.version)
        return version.name, version.version

    def decide(version: tuple[str, int], decision: Decision, day: float, *, who: str, why: str) -> Entry:
        entry = service.ledger.decide(*version, decision, who=who, why=why)
        _dated(service, EntryRow, EntryRow.at, day, number=entry.number)
        return entry

    built = propose(first, 29, who="ci-goldens", why="first golden of the problem")
    decide(built, Decision.APPROVE, 28, who="ada", why="16 units, power 1.00000001, references agree")
    for name, made in others.items():
        built = propose(made, 27, who="ci-goldens", why=f"dense model in {name}")
        decide(built, Decision.APPROVE, 26, who="grace", why="as planned")
    for number, posted in enumerate(month(), start=SEED):
        posted.record(problem, number).write(file)
        run, _ = service.runs.post(file, digest_of_file(file), who=posted.by, project="default")
        _dated(service, RunRow, RunRow.posted_at, posted.day, id=run.id)
        service.assays.judge(service.assays.question(run))
    built = propose(restructured(first, environment=THEN), 18, who="ci-goldens", why="router rewritten")
    decide(built, Decision.REJECT, 17, who="grace", why="the auxiliary loss is counted twice; mend the model first")
    propose(rounded(first), 1.2, who="ci-goldens", why="monthly refresh on the new image")
    for made in others.values():
        propose(rounded(made), 1.1, who="ci-goldens", why="monthly refresh on the new image")
    propose(restructured(rounded(first)), 0.6, who="linus", why="auxiliary loss scaled as in the paper")
    for known in service.ledger.goldens("*"):
        for version in service.ledger.versions(known.name):
            ensure_drift(service.database, service.store, version.name, version.version)
    _review(service)
    for name, scopes, days in (("ci-nightly", "post", 90), ("ci-goldens", "post", 90), ("grace", "review", None)):
        lifetime = None if days is None else timedelta(days=days)
        service.tokens.create(name=name, scopes=[Scope(scopes)], by="ada", project="default", lifetime=lifetime)
    leaked, _ = service.tokens.create(name="ci-old", scopes=[Scope.POST], by="ada", project="default")
    service.tokens.revoke(leaked.id)


def _review(service: Service) -> None:
    for group in service.reviews.inbox("default"):
        operator = Caller(who="ada", project="*", scopes=frozenset(Scope))
        run = service.runs.find(group.runs[0], operator)
        if group.pattern == "last-only":
            service.reviews.accept(
                run,
                law=group.law,
                reason="accelerate 1.12 without gradient accumulation plugin; ours to configure",
                expires_at=datetime.now(UTC) + timedelta(days=30),
                who="ada",
            )


def _dated(service: Service, table: type[Table], column: Any, day: float, **row: object) -> None:
    at = datetime.now(UTC) - timedelta(days=day)
    with service.database.write() as session:
        session.execute(update(table).filter_by(**row).values({column: at}))
        if table is VersionRow:
            session.execute(update(EntryRow).filter_by(**row, action=str(Action.PROPOSED)).values(at=at))


def pages(service: Service) -> dict[str, str]:
    """Paths of the dashboard's pages by name; those of a run, golden or entry only where there is one."""
    found = {
        "inbox": "/",
        "runs": "/runs",
        "matrix": "/matrix",
        "diff": "/diff",
        "goldens": "/goldens",
        "history": "/history",
        "faults": "/faults",
        "fault": "/faults/deepspeed-6545",
        "ledger": "/ledger",
        "settings": "/settings",
        "login": "/login",
        "missing": "/nowhere",
    }
    runs = service.runs.page("*", limit=200).items
    by_kind = {(run.strategy, run.layout): run.id for run in runs}
    if not runs:
        return found
    wrong, right = by_kind["megatron-fsdp", "dp4.ep2.accum3"], by_kind["fsdp2", "dp8.ep4.accum2"]
    expert = by_kind["torchtitan-fsdp2", "dp4.ep2.accum3"]
    return found | {
        "run": f"/runs/{wrong}",
        "run-expert": f"/runs/{expert}",
        "run-agrees": f"/runs/{right}",
        "diff-two": f"/diff?a={by_kind['fsdp2', 'dp4.ep2.accum3']}&b={expert}",
        "golden": "/goldens/moe-small.float32",
        "version": "/goldens/moe-small.float32/v3",
        "version-structured": "/goldens/moe-small.float32/v4",
        "version-rejected": "/goldens/moe-small.float32/v2",
        "history-expert": "/history?parameter=layers.0.experts.0.up.weight&framework=deepspeed",
        "entry": "/ledger/2",
    }
