"""Files on their way to the service: what waited in the spool first, then one's own; what does not arrive waits there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.cli.posting import Sendable, Sent, send_all
from gradassay.client.identity import authorise
from gradassay.goldens.errors import GradassayError, InvalidFile, ServiceError, StoreError, Unauthorised, Unreachable

if TYPE_CHECKING:
    from gradassay.client.client import ServiceClient
    from gradassay.client.spool import Spool, Spooled

BLOCKING = (Unauthorised, Unreachable)
"""Failures of what had waited that one's own files would meet as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of all of it. waited: what was in the spool. sent: one's own files, in their order.

    kept: own files that are in the spool now. folder: the spool. unkept: why a file that should be there is not.
    """

    waited: tuple[Sent, ...] = ()
    sent: tuple[Sent, ...] = ()
    kept: tuple[Sendable, ...] = ()
    folder: Path
    unkept: GradassayError | None = None

    @property
    def error(self) -> GradassayError | None:
        """Why not all of one's own files arrived: the first failure; None where they did."""
        if all(one.ref for one in self.sent):
            return None
        failures = [one.error for one in self.sent if one.error is not None]
        return next(iter(failures), None) or blocked(self.waited)


def blocked(waited: Sequence[Sent]) -> GradassayError | None:
    """The failure of what had waited because of which nothing else was tried."""
    return next((one.error for one in waited if isinstance(one.error, BLOCKING)), None)


def deliver(
    client: ServiceClient,
    spool: Spool,
    files: Sequence[Sendable],
    *,
    jobs: int,
    done: Callable[[Sent], None],
    say: Callable[[str], None],
    wait: bool = False,
) -> Delivered:
    """What became of what had waited and of the files; those that the service did not answer about are spooled.

    jobs: how many are on their way at once. done: told of each own file as it ends. say: told about the spool. wait:
    whether to wait for another process that is sending what had waited.
    """
    waited: tuple[Sent, ...] = ()
    try:
        authorise(client, os.environ)
    except GradassayError as error:
        sent = tuple(Sent(file=file, error=error) for file in files)
        if not files:
            raise
    else:
        waited = send_waiting(client, spool, jobs=jobs, say=say, wait=wait)
        sent = _sent(client, files, waited, jobs=jobs, done=done)
    result = Delivered(waited=waited, sent=sent, folder=spool.folder)
    if not isinstance(result.error, Unreachable):
        return result
    lost = [one.file for one in sent if not one.ref and (one.error is None or isinstance(one.error, Unreachable))]
    kept: list[Sendable] = []
    try:
        for file in lost:
            spool.add(file.path, kind=file.kind, name=file.name, why=file.why)
            kept.append(file)
    except (StoreError, InvalidFile) as error:
        say(f"not spooled: {error.message}")
        return Delivered(waited=waited, sent=sent, kept=tuple(kept), folder=spool.folder, unkept=error)
    return Delivered(waited=waited, sent=sent, kept=tuple(kept), folder=spool.folder)


def _sent(
    client: ServiceClient,
    files: Sequence[Sendable],
    waited: Sequence[Sent],
    *,
    jobs: int,
    done: Callable[[Sent], None],
) -> tuple[Sent, ...]:
    if blocked(waited) is not None:
        return tuple(Sent(file=file) for file in files)
    return send_all(client, files, jobs=jobs, done=done)


def send_waiting(
    client: ServiceClient, spool: Spool, *, jobs: int, say: Callable[[str], None], wait: bool
) -> tuple[Sent, ...]:
    """What became of everything in the spool of this service, oldest first; what arrived is there no longer.

    What the service refuses for good is put aside and said, so that it stands in nobody's way.
    """
    with spool.turn(wait=wait) as ours:
        if not ours:
            say(f"another process is sending the {spool.count()} files that wait in {spool.folder}")
            return ()
        entries = {entry.digest: entry for entry in spool.entries(lambda error: say(f"spool: {error}"))}
        intact: list[Sendable] = []
        damaged: list[Sent] = []
        for entry in entries.values():
            file = Sendable(
                path=spool.content_path(entry), kind=entry.kind, digest=entry.digest, name=entry.name, why=entry.why
            )
            try:
                spool.check(entry)
                intact.append(file)
            except InvalidFile as error:
                damaged.append(Sent(file=file, error=error))
                _settle(spool, entry, damaged[-1], say)
        sent = send_all(client, intact, jobs=jobs, done=lambda one: _settle(spool, entries[one.file.digest], one, say))
        return (*damaged, *sent)


def _settle(spool: Spool, entry: Spooled, one: Sent, say: Callable[[str], None]) -> None:
    if one.ref:
        spool.remove(entry)
        say(f"from the spool: {entry.source}: {one.ref}  {one.link}")
    elif one.error is None or isinstance(one.error, (ServiceError, *BLOCKING)) or one.error.code == "forbidden":
        say(f"still in the spool: {entry.source}" + (f": {one.error.message}" if one.error else ""))
    else:
        say(
            f"from the spool: {entry.source}: {one.error.message}; it is kept in {spool.put_aside(entry)} and not retried"
        )
