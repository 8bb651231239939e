"""Cells judged by the service: their records are posted, and what the service says of them is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gradassay.cli.delivering import Delivered, deliver
from gradassay.cli.integration.lines import line_of_assay, line_of_error, no_golden
from gradassay.cli.integration.recorded import Recorded
from gradassay.cli.posting import Sent, sendable
from gradassay.cli.waiting import Waited, wait_for_all
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import GradassayError, NoGolden, ServiceError, Unreachable
from gradassay.goldens.record import read_record

if TYPE_CHECKING:
    from gradassay.cli.integration.job import Job
    from gradassay.client.client import ServiceClient
    from gradassay.client.spool import Spool
    from gradassay.forges.outcome import CellLine

JOBS = 4
"""Records that are on their way at once."""


def judge_online(
    client: ServiceClient, spool: Spool, cells: Sequence[Recorded], job: Job, *, say: Callable[[str], None]
) -> tuple[Sequence[CellLine], Sequence[str]]:
    """The lines of the cells, and notes about what waited or waits in the spool."""
    files = sendable([str(recorded.path) for recorded in cells if recorded.path])
    delivered = deliver(client, spool, files, jobs=JOBS, done=lambda one: _say(one, say), say=say)
    runs = [one.id for one in delivered.sent if one.ref]
    waited = wait_for_all(client, runs, against=job.against, timeout_s=job.timeout_s)
    by_digest = {one.file.digest: one for one in delivered.sent}
    by_run = {one.run: one for one in waited}
    lines, notes = [], list(_notes(delivered, job))
    for recorded in cells:
        if recorded.path is None:
            assert recorded.error is not None
            lines.append(line_of_error(recorded, recorded.error))
            continue
        sent = by_digest[digest_of_file(recorded.path)]
        if not sent.ref:
            lines.append(line_of_error(recorded, _unsent(sent, delivered, job)))
            continue
        one = by_run[sent.id]
        if one.accepted and not job.pass_if_approved:
            notes.append(f"{recorded.cell}: every divergence is accepted; --pass-if-approved lets it pass")
        lines.append(_judged(client, recorded, one, passes=job.pass_if_approved and one.accepted))
    return lines, notes


def _say(one: Sent, say: Callable[[str], None]) -> None:
    if one.ref:
        say(f"{'posted' if one.created else 'was there already'}: {one.file.path}  {one.link}")


def _judged(client: ServiceClient, recorded: Recorded, one: Waited, *, passes: bool) -> CellLine:
    if one.assay is not None:
        return line_of_assay(recorded, one.assay, link=one.link, accepted=passes)
    assert one.error is not None
    error = one.error
    if isinstance(error, NoGolden) and recorded.path is not None:
        header = read_record(recorded.path).header
        error = no_golden(error, recorded, f"{header.problem.name}.{header.dtype}", f"--url {client.url}")
    return line_of_error(recorded, error, link=one.link)


def _unsent(sent: Sent, delivered: Delivered, job: Job) -> GradassayError:
    """Why the record did not arrive, and what is to be done."""
    error = sent.error or delivered.error or ServiceError("the record was not sent")
    if not isinstance(error, Unreachable):
        todo = f"the records are kept: gradassay post {job.out} sends them later"
        return type(error)(error.message, hint=f"{error.hint}\n{todo}".strip(), **error.facts)
    kept = sent.file.digest in {file.digest for file in delivered.kept}
    later = "gradassay post --spooled" if kept else f"gradassay post {job.out}"
    return Unreachable(
        f"the service does not answer: {error.message}",
        hint=f"this passes: repeat the job. The records are kept in {job.out}; {later} sends them later",
    )


def _notes(delivered: Delivered, job: Job) -> Sequence[str]:
    arrived = sum(bool(one.ref) for one in delivered.waited)
    notes = [f"{arrived} records of earlier jobs waited in the spool and were posted"] if arrived else []
    if delivered.kept:
        notes.append(f"{len(delivered.kept)} records wait in the spool and are posted by the next job on this machine")
    if delivered.unkept is not None:
        notes.append(f"not all records could be spooled ({delivered.unkept.message}); they are kept in {job.out}")
    return notes
