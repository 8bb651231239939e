"""One entry of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gradassay.api.database.tables import EntryRow


class Action(StrEnum):
    """What an entry says was done.

    endorsed: approved by the first of two reviewers. superseded: another version took its place in the channel.
    undone: what the entry `undoes` did was taken back. accepted, rejected-run: a divergence of a run, not a version;
    withdrawn: such a decision. adopted: found in the store, a version where there is no channel, else an approval.
    deleted: by `gradassay gc`.
    """

    PROPOSED = "proposed"
    ENDORSED = "endorsed"
    APPROVED = "approved"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    UNDONE = "undone"
    ACCEPTED = "accepted"
    REJECTED_RUN = "rejected-run"
    WITHDRAWN = "withdrawn"
    ADOPTED = "adopted"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Who did what, when and why. number orders entries.

    version: of the golden; where a channel moved, what it points to since (0: nowhere), and previous what it pointed to
    before. undoes: the number of the entry that was taken back. cause: shared by decisions that were made together.
    """

    number: int
    at: datetime
    who: str
    project: str
    action: Action
    golden: str | None = None
    version: int | None = None
    channel: str | None = None
    previous: int | None = None
    undoes: int | None = None
    run: str | None = None
    why: str = ""
    cause: str = ""

    @classmethod
    def from_row(cls, row: EntryRow) -> Entry:
        """The entry of a row of the database."""
        values = {name: getattr(row, name) for name in cls.__slots__}
        return cls(**{**values, "action": Action(row.action)})

    @property
    def moves(self) -> bool:
        """Whether it points a channel at a version: an approval, also one that was found in the store."""
        return self.action is Action.APPROVED or (self.action is Action.ADOPTED and self.channel is not None)

    def __str__(self) -> str:
        what = f"{self.action} by {self.who} on {self.at:%Y-%m-%d at %H:%M:%S} UTC"
        return f"{what}: {self.why}" if self.why else what
