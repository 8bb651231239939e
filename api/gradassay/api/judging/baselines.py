"""What the ledger says about goldens, for many runs at once, and the choices that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.database.tables import EntryRow, GoldenRow, RunRow, VersionRow
from gradassay.api.judging.choice import Against, Choice, Known, Wanted, choose
from gradassay.api.ledger.entry import Entry
from gradassay.api.ledger.standing import replay

AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Runs that are compared with the same golden, as they are alike in all that decides which one."""

    project: str
    problem: str
    dtype: str
    problem_digest: str
    dtype_profile: str

    @property
    def golden(self) -> str:
        """The name of the goldens that they are compared with."""
        return f"{self.problem}.{self.dtype}"

    @property
    def wanted(self) -> Wanted:
        """What a golden must be of to judge them."""
        return Wanted(golden=self.golden, problem_digest=self.problem_digest, dtype_profile=self.dtype_profile)

    @property
    def condition(self) -> ColumnElement[bool]:
        """Which rows of runs they are."""
        return and_(*(getattr(RunRow, name) == getattr(self, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One golden name as the ledger has it."""

    project: str
    versions: tuple[Known, ...]
    channels: Mapping[str, int]

    def digest(self, version: int) -> str | None:
        """The digest of a version's file, None where there is no such version."""
        return next((known.digest for known in self.versions if known.version == version), None)


def choice_for(subject: Subject, against: Against, baselines: Mapping[str, Baseline]) -> Choice:
    """The version that runs of the subject are compared with; a golden of another project is none for them."""
    baseline = baselines.get(subject.golden)
    if baseline is None or baseline.project != subject.project:
        return choose(against, subject.wanted, (), {})
    return choose(against, subject.wanted, baseline.versions, baseline.channels)


def baselines(session: Session, names: Collection[str]) -> dict[str, Baseline]:
    """What the ledger knows of these names, in three queries for every 500 of them."""
    found: dict[str, Baseline] = {}
    wanted = sorted(set(names))
    for first in range(0, len(wanted), AT_ONCE):
        found |= _baselines(session, wanted[first : first + AT_ONCE])
    return found


def _baselines(session: Session, names: list[str]) -> dict[str, Baseline]:
    projects = session.execute(select(GoldenRow.name, GoldenRow.project).where(GoldenRow.name.in_(names))).all()
    entries: dict[str, list[Entry]] = defaultdict(list)
    for row in session.scalars(select(EntryRow).where(EntryRow.golden.in_(names)).order_by(EntryRow.number)):
        entries[row.golden or ""].append(Entry.from_row(row))
    versions: dict[str, list[VersionRow]] = defaultdict(list)
    for version in session.scalars(select(VersionRow).where(VersionRow.golden.in_(names)).order_by(VersionRow.version)):
        versions[version.golden].append(version)
    found = {}
    for name, project in projects:
        standing = replay(entries[name])
        found[name] = Baseline(
            project=project,
            versions=tuple(
                Known(
                    version=row.version,
                    digest=row.digest,
                    problem_digest=str(row.facts["problem"]["digest"]),
                    dtype_profile="/".join(
                        str(row.facts["dtype_profile"][part]) for part in ("parameter", "gradient", "reduce")
                    ),
                    state=str(standing.status(row.version)),
                    approved_in=standing.approved_in(row.version),
                )
                for row in versions[name]
            ),
            channels=standing.channels,
        )
    return found


def subjects(session: Session, project: str) -> list[Subject]:
    """All subjects that the project ("*": any) has runs of."""
    columns = [getattr(RunRow, name) for name in Subject.__slots__]
    query = select(*columns).distinct()
    if project != EVERY_PROJECT:
        query = query.where(RunRow.project == project)
    return [Subject(**row._mapping) for row in session.execute(query)]
