"""What `make soak` runs: honest cells in every surrounding that honest runs may differ in, and some with a fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.faults import Site, parse_fault
from gradassay.harness.problems import load_problem
from gradassay.harness.problems.protocol import Problem

PROBLEMS = ("dense-tiny", "moe-tiny", "ragged-tiny")
DTYPES = ("float32", "bfloat16")
LAYOUTS = (
    *("dp1.accum3", "dp1.accum7", "dp1.accum24"),
    *("dp2.accum1", "dp2.accum3", "dp2.accum5", "dp2.accum12"),
    *("dp3.accum1", "dp3.accum2", "dp3.accum5", "dp3.accum8"),
    *("dp4.accum1", "dp4.accum2", "dp4.accum3", "dp4.accum6", "dp4.replicate2.accum1", "dp4.replicate2.accum4"),
    *("dp5.accum1", "dp5.accum2", "dp5.accum4"),
    *("dp6.accum1", "dp6.accum2", "dp6.accum4", "dp6.replicate2.accum2", "dp6.replicate3.accum3"),
    *("dp7.accum1", "dp7.accum2", "dp7.accum3"),
    *("dp8.accum1", "dp8.accum3", "dp8.replicate2.accum2", "dp8.replicate4.accum1"),
)
"""Where a problem has experts, each layout spreads them over another number of ranks."""

SWITCHES = "GRADASSAY_SOAK_SWITCHES"
"""Variable of ranks: what soak_rank.py switches in torch before the step, separated by spaces."""

FAULTS = (
    "uniform:all:scale=1.05",
    "geometric:all:base=dp,scale=dp",
    "last-only:all",
    "sign:norm",
    "rank-subset:all",
    "uniform:dense:scale=1/dp",
    "unreduced:all",
    "missing:embedding",
)
CONTROL_EVERY = 16
"""Of so many honest cells one is run again with a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Surroundings of a run. variables: of its ranks. says: what its record must say of it, by key of the environment.

    torch: a release in a folder of its own, or "" for the main one.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, object] = field(default_factory=dict)
    torch: str = ""


_NARROW = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
_PLAIN = Setting(name="as it is", says={"threads": 1})


def _threads(count: int) -> dict[str, str]:
    # Threads of all ranks are more than cores: those that wait must not spin.
    return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count), "OMP_WAIT_POLICY": "passive"}


_SAME_TORCH = (
    _PLAIN,
    Setting(name="2 threads", variables=_threads(2), says={"threads": 2}),
    Setting(name="3 threads", variables=_threads(3), says={"threads": 3}),
    Setting(name="mkldnn off", variables={SWITCHES: "mkldnn-off"}, says={"mkldnn": False}),
    Setting(name="denormals flushed", variables={SWITCHES: "denormals-flushed"}, says={"denormals": "flushed"}),
    Setting(
        name="kernels without vectors",
        variables=_NARROW,
        says={"instructions": "DEFAULT", "kernel_settings": " ".join(f"{k}={v}" for k, v in _NARROW.items())},
    ),
    Setting(
        name="kernels without vectors, 2 threads, mkldnn off",
        variables={**_NARROW, **_threads(2), SWITCHES: "mkldnn-off"},
        says={"instructions": "DEFAULT", "threads": 2, "mkldnn": False},
    ),
    Setting(
        name="3 threads, denormals flushed",
        variables={**_threads(3), SWITCHES: "denormals-flushed"},
        says={"threads": 3, "denormals": "flushed"},
    ),
)


def settings(torch: str) -> tuple[Setting, ...]:
    """The ten repeats of every layout. torch: another release to run three of them with, or "" where there is none."""
    others = (
        replace(_PLAIN, name=f"torch {torch}", torch=torch, says={"torch": torch}),
        replace(_SAME_TORCH[1], name=f"torch {torch}, 2 threads", torch=torch, says={"torch": torch, "threads": 2}),
    )
    instead = (
        Setting(
            name="3 threads, mkldnn off",
            variables={**_threads(3), SWITCHES: "mkldnn-off"},
            says={"threads": 3, "mkldnn": False},
        ),
        Setting(
            name="mkldnn off, denormals flushed",
            variables={SWITCHES: "mkldnn-off denormals-flushed"},
            says={"mkldnn": False, "denormals": "flushed"},
        ),
    )
    return (*_SAME_TORCH, *(others if torch else instead))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the plan: a cell in a setting."""

    cell: Cell
    setting: Setting

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.cell} | {self.setting.name}"


def plan(torch: str, share: Fraction = Fraction(1)) -> list[Run]:
    """The runs in the order in which they are made, such that any beginning has every problem, dtype and setting alike."""
    repeats = settings(torch)
    goldens = [(problem, dtype) for dtype in DTYPES for problem in PROBLEMS]
    honest = [
        Run(cell=_cell(problem, dtype, (turn + 5 * place + 3 * repeat) % len(LAYOUTS), repeat), setting=setting)
        for turn in range(len(LAYOUTS))
        for repeat, setting in enumerate(repeats)
        for place, (problem, dtype) in enumerate(goldens)
    ]
    kept = honest[: ceil(len(honest) * share)]
    return list(_with_controls(kept))


def _with_controls(runs: Sequence[Run]) -> Iterator[Run]:
    for number, run in enumerate(runs):
        yield run
        if number % CONTROL_EVERY == CONTROL_EVERY // 2:
            yield replace(run, cell=replace(run.cell, fault=_fault(run.cell, number // CONTROL_EVERY)))


def _fault(cell: Cell, number: int) -> str:
    """The next fault that does something to this cell; the first always does."""
    site = Site(problem=load_problem(cell.problem), layout=cell.layout, strategy=cell.strategy, dtype=cell.dtype)
    for text in (FAULTS[number % len(FAULTS)], *FAULTS):
        try:
            parse_fault(text).check(site)
        except UsageError:
            continue
        return text
    raise AssertionError(f"no fault can be injected into {cell}")


def _cell(problem: str, dtype: str, layout: int, repeat: int) -> Cell:
    chosen = _spread(Layout.parse(LAYOUTS[layout]), load_problem(problem), layout)
    ways = _ways(chosen)
    strategy, options = ways[(layout + repeat) % len(ways)]
    return Cell(problem=problem, strategy=strategy, layout=chosen, dtype=dtype, options=options)


def _spread(layout: Layout, problem: Problem, number: int) -> Layout:
    """The layout with experts over one of the numbers of ranks that divide them and a replica."""
    within = layout.dp // layout.replicate
    sizes = [size for size in range(1, within + 1) if problem.experts and not (within % size or problem.experts % size)]
    return replace(layout, ep=sizes[-1 - number % len(sizes)]) if sizes else layout


def _ways(layout: Layout) -> list[tuple[str, dict[str, str]]]:
    """Strategies and options that leave the same gradient, added up in other orders and held in other shards."""
    sharded = [{"sync": sync, "reshard": reshard} for sync in ("last", "every") for reshard in ("true", "false")]
    if layout.replicate > 1:
        return [("hsdp", options) for options in sharded]
    return [
        ("ddp", {}),
        ("fsdp2", sharded[0]),
        ("zero1", {}),
        ("fsdp2", sharded[3]),
        ("ddp", {"bucket_cap_mb": "0.01"}),
        ("fsdp2", sharded[2]),
        ("ddp", {"no_sync": "false", "bucket_cap_mb": "0.05"}),
        ("fsdp2", sharded[1]),
        *([("single", {})] if layout.world == 1 else []),
    ]
