"""Goldens, versions and entries as HTTP shows them; times in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.standing import Status
from gradassay.api.ledger.version import Golden, Version


class KnownEntry(BaseModel):
    """One entry of the ledger, which is never changed."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    at: datetime
    who: str
    project: str
    action: Action
    golden: str | None
    version: int | None = Field(description="where a channel moved, what it points to since; 0: no version")
    channel: str | None
    previous: int | None = Field(description="what the channel pointed to before; 0: no version")
    undoes: int | None = Field(description="the entry that was taken back")
    run: str | None
    why: str
    cause: str = Field(description="shared by decisions that were made together")

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The JSON form of an entry."""
        return cls.model_validate(entry)


class EntryPage(BaseModel):
    """Entries, newest first. next: the cursor of the page after this one, null at the end."""

    items: list[KnownEntry]
    next: str | None


class KnownVersion(BaseModel):
    """An immutable version of a golden, and what became of it."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    project: str
    version: int
    digest: str
    status: Status
    channels: list[str] = Field(description="the channels that point to it")
    proposed_at: datetime
    proposed_by: str
    why: str = Field(description="why it was proposed")
    endorsed: list[KnownEntry] = Field(description="approvals that wait for a second reviewer's")
    rejected: KnownEntry | None

    @classmethod
    def of(cls, version: Version) -> Self:
        """The JSON form of a version."""
        return cls.model_validate(version)


class VersionDetails(KnownVersion):
    """A version with what its file says and how it differs from what was approved when it was proposed."""

    facts: dict[str, Any] = Field(description="units, noise floor, power, references, environment")
    drift: dict[str, Any] | None = Field(description="null where there was nothing to compare with, or not yet")


class KnownGolden(BaseModel):
    """A golden: where its channels point, and its newest version."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    project: str
    channels: dict[str, int] = Field(description="the version that each channel points to")
    versions: int
    waiting: int = Field(description="versions that nobody has approved or rejected")
    latest: KnownVersion

    @classmethod
    def of(cls, golden: Golden) -> Self:
        """The JSON form of a golden."""
        return cls.model_validate(golden)


class Refusal(BaseModel):
    """Why one of several decisions was not made: the code, as of problem documents, what happened and what to do next."""

    code: str
    detail: str
    hint: str


class Outcome(BaseModel):
    """What became of one of several approvals; exactly one of entry and refused is there."""

    name: str
    version: int
    entry: KnownEntry | None = None
    refused: Refusal | None = None


class Outcomes(BaseModel):
    """What became of several approvals, in the order in which they were asked for."""

    items: list[Outcome]
