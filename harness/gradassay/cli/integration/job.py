"""One job: its cells are recorded and judged, and every cell gets a line of the result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.cli.integration.lines import failed_job, result_of
from gradassay.cli.integration.recorded import Recorded
from gradassay.cli.integration.relevance import relevance
from gradassay.cli.running import run_all
from gradassay.cli.session import Session
from gradassay.goldens.errors import Exit, GradassayError
from gradassay.goldens.extras import missing_extra

if TYPE_CHECKING:
    from gradassay.forges.outcome import CellLine, CiResult
    from gradassay.harness.matrix import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was asked for. out: where records go. golden_store: instead of the session's. paths, base: only changes of
    these files since then are a reason to run.
    """

    matrix: Path
    out: Path
    golden_store: str
    against: str
    timeout_s: float
    deadline_s: float
    pass_if_approved: bool
    paths: Sequence[str] = ()
    base: str = ""


def run_job(session: Session, job: Job) -> CiResult:
    """What came of the job; an error that ends it before its cells do is part of the result, not raised."""
    shown = shown_path(job.matrix)
    try:
        return _run(session, job, shown)
    except GradassayError as error:
        return failed_job(shown, error)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        return failed_job(shown, missing)


def shown_path(matrix: Path) -> str:
    """The file's path in its repository, as annotations and reports name it; as it was given outside of one."""
    absolute = matrix.absolute()
    root = next((parent for parent in absolute.parents if (parent / ".git").exists()), None)
    return absolute.relative_to(root).as_posix() if root else matrix.as_posix()


def _run(session: Session, job: Job, shown: str) -> CiResult:
    from gradassay.forges.outcome import CiResult
    from gradassay.harness.matrix import read_matrix

    matrix = read_matrix(job.matrix)
    notes = [f"left out, {count} times: {reason}" for reason, count in matrix.skipped.items()]
    if job.paths:
        relevant = relevance(job.paths, job.base, job.matrix)
        if relevant.skip:
            return CiResult(exit=int(Exit.AGREE), verdict="skipped", matrix=shown, skipped=relevant.reason)
        notes.append(relevant.reason)
    lines, more = _judged(_judging(session, job.golden_store), job, matrix)
    return result_of(shown, lines, notes=(*notes, *more))


def _judging(session: Session, golden_store: str) -> Session:
    """The session with this store or service in place of its own, where one is named."""
    if not golden_store:
        return session
    if golden_store.startswith(("http://", "https://")):
        from gradassay.client.probe import is_service
        from gradassay.client.settings import ClientSettings

        if is_service(golden_store, retry_s=ClientSettings.load().retry_s):
            return replace(session, url=golden_store, local=False)
    os.environ["GRADASSAY_STORE"] = golden_store
    return replace(session, local=True)


def _judged(session: Session, job: Job, matrix: Matrix) -> tuple[Sequence[CellLine], Sequence[str]]:
    if not session.remote:
        from gradassay.cli.integration.local import judge_locally
        from gradassay.cli.stores import configured_store

        store = configured_store(session)
        return judge_locally(store, _recorded(session, job, matrix), against=job.against)
    from gradassay.cli.integration.remote import judge_online
    from gradassay.cli.stores import configured_service, configured_spool

    with configured_service(session) as client:
        spool = configured_spool(client)
        return judge_online(client, spool, _recorded(session, job, matrix), job, say=session.say)


def _recorded(session: Session, job: Job, matrix: Matrix) -> Sequence[Recorded]:
    """Every cell, recorded or failed. Records that an earlier job left at the same place are removed first."""
    from gradassay.harness.launch import record_name

    for cell in matrix.cells:
        (job.out / record_name(cell)).unlink(missing_ok=True)
    outcomes = run_all(
        matrix.cells, job.out, session.progress(lines=True), deadline_s=job.deadline_s, title="recording"
    )
    return [Recorded.of(outcome, matrix.lines.get(str(outcome.cell))) for outcome in outcomes]
