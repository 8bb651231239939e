"""Runs as HTTP shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class KnownRun(BaseModel):
    """A record that was posted."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    project: str
    digest: str
    problem: str
    problem_digest: str
    framework: str
    framework_version: str
    strategy: str
    layout: str
    dtype: str
    dtype_profile: str = Field(description="parameter/gradient/reduce")
    commit: str
    posted_by: str
    posted_at: datetime


class RunAssay(BaseModel):
    """One assay of a run that has been computed, without its document."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    golden: str | None
    version: int | None
    other_run: str | None
    verdict: str
    sentence: str
    computed_at: datetime


class RunDetails(KnownRun):
    """A run with what its record's header says, its parameters left out, and its assays, newest first."""

    header: dict[str, Any]
    assays: list[RunAssay]


class RunPage(BaseModel):
    """Some runs, newest first."""

    items: list[KnownRun]
    next: str | None = Field(description="cursor of the next page, null at the end")
