"""`gradassay demo`: the main job on real runs, step by step, by the functions behind the other commands."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.session import Session, leave, session_of
from gradassay.goldens.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.goldens.assay.result import Assay, JointFinding, Law
    from gradassay.goldens.reference import Referred
    from gradassay.goldens.store.protocol import GoldenStore
    from gradassay.harness.cell import Cell
    from gradassay.harness.launch import Pool
    from gradassay.harness.progress import Progress

PROBLEM, DTYPE = "moe-tiny", "float32"
NEWEST, BROKEN = "deepspeed==0.19.8", "deepspeed==0.15.3"
NEWEST_MEGATRON, BROKEN_MEGATRON = "megatron-fsdp==0.6.1", "megatron-fsdp==0.2.3"
RELEASES = (NEWEST, BROKEN, NEWEST_MEGATRON, BROKEN_MEGATRON)
DEADLINE_S = 300.0


@dataclass(slots=True, kw_only=True)
class Demo:
    """What the steps share. surprises: what did not come out as the demo says it does."""

    session: Session
    folder: Path
    pool: Pool
    progress: Progress
    store: GoldenStore
    golden: Referred | None = None
    surprises: list[str] = field(default_factory=list)

    def record(self, cells: Sequence[Cell], title: str) -> list[Referred]:
        """The records of the cells, kept in the store; raises CellFailed for the first cell that fails."""
        from gradassay.goldens.reference import Referred
        from gradassay.harness.launch import run_cells

        folder = self.folder / "records"
        outcomes = run_cells(cells, folder, self.pool, deadline_s=DEADLINE_S, progress=self.progress, title=title)
        paths = [outcome.require() for outcome in outcomes]
        for path in paths:
            self.store.put_record(path)
        return [Referred(kind="record", ref=str(path), path=path) for path in paths]

    def assay(self, records: Sequence[Referred]) -> tuple[tuple[Assay, ...], tuple[JointFinding, ...]]:
        """The records against the golden, and the laws that hold in all of them."""
        from gradassay.cli.comparing import joint_findings
        from gradassay.goldens.comparing import assay_all

        assert self.golden is not None
        assays = assay_all(self.golden, records)
        return assays, joint_findings(assays)

    def page(self, assays: Sequence[Assay], findings: Sequence[JointFinding], name: str) -> None:
        """Writes the whole report as a page into the demo's folder."""
        from gradassay.goldens.atomic import write_atomically
        from gradassay.goldens.report import render_joint

        write_atomically(self.folder / name, render_joint(assays, findings, "html").encode())

    def expect(self, what: str, found: object, expected: object) -> None:
        """Notes a surprise where the two differ."""
        if found != expected:
            self.surprises.append(f"{what}: expected {expected}, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: its heading, and what it does."""

    title: str
    run: Callable[[Demo], None]


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the golden, records, reports and MLflow.")
    ] = Path("gradassay-demo"),
) -> None:
    """Build a golden from real runs, catch a real bug of DeepSpeed and one of Megatron-FSDP with it, and name them."""
    from gradassay.goldens.extras import require
    from gradassay.goldens.store.open import open_store
    from gradassay.harness.launch import Pool

    session = session_of(context)
    require("torch", "mlflow")
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    progress = session.progress(lines=True)
    with Pool(say=progress.say) as pool:
        store = open_store(f"sqlite:///{(out / 'mlflow.db').absolute()}")
        shared = Demo(session=session, folder=out, pool=pool, progress=progress, store=store)
        for number, step in enumerate(STEPS, start=1):
            session.emit(f"\n{number}/{len(STEPS)}  {step.title}\n")
            begun = time.monotonic()
            step.run(shared)
            session.emit(f"     {time.monotonic() - begun:.1f} s\n")
    session.emit(_closing(out, time.monotonic() - started))
    for surprise in shared.surprises:
        session.emit(f"NOT AS EXPECTED  {surprise}\n")
    if shared.surprises:
        leave(Exit.DIVERGE)


def install_frameworks(demo: Demo) -> None:
    """All releases, downloaded where they are not installed yet; their servers start warming up."""
    from gradassay.harness.environments import zoo_folder
    from gradassay.harness.zoo import install

    demo.pool.warm("")
    with demo.progress.stage("frameworks", len(RELEASES)) as advance:
        for framework in RELEASES:
            install(framework)
            advance(framework)
    demo.session.emit(f"     {', '.join(RELEASES)} in {zoo_folder()}\n")
    demo.pool.warm(*RELEASES)


def build_reference_golden(demo: Demo) -> None:
    """The golden of moe-tiny from the reference cells that come with the package."""
    from gradassay.cli.describe import family_table
    from gradassay.goldens.reference import Referred
    from gradassay.harness.build import build_golden
    from gradassay.harness.matrix import demo_matrix

    cells = demo_matrix().cells
    folder = demo.folder / "references"
    golden = build_golden(
        PROBLEM, DTYPE, cells, pool=demo.pool, folder=folder, deadline_s=DEADLINE_S, progress=demo.progress
    )
    path = demo.folder / "golden.safetensors"
    golden.write(path)
    demo.golden = Referred(kind="golden", ref=str(path), path=path)
    demo.session.emit(f"     {len(cells)} reference runs, {len(golden.header.units)} units: {path}\n")
    demo.session.show(family_table(golden, indent=5))


def keep_golden(demo: Demo) -> None:
    """The golden as an approved version in MLflow."""
    import getpass

    from gradassay.goldens.reference import Referred

    assert demo.golden is not None
    version = demo.store.put_golden(demo.golden.path)
    approved = demo.store.approve(version.name, version.version, who=getpass.getuser(), why="gradassay demo")
    ref = f"golden:{approved.name}@approved"
    demo.golden = Referred(kind="golden", ref=ref, path=demo.store.golden_path(approved.name))
    demo.session.emit(f"     {approved.name} v{approved.version} is approved in {demo.store}\n")


def run_newest(demo: Demo) -> None:
    """The newest DeepSpeed, which agrees."""
    _run_fixed(demo, NEWEST, _deepspeed(NEWEST))


def run_broken(demo: Demo) -> None:
    """DeepSpeed 0.15.3, whose expert gradients are ep times too large."""
    _run_faulty(demo, BROKEN, _deepspeed(BROKEN), "w[r,m] = ep")


def run_newest_megatron(demo: Demo) -> None:
    """The newest Megatron-FSDP, which agrees."""
    _run_fixed(demo, NEWEST_MEGATRON, _megatron(NEWEST_MEGATRON))


def run_broken_megatron(demo: Demo) -> None:
    """Megatron-FSDP 0.2.3, which scales what it has accumulated again at every reduction."""
    _run_faulty(demo, BROKEN_MEGATRON, _megatron(BROKEN_MEGATRON), "w[r,m] = dp**(m-M+2)")


def run_self_assay(demo: Demo) -> None:
    """The same release without any golden: its gradient against its own micro-batches."""
    from gradassay.cli.comparing import compare_with_itself, write_report

    cell = replace(_megatron(BROKEN_MEGATRON)[0], stages=("local", "reduced"))
    (record,) = demo.record([cell], "self-assay")
    assays = compare_with_itself(demo.session, record.ref)
    write_report(demo.session, assays, ())
    laws = {finding.law.formula for finding in assays[0].findings}
    demo.expect("law without a golden", sorted(laws), ["w[r,m] = dp**(m-M+2)"])


STEPS: tuple[Step, ...] = (
    Step(
        title="two releases of DeepSpeed and two of Megatron-FSDP, each in a folder of its own", run=install_frameworks
    ),
    Step(title="a golden of moe-tiny from reference runs: DDP, FSDP2, HSDP and ZeRO-1", run=build_reference_golden),
    Step(title="the golden goes to MLflow and is approved", run=keep_golden),
    Step(title=f"real runs of {NEWEST}: ZeRO-1 and ZeRO-2, dp 4, ep 2 and 4", run=run_newest),
    Step(title=f"real runs of {BROKEN}: ZeRO-1 and ZeRO-2, dp 4, ep 2 and 4", run=run_broken),
    Step(title=f"real runs of {NEWEST_MEGATRON}: dp 2 and 4, accumulation 1 and 3", run=run_newest_megatron),
    Step(title=f"real runs of {BROKEN_MEGATRON}: dp 2 and 4, accumulation 1 and 3", run=run_broken_megatron),
    Step(title=f"{BROKEN_MEGATRON} without any golden: assayed against its own micro-batches", run=run_self_assay),
)


def _run_fixed(demo: Demo, framework: str, cells: Sequence[Cell]) -> None:
    assays, findings = demo.assay(demo.record(cells, framework))
    _say_each(demo, assays)
    demo.page(assays, findings, f"{framework.replace('==', '-')}.html")
    for assay in assays:
        demo.expect(f"{framework} {assay.b.title} {assay.layout}", str(assay.verdict), "agree")


def _run_faulty(demo: Demo, framework: str, cells: Sequence[Cell], law: str) -> None:
    from gradassay.cli.comparing import show_joint

    assays, findings = demo.assay(demo.record(cells, framework))
    _say_each(demo, assays)
    show_joint(demo.session, findings)
    demo.page(assays, findings, f"{framework.replace('==', '-')}.html")
    demo.expect(f"joint law of {framework}", [finding.law.formula for finding in findings], [law])


def _deepspeed(framework: str) -> list[Cell]:
    from gradassay.goldens.layout import Layout
    from gradassay.harness.cell import Cell

    return [
        Cell(
            problem=PROBLEM,
            strategy=f"deepspeed-zero{stage}",
            layout=Layout(dp=4, ep=ep, accum=3),
            dtype=DTYPE,
            framework=framework,
        )
        for stage in (1, 2)
        for ep in (2, 4)
    ]


def _megatron(framework: str) -> list[Cell]:
    """Cells that divide apart from the reduction, as the package does by default in bfloat16."""
    from gradassay.goldens.layout import Layout
    from gradassay.harness.cell import Cell

    return [
        Cell(
            problem=PROBLEM,
            strategy="megatron-fsdp",
            layout=layout,
            dtype=DTYPE,
            framework=framework,
            options={"gradient_reduce_div_fusion": "false"},
        )
        for layout in (Layout(dp=4, accum=3), Layout(dp=2, accum=3), Layout(dp=4))
    ]


def _say_each(demo: Demo, assays: Sequence[Assay]) -> None:
    from rich.padding import Padding

    from gradassay.cli.tables import table
    from gradassay.goldens.report import numbers

    rows = (
        (
            assay.b.title,
            str(assay.layout),
            str(assay.verdict),
            "; ".join(f"{', '.join(finding.families)}: {_law(finding.law)}" for finding in assay.findings) or "none",
            numbers.power(max(assay.power.values())),
        )
        for assay in assays
    )
    demo.session.show(Padding(table(("run", "layout", "verdict", "law", "power"), rows), (0, 0, 0, 5)))


def _law(law: Law) -> str:
    from gradassay.goldens.assay.result import Pattern
    from gradassay.goldens.report import numbers

    return f"{law.formula} = {numbers.factor(law.value)}" if law.pattern is Pattern.UNIFORM else law.formula


def _closing(folder: Path, seconds: float) -> str:
    name, gradassay = f"{PROBLEM}.{DTYPE}", _command("gradassay")
    return f"""
All of it took {seconds:.0f} s. Where to look next:

  {folder}/{BROKEN.replace("==", "-")}.html, {folder}/{BROKEN_MEGATRON.replace("==", "-")}.html
      the reports as pages: weights by rank and micro step, every parameter
  {gradassay} serve --folder {folder}
      the dashboard over the same goldens and records, with a link that signs in
  {gradassay} --store {folder} diff golden:{name} {folder}/records
      all records of this demo against the approved golden, explained together
  {gradassay} --store {folder} golden show {name}
      what a golden holds, and how small an error it can see
  {gradassay} record {PROBLEM} --strategy fsdp2 --dp 4 --ep 2 --accum 3 --out run.safetensors
      a run of your own; {gradassay} faults list prints the faults that --fault injects
  {_command("mlflow")} ui --backend-store-uri sqlite:///{folder}/mlflow.db
      the same goldens and records in MLflow
"""


def _command(name: str) -> str:
    """How to call a command of this environment from here."""
    beside = Path(sys.executable).parent / name
    if shutil.which(name) or not beside.exists():
        return name
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)
