"""What the entries of one golden come to: where its channels point, and what became of its versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gradassay.api.ledger.entry import Action, Entry


class Status(StrEnum):
    """What became of a version. superseded: a channel pointed to it once, and none does now."""

    PROPOSED = "proposed"
    ENDORSED = "endorsed"
    APPROVED = "approved"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state that entries, oldest first, lead to.

    moves: by channel, the approvals that nobody undid, the one in effect last. endorsed: by channel and version, first
    approvals that still count: made since the channel last moved. rejected: by version, the rejection. latest: by
    channel, the entry that last moved it, an undo included.
    """

    moves: Mapping[str, tuple[Entry, ...]]
    endorsed: Mapping[tuple[str, int], tuple[Entry, ...]]
    rejected: Mapping[int, Entry]
    latest: Mapping[str, Entry]

    @property
    def channels(self) -> dict[str, int]:
        """The version that each channel points to; channels that point nowhere are left out."""
        pointing = {channel: self.points(channel) for channel in self.moves}
        return {channel: version for channel, version in pointing.items() if version}

    def points(self, channel: str) -> int:
        """The version that the channel points to, 0 for none."""
        entry = self.in_effect(channel)
        return (entry.version or 0) if entry else 0

    def in_effect(self, channel: str) -> Entry | None:
        """The approval by which the channel points where it does."""
        moves = self.moves.get(channel, ())
        return moves[-1] if moves else None

    def channels_of(self, version: int) -> tuple[str, ...]:
        """The channels that point to the version."""
        return tuple(sorted(channel for channel, to in self.channels.items() if to == version))

    def approved_in(self, version: int) -> dict[str, int]:
        """By channel, the number of the last approval of the version that nobody undid."""
        return {
            channel: entry.number
            for channel, moves in self.moves.items()
            for entry in moves
            if entry.version == version
        }

    def endorsements(self, version: int) -> tuple[Entry, ...]:
        """First approvals of the version that still count."""
        return tuple(entry for (_, to), entries in self.endorsed.items() if to == version for entry in entries)

    def status(self, version: int) -> Status:
        """What became of the version."""
        if self.channels_of(version):
            return Status.APPROVED
        if version in self.rejected:
            return Status.REJECTED
        if self.endorsements(version):
            return Status.ENDORSED
        return Status.SUPERSEDED if self.approved_in(version) else Status.PROPOSED

    def reachable(self) -> frozenset[int]:
        """Versions that a channel points to, or would again if approvals were undone one after the other."""
        return frozenset(entry.version for moves in self.moves.values() for entry in moves if entry.version)


def replay(entries: Iterable[Entry]) -> Standing:
    """The state of one golden after its entries, oldest first."""
    known: dict[int, Entry] = {}
    moves: dict[str, list[Entry]] = {}
    endorsed: dict[tuple[str, int], list[Entry]] = {}
    rejected: dict[int, Entry] = {}
    latest: dict[str, Entry] = {}

    def moved(channel: str, entry: Entry) -> None:
        latest[channel] = entry
        for key in [key for key in endorsed if key[0] == channel]:
            del endorsed[key]

    for entry in entries:
        known[entry.number] = entry
        channel, version = entry.channel or "", entry.version or 0
        if entry.moves:
            moves.setdefault(channel, []).append(entry)
            rejected.pop(version, None)
            moved(channel, entry)
        elif entry.action is Action.ENDORSED:
            endorsed.setdefault((channel, version), []).append(entry)
        elif entry.action is Action.REJECTED:
            rejected[version] = entry
        elif entry.action is Action.UNDONE:
            undone = known[entry.undoes or 0]
            if undone.moves:
                moves[channel].remove(undone)
                moved(channel, entry)
            elif undone.action is Action.REJECTED:
                del rejected[version]
            else:
                endorsed[channel, version].remove(undone)
    return Standing(
        moves={channel: tuple(entries) for channel, entries in moves.items()},
        endorsed={key: tuple(entries) for key, entries in endorsed.items() if entries},
        rejected=rejected,
        latest=latest,
    )
