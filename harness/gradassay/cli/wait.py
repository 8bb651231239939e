"""`gradassay wait`: the verdict of the service on runs that were posted."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gradassay.cli.session import leave, session_of
from gradassay.cli.stores import configured_service

TIMEOUT_S = 600.0

Against = Annotated[str, typer.Option("--against", help="Channel or version (as in v3) of the golden to compare with.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for the verdicts, all together.")]
PassIfApproved = Annotated[
    bool,
    typer.Option("--pass-if-approved", help="Exit 0 for a divergence that a reviewer accepted, until that expires."),
]


def wait(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, with or without run: before them.")],
    against: Against = "approved",
    timeout: Timeout = TIMEOUT_S,
    pass_if_approved: PassIfApproved = False,
) -> None:
    """Wait until the service has assayed the runs, print its verdicts as diff does, and exit with the gravest."""
    from gradassay.cli.waiting import report, verdict_of, wait_for_all, waited_json
    from gradassay.client.identity import authorise

    session = session_of(context)
    with configured_service(session) as client:
        authorise(client, os.environ)
        named = [run.removeprefix("run:") for run in runs]
        waited = wait_for_all(client, named, against=against, timeout_s=timeout)
    exit = verdict_of(waited, pass_if_approved=pass_if_approved)
    if session.json:
        session.emit_json(waited_json(waited, exit, pass_if_approved=pass_if_approved))
    else:
        report(session, waited, pass_if_approved=pass_if_approved)
    leave(exit)
