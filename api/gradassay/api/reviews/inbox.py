"""What nobody has decided about yet: divergences of runs from their approved goldens, grouped by law."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, or_, select, tuple_
from sqlalchemy.orm import Session

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.database.tables import AssayRow, FindingRow, ReviewRow, RunRow
from gradassay.api.judging.baselines import baselines, choice_for, subjects
from gradassay.api.judging.choice import Against
from gradassay.api.judging.law import verdict_law
from gradassay.api.reviews.review import Decision
from gradassay.goldens.assay.result import Verdict
from gradassay.goldens.faults import load_catalogue

AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs of one framework that show one law against one golden, and that nobody has decided about.

    law: its id, also for accepting it. pattern: the verdict, where runs neither agree nor diverge and so have no law.
    count of `of` parameters, of the newest run. runs: ids, newest first. known_faults: titles of public reports like it.
    oldest: when the first of them was posted. owner: who posted the newest. sentence: of its assay.
    """

    law: str
    golden: str
    framework: str
    version: int
    verdict: str
    families: tuple[str, ...]
    pattern: str
    formula: str
    count: int
    of: int
    layouts: tuple[str, ...]
    strategies: tuple[str, ...]
    runs: tuple[str, ...]
    known_faults: tuple[str, ...]
    oldest: datetime
    owner: str
    sentence: str


def inbox(session: Session, project: str, now: datetime) -> list[Group]:
    """The groups of the project ("*": of all), those with the most runs first.

    Of each run its assay against the version counts that is approved for it now. A finding is decided about where it was
    rejected for that run, or where reviews that are active accept all of its parameters (see `acceptance`). The number
    of queries does not depend on the number of runs.
    """
    current = _current(session, project)
    if not current:
        return []
    rows = [
        row for first in range(0, len(current), AT_ONCE) for row in _open(session, current[first : first + AT_ONCE])
    ]
    accepted = _accepted(session, project, now)
    covered = _covered(session, rows, accepted)
    grouped: dict[tuple[str, str, str], list[Row[Any]]] = defaultdict(list)
    for row in rows:
        if (row.assay, row.position) not in covered and not _is_accepted_whole(row, accepted):
            grouped[_law(row), row.golden, row.framework].append(row)
    groups = [_group(law, members) for (law, *_), members in grouped.items()]
    return sorted(groups, key=lambda group: (-len(group.runs), group.oldest, group.law))


def _current(session: Session, project: str) -> list[ColumnElement[bool]]:
    """For each kind of run, which of their assays are those against what is approved for them now."""
    everything = subjects(session, project)
    known = baselines(session, {subject.golden for subject in everything})
    found = []
    for subject in everything:
        choice = choice_for(subject, Against(), known)
        if choice.version is not None:
            found.append(and_(subject.condition, AssayRow.golden == choice.golden, AssayRow.version == choice.version))
    return found


def _open(session: Session, current: Sequence[ColumnElement[bool]]) -> Sequence[Row[Any]]:
    """Findings that were not rejected for their run, and runs without a finding and without agreement; newest first."""
    rejected = select(ReviewRow.number).where(
        ReviewRow.run == RunRow.id,
        ReviewRow.decision == Decision.REJECTED,
        ReviewRow.withdrawn_at.is_(None),
        or_(
            ReviewRow.law == FindingRow.law,
            and_(FindingRow.law.is_(None), ReviewRow.law == verdict_law("") + AssayRow.verdict),
        ),
    )
    query = (
        select(
            AssayRow.id.label("assay"),
            AssayRow.golden,
            AssayRow.version,
            AssayRow.verdict,
            AssayRow.sentence,
            FindingRow.position,
            FindingRow.law,
            FindingRow.families,
            FindingRow.pattern,
            FindingRow.formula,
            FindingRow.count.label("counted"),
            FindingRow.of,
            FindingRow.known_faults,
            RunRow.id.label("run"),
            RunRow.project,
            RunRow.framework,
            RunRow.layout,
            RunRow.strategy,
            RunRow.posted_at,
            RunRow.posted_by,
        )
        .join(RunRow, RunRow.id == AssayRow.run)
        .outerjoin(FindingRow, FindingRow.assay == AssayRow.id)
        .where(or_(*current), AssayRow.verdict != Verdict.AGREE, ~rejected.exists())
        .order_by(RunRow.number.desc(), AssayRow.computed_at.desc(), FindingRow.position)
    )
    return session.execute(query).all()


_Key = tuple[str, str, str | None, str]
"""Project, law, golden and framework: what a review is about."""


def _accepted(session: Session, project: str, now: datetime) -> Mapping[_Key, set[str]]:
    """The parameters that reviews which are active accept, by what they are about."""
    query = (
        select(ReviewRow, RunRow.framework)
        .join(RunRow, RunRow.id == ReviewRow.run)
        .where(ReviewRow.decision == Decision.ACCEPTED, ReviewRow.withdrawn_at.is_(None), ReviewRow.expires_at > now)
    )
    if project != EVERY_PROJECT:
        query = query.where(ReviewRow.project == project)
    found: dict[_Key, set[str]] = {}
    for review, framework in session.execute(query):
        found.setdefault((review.project, review.law, review.golden, framework), set()).update(review.parameters)
    return found


def _key(row: Row[Any]) -> _Key:
    return row.project, _law(row), row.golden, row.framework


def _law(row: Row[Any]) -> str:
    return row.law if row.law is not None else verdict_law(row.verdict)


def _is_accepted_whole(row: Row[Any], accepted: Mapping[_Key, set[str]]) -> bool:
    """Whether a verdict without a finding is accepted, which names no parameters."""
    return row.law is None and _key(row) in accepted


def _covered(session: Session, rows: Iterable[Row[Any]], accepted: Mapping[_Key, set[str]]) -> set[tuple[str, int]]:
    """Findings whose parameters are all accepted. Names are read only of those that a review may be about."""
    wanted = [row for row in rows if row.law is not None and _key(row) in accepted]
    keys = {(row.assay, row.position): _key(row) for row in wanted}
    places = list(keys)
    covered = set()
    for first in range(0, len(places), AT_ONCE):
        column = tuple_(FindingRow.assay, FindingRow.position)
        query = select(FindingRow.assay, FindingRow.position, FindingRow.parameters).where(
            column.in_(places[first : first + AT_ONCE])
        )
        for assay, position, parameters in session.execute(query):
            if set(parameters) <= accepted[keys[assay, position]]:
                covered.add((assay, position))
    return covered


def _group(law: str, members: Sequence[Row[Any]]) -> Group:
    newest = members[0]
    titles = _titles()
    faults = Counter(str(fault) for row in members for fault in row.known_faults or ())
    return Group(
        law=law,
        golden=newest.golden,
        framework=newest.framework,
        version=newest.version,
        verdict=newest.verdict,
        families=tuple(newest.families or ()),
        pattern=newest.pattern or newest.verdict,
        formula=newest.formula or "",
        count=newest.counted or 0,
        of=newest.of or 0,
        layouts=tuple(sorted({row.layout for row in members})),
        strategies=tuple(sorted({row.strategy for row in members})),
        runs=tuple(dict.fromkeys(row.run for row in members)),
        known_faults=tuple(titles.get(fault, fault) for fault, _ in faults.most_common()),
        oldest=min(row.posted_at for row in members),
        owner=newest.posted_by,
        sentence=newest.sentence,
    )


@cache
def _titles() -> Mapping[str, str]:
    return {fault.id: fault.title for fault in load_catalogue()}
