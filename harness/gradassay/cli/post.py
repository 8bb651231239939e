"""`gradassay post`: records and goldens to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.failure import report_error
from gradassay.cli.session import Session, leave, session_of
from gradassay.cli.stores import configured_service, configured_spool
from gradassay.cli.wait import TIMEOUT_S, Against, PassIfApproved, Timeout
from gradassay.goldens.errors import Exit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.cli.delivering import Delivered
    from gradassay.cli.posting import Sent


def post(
    context: typer.Context,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE_OR_FOLDER...]", help="Records to post, goldens to propose.")
    ] = None,
    spooled: Annotated[
        bool, typer.Option("--spooled", help="Send what waits in the spool; alone, where no file is given.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why goldens are proposed; reviewers read it.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=32, help="Files that are sent at once.")] = 4,
    wait: Annotated[bool, typer.Option("--wait", help="Then wait for the verdicts, as gradassay wait does.")] = False,
    against: Against = "approved",
    timeout: Timeout = TIMEOUT_S,
    pass_if_approved: PassIfApproved = False,
) -> None:
    """Send records and goldens to the service; the same content again is the same run or version.

    Nothing is sent unless all files are valid. What an earlier post could not send goes first, and what the service does
    not answer about is kept for the next. Prints what each has become there, written as diff and wait take it.
    """
    from gradassay.cli.delivering import deliver
    from gradassay.cli.posting import sendable
    from gradassay.cli.waiting import report, verdict_of, wait_for_all, waited_json

    session = session_of(context)
    if not files and not spooled:
        raise UsageError("nothing to post", hint="write gradassay post FILE, gradassay post FOLDER or --spooled")
    with configured_service(session) as client:
        result = deliver(
            client,
            configured_spool(client),
            sendable(files or [], why=reason),
            jobs=jobs,
            done=lambda one: _say(session, one),
            say=session.say,
            wait=spooled,
        )
        shown = (*(result.waited if spooled else ()), *result.sent)
        if not session.json:
            session.emit("".join(f"{one.ref}  {one.file.path}  {one.link}\n" for one in shown if one.ref))
        document = {"service": client.url, **_document(result)}
        exit = _failed(session, result, shown)
        runs = [one.id for one in shown if one.ref and one.file.kind == "record"]
        if wait and exit is Exit.AGREE and runs:
            waited = wait_for_all(client, runs, against=against, timeout_s=timeout)
            exit = verdict_of(waited, pass_if_approved=pass_if_approved)
            if session.json:
                document |= waited_json(waited, exit, pass_if_approved=pass_if_approved)
            else:
                report(session, waited, pass_if_approved=pass_if_approved)
    if session.json:
        session.emit_json(document)
    leave(exit)


def _document(result: Delivered) -> dict[str, Any]:
    kept = {file.digest for file in result.kept}
    return {
        "files": [one.to_json() | ({"spooled": True} if one.file.digest in kept else {}) for one in result.sent],
        "waited": [one.to_json() for one in result.waited],
    }


def _say(session: Session, one: Sent) -> None:
    if one.ref:
        session.say(f"{'posted' if one.created else 'was there already'}: {one.file.path}")


def _failed(session: Session, result: Delivered, shown: Sequence[Sent]) -> Exit:
    """Says what was not sent, why, and where it waits; the exit code is that of the first failure."""
    error = result.error or next((one.error for one in shown if one.error is not None), None)
    if error is None:
        return Exit.AGREE
    for one in result.sent:
        if one.error is not None:
            session.say(f"not posted: {one.file.path}: {one.error.message}")
        elif not one.ref:
            session.say(f"not tried: {one.file.path}")
    if result.sent:
        done = sum(bool(one.ref) for one in result.sent)
        session.say(f"{done} of {len(result.sent)} posted; to post the same again doubles nothing")
    if result.kept:
        session.say(
            f"{len(result.kept)} wait in the spool {result.folder}: the next gradassay post sends them first, "
            "gradassay post --spooled sends them alone"
        )
    report_error(error)
    return error.kind.exit
