"""Finding one entry among those that a store holds, and saying what there is where it is missing."""

from __future__ import annotations

from collections.abc import Sequence

from gradassay.goldens.errors import NoGolden, NotFound, UsageError
from gradassay.goldens.store.approval import version_text
from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord


def pick_golden(
    versions: Sequence[GoldenVersion], name: str, version: int | None, channel: str, *, location: str
) -> GoldenVersion:
    """The version asked for among all versions of `name`, or the one that has `channel`."""
    known = ", ".join(version_text(entry.version) for entry in versions) or "none"
    if version is None:
        for entry in versions:
            if channel in entry.channels:
                return entry
        hint = (
            f"approve one of its versions ({known}): gradassay golden approve {name} VERSION"
            if versions
            else "build it (gradassay golden build), or look at another store (--store, GRADASSAY_STORE)"
        )
        raise NoGolden(f"golden {name}: no version is {channel} in {location}", hint=hint, golden=name, channel=channel)
    for entry in versions:
        if entry.version == version:
            return entry
    raise NotFound(
        f"golden {name}: {location} holds no {version_text(version)}",
        hint=f"its versions: {known}",
        golden=name,
        version=version,
    )


def pick_record(records: Sequence[StoredRecord], reference: str, *, location: str) -> StoredRecord:
    """The one record of this id, digest, or beginning of a digest or id of at least 8 characters."""
    exact = [record for record in records if reference in (record.id, record.digest)]
    if exact:
        return exact[0]
    start = reference.removeprefix("sha256:")
    found = [
        record
        for record in records
        if len(start) >= 8 and (record.id.startswith(start) or record.digest.removeprefix("sha256:").startswith(start))
    ]
    if len(found) > 1:
        raise UsageError(
            f"record {reference}: {len(found)} records of {location} begin like this",
            hint=f"write more of it: {', '.join(record.id for record in found[:5])}",
            reference=reference,
        )
    if not found:
        raise NotFound(
            f"record {reference}: {location} holds no record of this id or digest",
            hint="ids are those that the service answered with, or of MLflow runs; --store chooses the store",
            reference=reference,
        )
    return found[0]
