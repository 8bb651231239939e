"""How each public report is run here, as ci/public_faults.toml says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from faulty.step import MENDED
from pydantic import TypeAdapter

from gradassay.goldens.assay.result import Pattern
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch.outcome import RUN_RANK

TABLE = Path(__file__).parents[1] / "public_faults.toml"


class How(StrEnum):
    """What the report is run on: a release that has the fault, a script on today's torch, or an injection."""

    RELEASE = "release"
    SCRIPT = "script"
    INJECTED = "injected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an assay must find. laws: right-hand sides of w[r,m], one for each group of parameters; () where the pattern
    says all. families: whose parameters diverge; ("all",) is every family.
    """

    pattern: Pattern
    laws: tuple[str, ...] = ()
    families: tuple[str, ...] = ("all",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A public fault (its id in the catalogue), and how it is run. Exactly one of these says on what:

    releases: those that have it; `fixed` are those that must agree, or `sound_layout` where they themselves must, for want
    of a fixed one. script: a module of this folder, which mends itself for the control. inject: an injected fault as text.

    function: what ranks call of a release, where that is no strategy of the harness. why: why no release is run, or what
    else there is to say. named: whether the assay says that it looks like this report.
    """

    fault: str
    expected: Expected
    problem: str = "moe-tiny"
    layout: str
    dtype: str = "float32"
    strategy: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[str, ...] = ("reduced",)
    learning_rate: float = 0.0
    max_norm: float = 0.0
    releases: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    sound_layout: str = ""
    function: str = RUN_RANK
    script: str = ""
    inject: str = ""
    why: str = ""
    named: bool = True

    @property
    def how(self) -> How:
        """What it is run on."""
        if self.releases:
            return How.RELEASE
        return How.SCRIPT if self.script else How.INJECTED

    def trials(self) -> tuple[Trial, ...]:
        """Its cells: with the fault, and without."""
        cell = Cell(
            problem=self.problem,
            strategy=self.strategy or self.script,
            layout=Layout.parse(self.layout),
            dtype=self.dtype,
            options=self.options,
            stages=self.stages,
            learning_rate=self.learning_rate,
            max_norm=self.max_norm,
        )
        broken: tuple[Cell, ...] = (cell,)
        if self.how is How.RELEASE:
            broken = tuple(replace(cell, framework=release) for release in self.releases)
            sound = replace(cell, layout=Layout.parse(self.sound_layout)) if self.sound_layout else cell
            controls = tuple(replace(sound, framework=release) for release in self.fixed or self.releases)
        elif self.how is How.SCRIPT:
            controls = (replace(cell, options={**self.options, MENDED: "true"}),)
        else:
            broken, controls = (replace(cell, fault=self.inject),), (cell,)
        return tuple(
            Trial(report=self, cell=cell, control=control)
            for control, cells in ((False, broken), (True, controls))
            for cell in cells
        )

    @property
    def rank_function(self) -> str:
        """What every rank calls."""
        return f"faulty.{self.script}:run" if self.script else self.function


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One cell of a report. control: it must agree."""

    report: Report
    cell: Cell
    control: bool

    def __str__(self) -> str:
        return f"{self.report.fault}: {self.cell}"


def load_reports(path: Path = TABLE) -> tuple[Report, ...]:
    """The rows of a table, in its order."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["report"]
    return TypeAdapter(tuple[Report, ...]).validate_python(rows)
