"""`gradassay ci`: a matrix recorded, judged and reported, in one command of a CI job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.cells import Deadline
from gradassay.cli.failure import report_error
from gradassay.cli.session import Session, leave, session_of
from gradassay.cli.wait import TIMEOUT_S, Against, PassIfApproved, Timeout
from gradassay.goldens.errors import Exit

if TYPE_CHECKING:
    from gradassay.cli.integration.telling import Places
    from gradassay.forges.outcome import CiResult

OUT = Path("gradassay-ci")


def ci(
    context: typer.Context,
    matrix: Annotated[Path, typer.Option("--matrix", help="TOML file of the cells to run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the records and reports.")] = OUT,
    golden_store: Annotated[
        str, typer.Option("--golden-store", metavar="STORE", help="Judge by this store or service, as in pytest.")
    ] = "",
    against: Against = "approved",
    timeout: Timeout = TIMEOUT_S,
    deadline: Deadline = 600.0,
    paths: Annotated[
        list[str] | None,
        typer.Option("--paths", metavar="GLOB", help="Run only if such a file changed since --base; repeatable."),
    ] = None,
    base: Annotated[str, typer.Option("--base", metavar="REF", help="Branch or commit that --paths counts from.")] = "",
    pass_if_approved: PassIfApproved = False,
    comment: Annotated[
        bool, typer.Option("--comment", help="Keep one comment on the pull or merge request up to date.")
    ] = False,
    comment_key: Annotated[
        str, typer.Option("--comment-key", help="Tells comments of several jobs apart; default: job and matrix.")
    ] = "",
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write the JUnit report to this file.")] = None,
    summary: Annotated[Path | None, typer.Option("--summary", help="Also write the summary to this file.")] = None,
) -> None:
    """Record a matrix, have it judged by the service or by a store of goldens, report it, and exit with the gravest.

    Reports are written whatever happens: what failed, and why, stands in them too.
    """
    from gradassay.cli.integration.job import Job, run_job
    from gradassay.cli.integration.lines import bug_of_job
    from gradassay.cli.integration.telling import Places

    session = session_of(context)
    job = Job(
        matrix=matrix,
        out=out,
        golden_store=golden_store,
        against=against,
        timeout_s=timeout,
        deadline_s=deadline,
        pass_if_approved=pass_if_approved,
        paths=paths or (),
        base=base,
    )
    places = Places(folder=out, comment=comment, key=comment_key, junit=junit, summary=summary)
    try:
        result = run_job(session, job)
    except Exception as error:
        _tell(session, bug_of_job(matrix.as_posix(), error), places)
        raise
    leave(_tell(session, result, places))


def _tell(session: Session, result: CiResult, places: Places) -> Exit:
    """Tells people, then prints the result; where it agrees and no report could be written, that is the exit code."""
    from gradassay.cli.integration.showing import result_json, show_result
    from gradassay.cli.integration.telling import tell_people

    result, error = tell_people(session, result, places)
    if session.json:
        session.emit_json(result_json(result))
    show_result(session, result)
    if error is not None:
        report_error(error)
    return Exit(result.exit) or (Exit.AGREE if error is None else error.kind.exit)
