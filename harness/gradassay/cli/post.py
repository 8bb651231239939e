"""`gradassay post`: records and goldens to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.failure import report_error
from gradassay.cli.session import Session, leave, session_of
from gradassay.cli.stores import configured_service
from gradassay.cli.wait import TIMEOUT_S, Against, PassIfApproved, Timeout
from gradassay.goldens.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.cli.posting import Sent


def post(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE_OR_FOLDER...", help="Records to post, goldens to propose.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why goldens are proposed; reviewers read it.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=32, help="Files that are sent at once.")] = 4,
    wait: Annotated[bool, typer.Option("--wait", help="Then wait for the verdicts, as gradassay wait does.")] = False,
    against: Against = "approved",
    timeout: Timeout = TIMEOUT_S,
    pass_if_approved: PassIfApproved = False,
) -> None:
    """Send records and goldens to the service; the same content again is the same run or version.

    Nothing is sent unless all files are valid. Prints what each has become there, written as diff and wait take it.
    """
    from gradassay.cli.posting import send_all, sendable
    from gradassay.cli.waiting import report, verdict_of, wait_for_all, waited_json

    session = session_of(context)
    with configured_service(session) as client:
        sent = send_all(client, sendable(files), why=reason, jobs=jobs, done=lambda one: _say(session, one))
        if not session.json:
            session.emit("".join(f"{one.ref}  {one.file.path}  {one.link}\n" for one in sent if one.ref))
        document = {"service": client.url, "files": [one.to_json() for one in sent]}
        exit = _failed(session, sent)
        runs = [one.id for one in sent if one.ref and one.file.kind == "record"]
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


def _say(session: Session, one: Sent) -> None:
    if one.ref:
        session.say(f"{'posted' if one.created else 'was there already'}: {one.file.path}")


def _failed(session: Session, sent: Sequence[Sent]) -> Exit:
    """Says what was not sent and why; the exit code is that of the first failure."""
    failures = [one.error for one in sent if one.error is not None]
    if not failures:
        return Exit.AGREE
    for one in sent:
        if one.error is not None:
            session.say(f"not posted: {one.file.path}: {one.error.message}")
        elif not one.ref:
            session.say(f"not tried: {one.file.path}")
    session.say(f"{sum(bool(one.ref) for one in sent)} of {len(sent)} posted; to post the same again doubles nothing")
    report_error(failures[0])
    return failures[0].kind.exit
