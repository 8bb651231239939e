"""Assays of stored records against stored goldens, remembered by what they are a function of."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from gradassay.goldens.errors import InvalidFile, StoreError, UnknownFormat
from gradassay.goldens.store.protocol import GoldenStore, GoldenVersion, StoredRecord

REMEMBERED = 256
Content = TypeVar("Content")
_VERSION = re.compile(r"v(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which record is compared with which golden."""

    record: StoredRecord
    golden: GoldenVersion

    @property
    def etag(self) -> str:
        """Names the answer: contents, names and release decide it, nothing else does."""
        parts = (self.record.id, self.record.digest, self.golden.name, str(self.golden.version), self.golden.digest)
        return f'"{hashlib.sha256("|".join((*parts, version("gradassay"))).encode()).hexdigest()[:32]}"'


class Assays:
    """Computes assays over one store, one at a time, and remembers the last 256."""

    def __init__(self, store: GoldenStore) -> None:
        self._store = store
        self._one_at_a_time = threading.Lock()
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._compute)

    def question(self, run: str, against: str) -> Question:
        """What is asked: the record `run`, and version `vN` or channel `against` of its problem's and dtype's golden.

        Raises NotFound without the record or version, NoGolden where the channel points nowhere.
        """
        record = self._store.find_record(run)
        name = f"{record.problem}.{record.dtype}"
        number = _VERSION.fullmatch(against)
        if number:
            return Question(record=record, golden=self._store.find_golden(name, int(number[1])))
        return Question(record=record, golden=self._store.find_golden(name, channel=against))

    def answer(self, question: Question) -> str:
        """The assay as JSON text; raises StoreError where a stored file is damaged."""
        with self._one_at_a_time:
            return self._remembered(question)

    def _compute(self, question: Question) -> str:
        from gradassay.goldens.assay.compare import assay_record
        from gradassay.goldens.assay.result import Side
        from gradassay.goldens.golden import read_golden
        from gradassay.goldens.record import read_record
        from gradassay.goldens.report.json import dumps, to_json

        stored, kept = question.record, question.golden
        record = _read(read_record, lambda: self._store.record_path(stored.id), f"run {stored.id}")
        golden = _read(
            read_golden, lambda: self._store.golden_path(kept.name, kept.version), f"golden {kept.name} v{kept.version}"
        )
        a = Side(kind="golden", ref=f"golden:{kept.name}@v{kept.version}", environment=golden.header.environment)
        b = Side(kind="record", ref=f"run:{stored.id}", environment=record.header.environment)
        return dumps(to_json(assay_record(record, golden, a=a, b=b)))


def _read(read: Callable[[Path], Content], path: Callable[[], Path], title: str) -> Content:
    try:
        return read(path())
    except (InvalidFile, UnknownFormat) as error:
        raise StoreError(f"{title}: its stored file is damaged ({error.message})", hint=error.hint) from error
