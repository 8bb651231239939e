"""Waits for verdicts of the service, and says what they come to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradassay.client.client import segment
from gradassay.goldens.assay.result import EXITS, GRAVEST_FIRST
from gradassay.goldens.errors import Exit, GradassayError, Unreachable
from gradassay.goldens.report.printable import printable

if TYPE_CHECKING:
    from gradassay.cli.session import Session
    from gradassay.client.client import ServiceClient

POLL_S = 30.0
"""How long one request waits for an assay; below what proxies cut off."""
GRACE_S = 60.0
FAILURES = (Exit.UNAUTHORISED, Exit.SERVICE, Exit.UNREACHABLE, Exit.INVALID)
_VERDICTS = tuple(EXITS[verdict] for verdict in GRAVEST_FIRST if EXITS[verdict] is not Exit.DIVERGE)
GRAVEST = (Exit.DIVERGE, *FAILURES, Exit.NO_GOLDEN, *_VERDICTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What came of waiting for one run. assay: as the service gives it, or the error because of which there is none."""

    run: str
    link: str
    assay: dict[str, Any] | None = None
    error: GradassayError | None = None

    @property
    def accepted(self) -> bool:
        """Whether it diverges and reviewers accepted every finding of that, for the time being."""
        return self.assay is not None and bool(self.assay["accepted"]["every_finding"])

    @property
    def reviews(self) -> list[dict[str, Any]]:
        """The reviews that accept findings of it now, each once."""
        findings = self.assay["accepted"]["findings"] if self.assay else []
        return list({review["number"]: review for finding in findings for review in finding["reviews"]}.values())

    def exit(self, *, pass_if_approved: bool) -> Exit:
        """The exit code of this run alone."""
        if self.error is not None:
            return self.error.kind.exit
        assert self.assay is not None
        return Exit.AGREE if pass_if_approved and self.accepted else Exit(self.assay["exit"])

    def to_json(self, *, pass_if_approved: bool) -> dict[str, Any]:
        """As `--json` prints it."""
        document = {"run": self.run, "link": self.link, "exit": int(self.exit(pass_if_approved=pass_if_approved))}
        if self.error is None:
            return document | {"assay": self.assay}
        return document | {"error": {"code": self.error.code, "message": self.error.message, "hint": self.error.hint}}


def wait_for_all(client: ServiceClient, runs: Sequence[str], *, against: str, timeout_s: float) -> tuple[Waited, ...]:
    """What came of each run, in their order; the seconds are for all of them, as the service works on all at once."""
    until = time.monotonic() + timeout_s
    return tuple(_waited(client, run, against=against, until=until, timeout_s=timeout_s) for run in dict.fromkeys(runs))


def verdict_of(waited: Sequence[Waited], *, pass_if_approved: bool) -> Exit:
    """The gravest exit code: diverge, then failures, then no golden, then the other verdicts."""
    return min((one.exit(pass_if_approved=pass_if_approved) for one in waited), key=GRAVEST.index)


def waited_json(waited: Sequence[Waited], exit: Exit, *, pass_if_approved: bool) -> dict[str, Any]:
    """What `--json` prints: the exit code, and each run with its assay or what went wrong."""
    return {"exit": int(exit), "runs": [one.to_json(pass_if_approved=pass_if_approved) for one in waited]}


def report(session: Session, waited: Sequence[Waited], *, pass_if_approved: bool) -> None:
    """Writes the verdicts to stdout as `diff` does, with what is accepted of each; failures go to stderr."""
    from gradassay.cli.failure import report_error

    for number, one in enumerate(waited):
        if one.error is not None:
            session.say(f"run {one.run}:")
            report_error(one.error)
        elif one.assay is not None:
            session.emit("\n" if number else "")
            _show(session, one, one.assay, passes=pass_if_approved and one.accepted)


def _waited(client: ServiceClient, run: str, *, against: str, until: float, timeout_s: float) -> Waited:
    link = f"{client.url}/runs/{segment(run)}"
    try:
        return Waited(run=run, link=link, assay=_assay(client, run, against=against, until=until, timeout_s=timeout_s))
    except GradassayError as error:
        return Waited(run=run, link=link, error=error)


def _assay(client: ServiceClient, run: str, *, against: str, until: float, timeout_s: float) -> dict[str, Any]:
    while True:
        left = max(0.0, until - time.monotonic())
        wait = min(POLL_S, left)
        answer: dict[str, Any] = client.ask(
            "GET",
            f"/runs/{segment(run)}/assay",
            params={"against": against, "wait": wait},
            answer_s=wait + GRACE_S,
            retry_s=left,
        )
        if "verdict" in answer:
            return answer
        if left == 0:
            raise Unreachable(
                f"run {run}: no verdict within {timeout_s:g} s",
                hint=f"the service goes on with it: gradassay wait run:{run} waits again, --timeout allows more",
            )


def _show(session: Session, one: Waited, assay: dict[str, Any], *, passes: bool) -> None:
    from gradassay.goldens.report.json import from_json
    from gradassay.goldens.report.text import terminal

    session.show(terminal([from_json(assay)]))
    if assay["choice"] is not None:
        session.emit(f"  golden      {printable('; '.join(assay['choice']['reasons']))}\n")
    for review in one.reviews:
        session.emit(
            f"  accepted    {printable(review['formula'])} by {printable(review['who'])} until {review['expires_at']}: "
            f"{printable(review['reason'])}\n"
        )
    if passes:
        session.emit("  passes      every divergence is accepted\n")
    elif one.accepted:
        session.say("every divergence is accepted; --pass-if-approved lets the run pass")
    elif one.reviews:
        session.say("not every divergence is accepted")
    session.emit(f"  review      {one.link}\n")
