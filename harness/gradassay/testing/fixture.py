"""The fixture `gradassay`: what a test's marker ran, and comparisons of the test's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gradassay.goldens.errors import GradassayError
from gradassay.goldens.record import Record, read_record
from gradassay.harness.launch.outcome import DEADLINE_S
from gradassay.testing.check import Check, Subject
from gradassay.testing.marker import GOLDEN, one_cell

if TYPE_CHECKING:
    from gradassay.goldens.assay.result import Assay
    from gradassay.harness.cell import Cell


class Gradassay:
    """What a test asks gradassay for. folder: of the test's file. make_folder: a new folder that outlives the test."""

    def __init__(self, check: Check, folder: Path, make_folder: Callable[[], Path]) -> None:
        self._check = check
        self._folder = folder
        self._make_folder = make_folder
        self._ran: list[tuple[Record, Subject]] = []

    @property
    def record(self) -> Record:
        """The record of the marker's cell."""
        __tracebackhide__ = True
        self._check.prepare()
        if self._check.subject is None:
            pytest.fail("this test has no record: give it a marker, or call gradassay.run", pytrace=False)
        return read_record(self._check.subject.path)

    @property
    def assay(self) -> Assay:
        """The assay of the marker's cell, or that of the last assert_agrees."""
        __tracebackhide__ = True
        if self._check.assay is None:
            pytest.fail("this test has no assay yet: give it a marker, or call gradassay.assert_agrees", pytrace=False)
        return self._check.assay

    def run(self, cell: Cell | None = None, *, deadline_s: float = DEADLINE_S, **keywords: Any) -> Record:
        """The record of a cell, or of the one that keywords as of the marker mean.

        A cell that the session has run before is not run again. The test fails where the cell does, with the traceback of
        the rank that failed.
        """
        __tracebackhide__ = True
        if cell is None:
            caller = sys._getframe(1)
            try:
                cell = one_cell(keywords, Path(caller.f_code.co_filename), caller.f_lineno)
            except GradassayError as error:
                pytest.fail(str(error), pytrace=False)
        subject = self._check.run(cell, deadline_s)
        record = read_record(subject.path)
        self._ran.append((record, subject))
        return record

    def assert_agrees(self, record: Record | Path | str, golden: str | Path = GOLDEN, *, problem: str = "") -> Assay:
        """The assay of the record, where it agrees with the golden; else the test fails and says under which law.

        record: a record or its file. golden: a channel, "vN", "NAME@vN", or a file, beside the test's file where its path
        is relative. problem: module:function of the record's problem, for --golden-update. Without a golden the test fails,
        or is skipped under --golden-missing skip.
        """
        __tracebackhide__ = True
        folder = self._folder
        wanted = str(folder / golden) if isinstance(golden, Path) else golden
        return self._check.compare(self._subject(record, problem), wanted, folder)

    def _subject(self, record: Record | Path | str, problem: str) -> Subject:
        __tracebackhide__ = True
        if isinstance(record, Record):
            for known, subject in self._ran:
                if known is record:
                    return subject
            path = self._make_folder() / "record.safetensors"
            wide = record.header.dtype.parameter == "float64"
            record.write(path, sketch_dtype=np.float64 if wide else np.float32)
        else:
            path = Path(record).absolute()
        try:
            header = read_record(path).header
        except GradassayError as error:
            pytest.fail(str(error), pytrace=False)
        return Subject(path=path, golden=f"{header.problem.name}.{header.dtype}", problem=problem)
