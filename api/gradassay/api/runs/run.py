"""A run as the service knows it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gradassay.api.database.tables import RunRow

DEFAULT_PROJECT = "default"
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A record that was posted into a project. number: its place in the order of posting. stored: its id in the store.
    dtype_profile: parameter, gradient and reduce dtype, as in `bfloat16/bfloat16/float32`. header: the record's header
    without its parameters, of which `parameter_count` says how many there are.
    """

    number: int
    id: str
    project: str
    digest: str
    stored: str
    problem: str
    problem_digest: str
    framework: str
    framework_version: str
    strategy: str
    layout: str
    dtype: str
    dtype_profile: str
    commit: str
    header: dict[str, Any]
    posted_by: str
    posted_at: datetime

    @property
    def golden(self) -> str:
        """The name of the goldens that it is compared with."""
        return f"{self.problem}.{self.dtype}"

    @classmethod
    def from_row(cls, row: RunRow) -> Run:
        """The run of a row of the database."""
        return cls(**{name: getattr(row, name) for name in cls.__slots__})


def run_id(project: str, digest: str) -> str:
    """The id of a record in a project: in the default one the beginning of its digest, so that stores know it too."""
    if project == DEFAULT_PROJECT:
        return digest.removeprefix("sha256:")[:_ID_DIGITS]
    return hashlib.sha256(f"{project}|{digest}".encode()).hexdigest()[:_ID_DIGITS]
