"""From the stored files that a question is about to the one Assay object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gradassay.api.judging.judged import Question
from gradassay.api.runs.run import Run
from gradassay.api.runs.runs import Runs
from gradassay.goldens.assay.result import Assay
from gradassay.goldens.errors import InvalidFile, NotFound, StoreError, UnknownFormat
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record
from gradassay.goldens.store.protocol import GoldenStore

Content = TypeVar("Content")


def compute(question: Question, store: GoldenStore, runs: Runs) -> Assay:
    """The assay that answers the question; raises StoreError where a stored file is gone or damaged."""
    from gradassay.goldens.assay.compare import assay_record
    from gradassay.goldens.assay.records import assay_records
    from gradassay.goldens.assay.result import Side

    record = _record(question.run, runs)
    b = Side(kind="record", ref=f"run:{question.run.id}", environment=record.header.environment)
    if question.other is not None:
        other = _record(question.other, runs)
        a = Side(kind="record", ref=f"run:{question.other.id}", environment=other.header.environment)
        return assay_records(other, record, side_a=a, side_b=b)
    assert question.golden is not None
    assert question.version is not None
    golden = stored_golden(store, question.golden, question.version)
    ref = f"golden:{question.golden}@v{question.version}"
    return assay_record(record, golden, a=Side(kind="golden", ref=ref, environment=golden.header.environment), b=b)


def stored_golden(store: GoldenStore, name: str, version: int) -> Golden:
    """The golden of the store; raises StoreError where its file is gone or damaged."""
    from gradassay.goldens.golden import read_golden

    return _read(read_golden, lambda: store.golden_path(name, version), f"golden {name} v{version}")


def _record(run: Run, runs: Runs) -> Record:
    from gradassay.goldens.record import read_record

    return _read(read_record, lambda: runs.path(run), f"run {run.id}")


def _read(read: Callable[[Path], Content], path: Callable[[], Path], title: str) -> Content:
    try:
        return read(path())
    except (InvalidFile, UnknownFormat, NotFound) as error:
        raise StoreError(f"{title}: its stored file is gone or damaged ({error.message})", hint=error.hint) from error
