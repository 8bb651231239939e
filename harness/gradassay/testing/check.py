"""One test's comparisons: its cell is run before the call, agreement is asserted in it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.comparing import assay_all
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import CellFailed, GradassayError, NoGolden
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import Referred
from gradassay.goldens.report.json import to_json
from gradassay.goldens.report.suite import ERROR, SKIPPED
from gradassay.harness.cell import DTYPES
from gradassay.harness.problems import load_problem
from gradassay.testing.candidates import build
from gradassay.testing.cells import RECORDS
from gradassay.testing.failure import disagreement, no_golden, ran_into
from gradassay.testing.noting import Notes
from gradassay.testing.origin import buildable
from gradassay.testing.parts import Part, error_of
from gradassay.testing.reproduce import RECORD, diff_command, record_command

if TYPE_CHECKING:
    from gradassay.goldens.assay.result import Assay
    from gradassay.harness.cell import Cell
    from gradassay.testing.marker import Plan
    from gradassay.testing.session import Testing


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A record to be judged. golden: the name of its goldens. problem: as it is loaded, "" where that is not known.

    command: what makes the record again, or "".
    """

    path: Path
    golden: str
    problem: str = ""
    cell: str | None = None
    command: str = ""


class Check:
    """What gradassay does for one test. plan: the cell that its marker names, None where it has none."""

    def __init__(self, item: pytest.Item, session: Testing, plan: Plan | None) -> None:
        self._item = item
        self._session = session
        self._plan = plan
        self._notes = Notes(item, session.parts)
        self._prepared = False
        self._missing: NoGolden | None = None
        self.subject: Subject | None = None
        self.assay: Assay | None = None

    def prepare(self) -> None:
        """Looks for the golden of the marker, then runs its cell; what goes wrong here is an error of the test."""
        plan = self._plan
        if plan is None or self._prepared:
            return
        self._prepared = True
        if not self._session.options.update:
            try:
                self._session.goldens.find(_golden_name(plan.cell), plan.golden, plan.folder)
            except NoGolden as error:
                self._missing = error
                if self._session.options.missing == "skip":
                    self._skip(error, str(plan.cell))
                return
            except GradassayError as error:
                self._broken(error, str(plan.cell))
        self.subject = self.run(plan.cell, plan.deadline_s)

    def agree(self) -> None:
        """Fails the test unless the record of its marker's cell agrees with the golden."""
        plan = self._plan
        if plan is None:
            return
        self.prepare()
        if self._missing is not None:
            self._fail(self._missing, str(plan.cell))
        assert self.subject is not None
        self.compare(self.subject, plan.golden, plan.folder)

    def run(self, cell: Cell, deadline_s: float) -> Subject:
        """The record of a cell; the test ends with an error where it failed, with the rank's own traceback."""
        command = record_command(cell, deadline_s=deadline_s)
        try:
            outcome = self._session.cells.run(cell, deadline_s=deadline_s)
        except GradassayError as error:
            self._broken(error, str(cell), command=command)
        try:
            path = outcome.require()
        except CellFailed as error:
            # Without a traceback the log is the error's hint already.
            log = outcome.failure.log if outcome.failure is not None and outcome.failure.traceback else ""
            self._broken(error, str(cell), log=log, command=command)
        except GradassayError as error:
            self._broken(error, str(cell), command=command)
        return Subject(
            path=path,
            problem=cell.problem,
            golden=_golden_name(cell),
            cell=str(cell),
            command=command,
        )

    def compare(self, subject: Subject, golden: str, folder: Path) -> Assay:
        """The assay of the record, where it agrees; else the test fails, and where there is no golden it may skip.

        folder: where a golden is looked for that is a file.
        """
        session = self._session
        if session.options.update:
            self._update(subject)
        try:
            found = session.goldens.find(subject.golden, golden, folder)
            record = Referred(kind="record", ref=subject.cell or str(subject.path), path=subject.path)
            (assay,) = assay_all(found, [record])
        except NoGolden as error:
            if session.options.missing == "skip":
                self._skip(error, subject.cell)
            self._fail(error, subject.cell)
        except GradassayError as error:
            self._broken(error, subject.cell)
        self.assay = assay
        reproduce = self._reproduce(subject, found.ref)
        formulas = dict.fromkeys(finding.law.formula for finding in assay.findings if finding.law.formula)
        self._notes.add(
            Part(
                test=self._item.nodeid,
                verdict=str(assay.verdict),
                exit=int(assay.exit),
                cell=subject.cell,
                assay=to_json(assay),
                record=self._kept(subject.path),
                golden=found.ref,
                reproduce=reproduce,
            ),
            law="; ".join(formulas),
            digest=digest_of_file(subject.path),
        )
        if assay.verdict is not Verdict.AGREE:
            raise pytest.fail.Exception(disagreement(assay, reproduce), pytrace=False)
        return assay

    def _update(self, subject: Subject) -> NoReturn:
        """Builds the golden anew, unless this session has, and fails the test: what was built is nothing to trust yet."""
        try:
            problem, dtype = buildable(read_record(subject.path).header, subject.problem)
            path = build(problem, dtype, self._session.candidates, pool=self._session.cells.pool)
            found = Referred(kind="golden", ref=f"{subject.golden} built anew", path=path)
            record = Referred(kind="record", ref=subject.cell or str(subject.path), path=subject.path)
            (assay,) = assay_all(found, [record])
        except GradassayError as error:
            self._broken(error, subject.cell)
        self.assay = assay
        updated = NoGolden(
            f"{subject.golden} was built anew, and no test passes on a golden that nobody has approved",
            hint=f"against what was built: {assay.sentence}\n"
            "the end of the session says how to approve it; then run without --golden-update",
        )
        self._notes.add(
            Part(
                test=self._item.nodeid,
                verdict=ERROR,
                exit=int(updated.kind.exit),
                cell=subject.cell,
                assay=to_json(assay),
                error=error_of(updated),
                record=self._kept(subject.path),
                golden=found.ref,
                reproduce=subject.command,
            ),
            digest=digest_of_file(subject.path),
        )
        raise pytest.fail.Exception(f"golden updated: {updated}", pytrace=False)

    def _reproduce(self, subject: Subject, golden: str) -> str:
        goldens = self._session.goldens
        service = golden.startswith("golden:") and goldens.is_service
        record = RECORD if subject.command else subject.path
        diff = diff_command(golden, record, store=self._session.options.store, service=service)
        return f"{subject.command} && {diff}" if subject.command else diff

    def _kept(self, path: Path) -> str | None:
        """The record's file name below `records` of the report, None where there is to be no report."""
        records = self._session.folder / RECORDS
        if path.parent == records:
            return path.name
        if self._session.options.report is None:
            return None
        name = f"{digest_of_file(path).removeprefix('sha256:')[:16]}.safetensors"
        records.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, records / name)
        return name

    def _skip(self, error: NoGolden, cell: str | None) -> NoReturn:
        self._note(error, cell, verdict=SKIPPED)
        raise pytest.skip.Exception(f"nothing was compared: {error.message}", _use_item_location=True) from None

    def _fail(self, error: NoGolden, cell: str | None) -> NoReturn:
        self._note(error, cell)
        raise pytest.fail.Exception(no_golden(error), pytrace=False) from None

    def _broken(self, error: GradassayError, cell: str | None, *, log: str = "", command: str = "") -> NoReturn:
        self._note(error, cell, command=command)
        raise pytest.fail.Exception(ran_into(error, log=log, reproduce=command), pytrace=False) from None

    def _note(self, error: GradassayError, cell: str | None, *, verdict: str = "", command: str = "") -> None:
        part = Part(
            test=self._item.nodeid,
            verdict=verdict or error.code,
            exit=int(error.kind.exit),
            cell=cell,
            error=error_of(error),
            reproduce=command,
        )
        self._notes.add(part)


def _golden_name(cell: Cell) -> str:
    return f"{load_problem(cell.problem).name}.{DTYPES[cell.dtype]}"
