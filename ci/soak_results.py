"""What runs came to, as lines of a file that outlives a soak that was ended."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar


class Kept(Protocol):
    """What a file of results holds: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> str:
        """What tells it from all others."""

    @property
    def golden(self) -> str:
        """Digest of the golden's file by which it was judged."""

    @property
    def verdict(self) -> str:
        """The assay's, or "" where there is none."""


One = TypeVar("One", bound=Kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run. verdict: "" where it failed. reason: of every verdict but agree. golden: digest of its file.

    ratios: residual / tolerance of its parameters, by family. gradient: short digest of what was measured. unsaid: what its
    record does not say of the run's setting.
    """

    key: str
    problem: str
    dtype: str
    strategy: str
    layout: str
    setting: str
    golden: str
    fault: str = ""
    seconds: float = 0.0
    verdict: str = ""
    reason: str = ""
    ratios: dict[str, list[float]] = field(default_factory=dict)
    gradient: str = ""
    unsaid: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> bool:
        """Whether an honest run does not agree, a fault does not diverge, or the record hides a difference."""
        return self.verdict != ("diverge" if self.fault else "agree") or bool(self.unsaid)

    @property
    def complaint(self) -> str:
        """Why it is wrong, or what the assay of a fault says."""
        missed = "the fault was not seen" if self.fault and self.verdict == "agree" else ""
        return "; ".join(filter(None, (self.verdict, missed, self.reason, *self.unsaid)))

    @property
    def line(self) -> str:
        """The run for a log."""
        return f"{self.key}: {self.complaint}" if self.wrong else self.key


@dataclass(frozen=True, slots=True)
class Results(Generic[One]):
    """A file of results of one kind, one JSON object a line."""

    path: Path
    kind: type[One]

    def read(self, goldens: Collection[str]) -> dict[str, One]:
        """Results by key of runs that were judged by these goldens and did not fail; a line cut short is no result."""
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            try:
                result = self.kind(**json.loads(line))
            except ValueError:
                continue
            if result.golden in goldens and result.verdict:
                found[result.key] = result
        return found

    def add(self, result: One) -> None:
        """Appends the result; it is on the disk when this returns."""
        with self.path.open("a+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(asdict(result)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        """Removes all of them."""
        self.path.unlink(missing_ok=True)
