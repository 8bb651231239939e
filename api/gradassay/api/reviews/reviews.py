"""All reviews: divergences that people accepted for a while, or rejected."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from gradassay.api.auth.caller import Caller
from gradassay.api.database.database import Database
from gradassay.api.database.tables import AssayRow, EntryRow, FindingRow, ReviewRow, RunRow
from gradassay.api.judging.judged import Judged
from gradassay.api.judging.law import verdict_law
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.rows import check_text
from gradassay.api.reviews.acceptance import Acceptance, acceptance
from gradassay.api.reviews.inbox import Group, inbox
from gradassay.api.reviews.review import Decision, Review
from gradassay.api.runs.run import Run
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.errors import Conflict, NotFound, UsageError

LONGEST = timedelta(days=366)
LONGEST_REASON = 4000


class Reviews:
    """Decisions about runs; each is an entry of the ledger as well, and none is ever deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accept(
        self,
        run: Run,
        *,
        law: str,
        parameters: Collection[str] = (),
        reason: str,
        expires_at: datetime,
        who: str,
        assay: str | None = None,
    ) -> Review:
        """Accepts a divergence of the run until `expires_at`, a year ahead at most.

        law: of one of the run's findings, by id or formula. parameters: those it is accepted for, by default all of the
        finding. assay: where it was seen, by default the run's newest assay with that law. Raises UsageError without a
        reason, for a moment that is past or too far ahead, and for a law or parameters that no assay of the run shows.
        """
        now = datetime.now(UTC)
        if expires_at.tzinfo is None:
            raise UsageError(f"expires_at {expires_at} has no time zone", hint="write it as in 2027-01-31T00:00:00Z")
        if not now < expires_at <= now + LONGEST:
            raise UsageError(
                f"expires_at {expires_at.isoformat()} is not within the next {LONGEST.days} days",
                hint="an accepted divergence must be looked at again; choose a date by which it should be mended",
            )
        return self._decide(
            Decision.ACCEPTED, run, law, parameters, reason, expires_at.astimezone(UTC), who, assay, now
        )

    def reject(
        self,
        run: Run,
        *,
        law: str,
        parameters: Collection[str] = (),
        reason: str,
        who: str,
        assay: str | None = None,
    ) -> Review:
        """Says that a divergence of the run must be mended; otherwise as `accept`."""
        return self._decide(Decision.REJECTED, run, law, parameters, reason, None, who, assay, datetime.now(UTC))

    def withdraw(self, number: int, who: str, *, run: Run | None = None) -> Review:
        """Takes the decision back. Raises NotFound (also where it is not about `run`), Conflict where it was taken back."""
        now = datetime.now(UTC)
        with self._database.write() as session:
            row = session.get(ReviewRow, number)
            if row is None or (run is not None and row.run != run.id):
                raise NotFound(f"review {number} is not known", hint="GET /api/v1/runs/{run}/reviews lists them")
            changed = session.execute(
                update(ReviewRow)
                .where(ReviewRow.number == number, ReviewRow.withdrawn_at.is_(None))
                .values(withdrawn_at=now)
                .returning(ReviewRow.number)
            ).all()
            if not changed:
                raise Conflict(f"review {number} was withdrawn before", hint="GET the run's reviews again")
            session.refresh(row)
            session.add(_entry(row, Action.WITHDRAWN, who, now, f"{row.decision}: {row.reason}"))
            return _reviews(session, [row])[0]

    def find(self, number: int, caller: Caller) -> Review:
        """The review of this number; raises NotFound where the caller sees none."""
        with self._database.read() as session:
            row = session.get(ReviewRow, number)
            if row is None or not caller.sees(row.project):
                raise NotFound(f"review {number} is not known", hint="GET /api/v1/runs/{run}/reviews lists them")
            return _reviews(session, [row])[0]

    def of_run(self, run: Run) -> list[Review]:
        """All decisions that were made looking at this run, newest first."""
        query = select(ReviewRow).where(ReviewRow.run == run.id).order_by(ReviewRow.number.desc())
        with self._database.read() as session:
            return _reviews(session, session.scalars(query).all())

    def acceptance(self, judged: Judged, run: Run, *, now: datetime | None = None) -> Acceptance:
        """What of the assay is accepted, also by reviews of other runs of the project and framework."""
        query = select(ReviewRow).where(
            ReviewRow.project == judged.project,
            ReviewRow.golden.is_(None) if judged.golden is None else ReviewRow.golden == judged.golden,
            ReviewRow.decision == Decision.ACCEPTED,
            ReviewRow.withdrawn_at.is_(None),
        )
        with self._database.read() as session:
            reviews = _reviews(session, session.scalars(query.order_by(ReviewRow.number)).all())
        return acceptance(
            judged.document, reviews, golden=judged.golden, framework=run.framework, now=now or datetime.now(UTC)
        )

    def inbox(self, project: str) -> list[Group]:
        """What nobody has decided about yet, by law; see `inbox.inbox`. project: "*" for all."""
        with self._database.read() as session:
            return inbox(session, project, datetime.now(UTC))

    def _decide(
        self,
        decision: Decision,
        run: Run,
        law: str,
        parameters: Collection[str],
        reason: str,
        expires_at: datetime | None,
        who: str,
        assay: str | None,
        now: datetime,
    ) -> Review:
        reason = reason.strip()
        if not reason or len(reason) > LONGEST_REASON:
            raise UsageError(
                f"a reason of 1 to {LONGEST_REASON} characters is needed, this one has {len(reason)}",
                hint="it stays in the ledger for those who come later",
            )
        check_text(reason=reason, law=law, assay=assay or "")
        if not law:
            raise UsageError("a review is about the law of one of the run's findings", hint="name it by id or formula")
        action = Action.ACCEPTED if decision is Decision.ACCEPTED else Action.REJECTED_RUN
        with self._database.write() as session:
            seen = _seen(session, run, law, assay)
            row = ReviewRow(
                project=run.project,
                run=run.id,
                law=seen.law,
                formula=seen.formula,
                golden=seen.golden,
                parameters=_chosen(parameters, seen.parameters, law),
                decision=str(decision),
                reason=reason,
                who=who,
                at=now,
                expires_at=expires_at,
                withdrawn_at=None,
            )
            session.add(row)
            session.flush()
            session.add(_entry(row, action, who, now, reason))
            return _reviews(session, [row])[0]


class _Seen:
    """A law as an assay of the run shows it."""

    def __init__(self, law: str, formula: str, golden: str | None, parameters: Sequence[str]) -> None:
        self.law = law
        self.formula = formula
        self.golden = golden
        self.parameters = parameters


def _seen(session: Session, run: Run, law: str, assay: str | None) -> _Seen:
    where = [AssayRow.run == run.id] if assay is None else [AssayRow.run == run.id, AssayRow.id == assay]
    newest = AssayRow.computed_at.desc()
    found = session.execute(
        select(FindingRow, AssayRow.golden)
        .join(AssayRow, AssayRow.id == FindingRow.assay)
        .where(*where, (FindingRow.law == law) | (FindingRow.formula == law))
        .order_by(newest, FindingRow.position)
        .limit(1)
    ).first()
    if found is not None:
        finding, golden = found
        return _Seen(finding.law, finding.formula, golden, finding.parameters)
    if law.startswith(verdict_law("")):
        verdict = law.removeprefix(verdict_law(""))
        undecided = session.execute(
            select(AssayRow.golden).where(*where, AssayRow.verdict == verdict).order_by(newest).limit(1)
        ).first()
        if undecided is not None and verdict not in (Verdict.AGREE, Verdict.DIVERGE):
            return _Seen(law, "", undecided.golden, ())
    raise UsageError(
        f"run {run.id}: no assay shows the law {law[:80]!r}",
        hint="name the law of one of its findings, by id or formula: GET /api/v1/runs/{run}/assay",
        run=run.id,
    )


def _chosen(asked: Collection[str], seen: Sequence[str], law: str) -> list[str]:
    unknown = sorted(set(asked) - set(seen))
    if unknown:
        raise UsageError(
            f"{len(unknown)} parameters are none of those that the law {law[:80]!r} was found for: {unknown[0][:200]!r}",
            hint="leave parameters out to mean all of them",
        )
    return [name for name in seen if name in set(asked)] if asked else list(seen)


def _reviews(session: Session, rows: Sequence[ReviewRow]) -> list[Review]:
    wanted = {row.run for row in rows}
    frameworks: dict[str, str] = {}
    for known, framework in session.execute(select(RunRow.id, RunRow.framework).where(RunRow.id.in_(wanted))):
        frameworks[known] = framework
    return [Review.from_row(row, frameworks.get(row.run, "")) for row in rows]


def _entry(row: ReviewRow, action: Action, who: str, at: datetime, why: str) -> EntryRow:
    return EntryRow(
        at=at,
        who=who,
        project=row.project,
        action=str(action),
        golden=row.golden,
        run=row.run,
        why=why,
        cause=row.formula,
    )
