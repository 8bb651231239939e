"""`gradassay post`: records and goldens to the service."""

from __future__ import annotations

from typing import Annotated

import typer

from gradassay.cli.session import Session, leave, session_of
from gradassay.cli.stores import configured_service
from gradassay.cli.wait import DEFAULT_TIMEOUT_S, Against, PassIfApproved, Timeout
from gradassay.goldens.errors import Exit


def post(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE_OR_FOLDER...", help="Records to post, goldens to propose.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why goldens are proposed; reviewers read it.")] = "",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=32, help="Files that are on their way at once.")
    ] = 4,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the verdict on the records, as gradassay wait.")] = False,
    against: Against = "approved",
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    pass_if_approved: PassIfApproved = False,
) -> None:
    """Send records and goldens to the service; the same content again is the same run or version.

    Nothing is sent unless all files are valid. Prints what they have become, as diff and wait take it.
    """
    from gradassay.cli.posting import Sent, send_all, sendable
    from gradassay.cli.waiting import wait_for_all

    session = session_of(context)
    with configured_service(session) as client:
        chosen = sendable(files)

        def done(sent: Sent) -> None:
            if sent.error is not None:
                session.say(f"not posted: {sent.file.path}: {sent.error.message}")
            else:
                session.say(f"{'posted' if sent.created else 'was there already'}: {sent.file.path}")

        sent = send_all(client, chosen, why=reason, jobs=jobs, done=done)
        failed = _failure(session, sent)
        waited = None
        if wait and failed is None:
            runs = [item.id for item in sent if item.file.kind == "record"]
            _print(session, sent, to_stdout=not session.json)
            waited = wait_for_all(client, runs, against=against, timeout_s=timeout, say=session.say)
            ...
