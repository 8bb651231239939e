"""Breaks real framework releases on purpose, checks that goldens show and name it, and writes docs/controls.md.

1. python ci/controls.py                               every release of ci/zoo.toml that is installed (`make zoo`)
2. python ci/controls.py --only deepspeed==0.19.8 torchtitan
3. python ci/controls.py --fresh                       forgets what was found before
Exit code 0 where healthy cells agree and every fault was detected and named, else 1. What was found is kept in
build/controls: a run that was ended goes on where it was, what was wrong is tried again, and the page shows all that is known.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from controls_page import page
from soak import ROOT, kept_golden
from soak_results import Results

from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.assay.result import Assay, Verdict
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record, read_record
from gradassay.harness.cell import Cell
from gradassay.harness.controls import altered
from gradassay.harness.environments import FAMILIES, installed, zoo_folder
from gradassay.harness.faults import Site, judge, parse_fault
from gradassay.harness.faults.disagreement import RankDisagreement
from gradassay.harness.faults.kept import Kept
from gradassay.harness.faults.unreduced import Unreduced
from gradassay.harness.launch import Pool, Task
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies.limits import LIMITS, Limits

PROBLEM, DTYPE = "moe-tiny", "float32"
WITH_EXPERTS, WITHOUT = "dp4.ep2.accum3", "dp4.accum3"
DEADLINE_S = 300.0
INAPPLICABLE = "inapplicable"
"""In place of a verdict: faults of copies, where ranks hold shards that nobody else has."""

FAULTS = (
    "uniform:expert:scale=1/dp",
    "geometric:all:base=dp,scale=dp",
    "linear:dense",
    "last-only:all",
    "micro-subset:router",
    "rank-subset:norm",
    "sign:bias",
    "zero:router",
    "missing:embedding",
    "unreduced:dense",
    "term:all:scale=accum",
    "permuted:expert",
    "rank-disagreement:norm",
)
_SUMS = {"all": "dp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A cell that a release gets wrong by itself, and the public report that must be named."""

    strategy: str
    layout: str
    report: str
    options: Mapping[str, str] = field(default_factory=dict)


OWN: Mapping[str, Own] = {
    "deepspeed==0.15.3": Own(strategy="deepspeed-zero2", layout=WITH_EXPERTS, report="deepspeed-6545"),
    "deepspeed==0.15.1": Own(strategy="deepspeed-zero2", layout=WITH_EXPERTS, report="deepspeed-6545"),
    "megatron-fsdp==0.2.3": Own(
        strategy="megatron-fsdp",
        layout=WITHOUT,
        report="megatron-lm-3023",
        options={"gradient_reduce_div_fusion": "false"},
    ),
    "torchtitan==0.2.2": Own(
        strategy="torchtitan-ddp", layout=WITHOUT, report="torchtitan-2318", options={"loss": "trainer"}
    ),
}
"""Releases that are wrong where others are right: their healthy cells have no expert parallelism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One control. kind: healthy, injected (into the run), altered (its healthy record) or own (the release's own fault).

    altered is for faults that cannot be injected around a strategy; some strategies say so in the run only. fault: that of
    injected and altered; of own the report to be named.
    """

    kind: str
    cell: Cell
    fault: str = ""

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.kind} | {replace(self.cell, fault='')} | {self.fault}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a control came to. golden: digest of its file. laws: formulas found. reason: what is wrong, or ""."""

    key: str
    release: str
    strategy: str
    layout: str
    kind: str
    golden: str
    fault: str = ""
    verdict: str = ""
    laws: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def detected(self) -> bool:
        """Whether the verdict is what it has to be."""
        return self.verdict == ("agree" if self.kind == "healthy" else "diverge")

    @property
    def good(self) -> bool:
        """Whether it is also named, or there is nothing to be broken."""
        return self.verdict == INAPPLICABLE or (self.detected and not self.reason)


def releases() -> list[str]:
    """The releases of ci/zoo.toml that have a strategy, as `name==version`."""
    table = tomllib.loads((ROOT / "ci/zoo.toml").read_text(encoding="utf-8"))
    return [f"{name}=={one}" for name in table if FAMILIES[name].strategies for one in table[name]["releases"]]


def planned(release: str) -> list[Control]:
    """The controls of a release: its default strategy healthy, every fault around it, and its own fault."""
    strategy = FAMILIES[release.partition("==")[0]].strategies[0]
    spread = LIMITS.get(strategy, Limits()).experts and release not in OWN
    cell = _cell(release, strategy, WITH_EXPERTS if spread else WITHOUT)
    found = [Control(kind="healthy", cell=cell)]
    for fault in FAULTS:
        try:
            parse_fault(fault).check(_site(cell))
        except UsageError:
            found.append(Control(kind="altered", cell=cell, fault=fault))
        else:
            found.append(Control(kind="injected", cell=replace(cell, fault=fault), fault=fault))
    if (own := OWN.get(release)) is not None:
        broken = replace(_cell(release, own.strategy, own.layout), options=own.options)
        found.append(Control(kind="own", cell=broken, fault=own.report))
    return found


def _cell(release: str, strategy: str, layout: str) -> Cell:
    return Cell(problem=PROBLEM, strategy=strategy, layout=Layout.parse(layout), dtype=DTYPE, framework=release)


def _site(cell: Cell, *, anywhere: bool = False) -> Site:
    strategy = "" if anywhere else cell.strategy
    return Site(problem=load_problem(cell.problem), layout=cell.layout, strategy=strategy, dtype=cell.dtype)


def run(controls: Sequence[Control], golden: Path, folder: Path, pool: Pool) -> Iterator[Result]:
    """The result of every control, in the order in which they end; last come those whose fault the ranks refuse to inject,
    as altered records. Healthy records stay in `folder`.
    """
    judged_by, digest = read_golden(golden), digest_of_file(golden)
    run_as: dict[str, list[Control]] = {}
    for control in controls:
        run_as.setdefault(str(control.cell), []).append(control)
    refused: list[Control] = []
    for outcome in pool.run([_task(alike[0].cell, folder) for alike in run_as.values()]):
        for control in run_as[str(outcome.cell)]:
            if outcome.path is not None:
                yield judged(control, read_record(outcome.path), judged_by, digest)
            elif outcome.failure is not None and outcome.failure.refused and control.kind == "injected":
                refused.append(control)
            else:
                assert outcome.failure is not None
                yield replace(_blank(control, digest), reason=f"rank {outcome.failure.rank}: {outcome.failure.reason}")
        if outcome.path is not None and outcome.cell.fault:
            outcome.path.unlink()
    healthy = {
        str(cell): cell for control in refused if not _path((cell := replace(control.cell, fault="")), folder).exists()
    }
    for outcome in pool.run([_task(cell, folder) for cell in healthy.values()]):
        outcome.require()
    for control in refused:
        record = read_record(_path(replace(control.cell, fault=""), folder))
        yield replace(judged(replace(control, kind="altered"), record, judged_by, digest), key=control.key)


def _task(cell: Cell, folder: Path) -> Task:
    return Task(cell=cell, out=_path(cell, folder), deadline_s=DEADLINE_S)


def _path(cell: Cell, folder: Path) -> Path:
    return folder / f"{hashlib.sha256(str(cell).encode()).hexdigest()[:16]}.safetensors"


def judged(control: Control, record: Record, golden: Golden, digest: str) -> Result:
    """What a control's record comes to; digest: of the golden's file."""
    blank, cell = _blank(control, digest), control.cell
    match control.kind:
        case "healthy":
            assay = assay_record(record, golden)
            wrong = "" if assay.verdict is Verdict.AGREE else assay.sentence
        case "own":
            assay = assay_record(record, golden)
            named = any(control.fault in finding.known_faults for finding in assay.findings)
            wrong = "" if named else f"{control.fault} is not named: {assay.sentence}"
        case "altered":
            fault, site = parse_fault(control.fault), _site(cell, anywhere=True)
            sharded = any(parameter.shards is not None for parameter in record.header.parameters)
            if sharded and isinstance(fault, Kept | RankDisagreement):
                return replace(blank, verdict=INAPPLICABLE)
            assay = assay_record(altered(record, fault, site, golden), golden)
            wrong = "; ".join(judge(fault, assay, golden, site).complaints)
        case _:
            assay = assay_record(record, golden)
            fault = parse_fault(control.fault)
            if isinstance(fault, Unreduced) and record.header.convention == _SUMS:
                # Declared sums are divided by dp before comparing, and with them what a rank kept of its own.
                fault = replace(fault, factor="1")
            wrong = "; ".join(judge(fault, assay, golden, _site(cell)).complaints)
    return replace(blank, verdict=assay.verdict.value, laws=_laws(assay), reason=wrong)


def _laws(assay: Assay) -> list[str]:
    return list(dict.fromkeys(f"{finding.law.pattern}: {finding.law.formula}" for finding in assay.findings))


def _blank(control: Control, digest: str) -> Result:
    return Result(
        key=control.key,
        release=control.cell.framework,
        strategy=" ".join([control.cell.strategy, *(f"{key}={value}" for key, value in control.cell.options.items())]),
        layout=str(control.cell.layout),
        kind=control.kind,
        golden=digest,
        fault=control.fault,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Goes on with the controls, and writes the page; 1 where a control is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=[], metavar="RELEASE", help="releases, or names of frameworks")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/controls")
    parser.add_argument("--goldens", type=Path, default=ROOT / "build/soak/goldens")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/controls.md")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    given = parser.parse_args(arguments)
    known = releases()
    if unknown := [one for one in given.only if one not in known and one not in {_name(release) for release in known}]:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(known)}")
    here = [release for release in known if installed(zoo_folder() / release.replace("==", "-"))]
    given.folder.mkdir(parents=True, exist_ok=True)
    results = Results(given.folder / "results.jsonl", Result)
    if given.fresh:
        results.forget()
    chosen = [one for one in here if not given.only or one in given.only or _name(one) in given.only]
    with Pool() as pool:
        golden = kept_golden(PROBLEM, DTYPE, given.goldens, pool)
        done = results.read({digest_of_file(golden)})
        asked = [control for release in chosen for control in planned(release)]
        left = [control for control in asked if control.key not in done or not done[control.key].good]
        for number, result in enumerate(run(left, golden, given.folder / "records", pool), 1):
            results.add(result)
            done[result.key] = result
            print(f"{number}/{len(left)} {result.key} {result.reason}", file=sys.stderr, flush=True)
    every = {release: [done.get(control.key) for control in planned(release)] for release in here}
    absent = [release for release in known if release not in here]
    given.page.write_text(page(every, absent), encoding="utf-8")
    mine = [done[control.key] for control in asked]
    print(f"{sum(one.good for one in mine)} of {len(mine)} controls are as they should be: {given.page}")
    return 0 if mine and all(one.good for one in mine) else 1


def _name(release: str) -> str:
    return release.partition("==")[0]


if __name__ == "__main__":
    raise SystemExit(main())
