"""All assays: each computed once, by whichever replica takes it first, and remembered."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

import structlog
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select

from gradassay.api.auth.caller import EVERY_PROJECT, Caller
from gradassay.api.database.database import Database
from gradassay.api.database.tables import AssayRow, RunRow
from gradassay.api.database.text import is_text
from gradassay.api.judging.baselines import Subject, baselines, choice_for, subjects
from gradassay.api.judging.choice import Against, Choice
from gradassay.api.judging.claims import LEASE_S, Claims
from gradassay.api.judging.compute import compute
from gradassay.api.judging.judged import Judged, Question
from gradassay.api.judging.memo import recall, recall_of_run, remember
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.operations.metrics import count_assay
from gradassay.api.runs.run import Run
from gradassay.api.runs.runs import Runs
from gradassay.goldens.errors import GradassayError, NoGolden, NotFound, Unreachable
from gradassay.goldens.reference import GoldenReference
from gradassay.goldens.store.protocol import GoldenStore

THREADS = 2
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
_ID = re.compile(r"[0-9a-f]{32}")
log = structlog.get_logger("gradassay.assays")


class Assays:
    """Computes in threads of its own; whoever waits for an assay holds none of them.

    nudged: set when there may be runs to judge, for whoever judges in the background. stopping: set when nobody should be
    kept waiting any more.
    """

    def __init__(
        self,
        database: Database,
        store: GoldenStore,
        *,
        runs: Runs,
        ledger: Ledger,
        threads: int = THREADS,
        lease_s: float = LEASE_S,
    ) -> None:
        self._database = database
        self._store = store
        self._runs = runs
        self._ledger = ledger
        holder = f"{socket.gethostname()[:24]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"
        self._claims = Claims(database, holder, lease_s=lease_s)
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="assay")
        self._lock = threading.Lock()
        self._computing: dict[str, Future[bool]] = {}
        self.nudged = threading.Event()
        self.stopping = threading.Event()

    def question(self, run: Run, against: str = "approved") -> Question:
        """What is asked: the run and the version that `against` (a channel, or v3) chooses for it.

        Raises NotFound for a version that there is not, NoGolden where the channel has none for this run.
        """
        request = Against.parse(against)
        subject = Subject(**{name: getattr(run, name) for name in Subject.__slots__})
        with self._database.read() as session:
            found = baselines(session, [run.golden])
        choice = choice_for(subject, request, found)
        if choice.version is None:
            raise _nothing(choice, request, run)
        return Question(
            run=run,
            golden=run.golden,
            version=choice.version,
            golden_digest=found[run.golden].digest(choice.version) or "",
            choice=choice,
        )

    def literally(self, run: Run, reference: GoldenReference) -> Question:
        """What is asked where somebody names the golden: that version, or what its channel points to, fit or not.

        Raises NotFound or NoGolden where the run's project has none.
        """
        known = None
        if is_text(reference.name):
            with self._database.read() as session:
                known = baselines(session, [reference.name]).get(reference.name)
        if known is None or known.project != run.project:
            raise NoGolden(f"golden {reference.name[:200]!r} is not known", hint="GET /api/v1/goldens lists them")
        version = reference.version or known.channels.get(reference.channel)
        if version is None:
            raise NoGolden(
                f"golden {reference.name}: {reference.channel} points to no version",
                hint="approve one, or name a version: NAME@v3",
                golden=reference.name,
                channel=reference.channel,
            )
        digest = known.digest(version)
        if digest is None:
            raise NotFound(f"golden {reference.name} has no v{version}", golden=reference.name, version=version)
        return Question(run=run, golden=reference.name, version=version, golden_digest=digest)

    def judge(self, question: Question, *, wait_s: float | None = None) -> Judged | None:
        """The answer, computed if nobody has; None once `stopping` is set, or where that takes longer than `wait_s` seconds,
        and goes on.

        wait_s: None to wait for however long it takes. Raises StoreError where a stored file is gone or damaged.
        """
        until = None if wait_s is None else time.monotonic() + wait_s
        pause = FIRST_PAUSE_S
        while (known := recall(self._database, question.id)) is None:
            try:
                answered = self.begin(question).result(_left(until))
            except NotYet:
                return None
            if answered:
                continue
            left = _left(until)
            if left == 0 or self.stopping.wait(pause if left is None else min(pause, left)):
                return None
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return known.chosen(question.choice)

    async def judge_soon(self, question: Question, *, wait_s: float) -> Judged | None:
        """As `judge`, without holding a thread while it waits; None also once `stopping` is set."""
        until = time.monotonic() + wait_s
        pause = FIRST_PAUSE_S
        while (known := await run_in_threadpool(recall, self._database, question.id)) is None:
            left = max(0.0, until - time.monotonic())
            computing = asyncio.wrap_future(self.begin(question))
            done, _ = await asyncio.wait({computing}, timeout=min(left, LONGEST_PAUSE_S))
            if done and computing.result():
                continue
            if left == 0 or self.stopping.is_set():
                return None
            if done:
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, LONGEST_PAUSE_S)
        return known.chosen(question.choice)

    def begin(self, question: Question) -> Future[bool]:
        """Whether the answer is there once the future is done; otherwise somebody else is about to have it."""
        with self._lock:
            known = self._computing.get(question.id)
            if known is not None:
                return known
            try:
                future = self._threads.submit(self._work, question)
            except RuntimeError as error:
                raise Unreachable("the service is being stopped", hint="try again in a moment") from error
            self._computing[question.id] = future
        future.add_done_callback(lambda _: self._computing.pop(question.id, None))
        return future

    def compare(self, a: Run, b: Run) -> Judged:
        """The assay of run b against run a."""
        judged = self.judge(self.question_between(a, b))
        assert judged is not None
        return judged

    def question_between(self, a: Run, b: Run) -> Question:
        """What is asked of two runs; raises NotFound where they are of two projects."""
        if a.project != b.project:
            raise NotFound(f"run {a.id} is not known in the project of {b.id}", run=a.id)
        return Question(run=b, other=a)

    def find(self, assay: str, caller: Caller) -> Judged:
        """The assay of this id; raises NotFound where the caller sees none."""
        known = recall(self._database, assay) if _ID.fullmatch(assay) else None
        if known is None:
            raise NotFound(
                f"assay {assay[:80]!r} is not known", hint="GET /api/v1/runs/{run}/assay answers with its id"
            )
        caller.within(known.project, f"assay {assay}")
        return known

    def known(self, run: Run) -> list[Judged]:
        """The assays of the run that have been computed, newest first."""
        return recall_of_run(self._database, run.id)

    def nudge(self) -> None:
        """Says that there may be runs to judge, as after a run was posted or a golden approved."""
        self.nudged.set()

    def unjudged(self, *, limit: int) -> list[Question]:
        """Questions about runs that have no assay against their approved golden, the newest runs first."""
        questions: list[Question] = []
        with self._database.read() as session:
            all_subjects = subjects(session, EVERY_PROJECT)
            found = baselines(session, {subject.golden for subject in all_subjects})
            for subject in all_subjects:
                choice = choice_for(subject, Against(), found)
                if choice.version is None:
                    continue
                judged = select(AssayRow.id).where(
                    AssayRow.run == RunRow.id, AssayRow.golden == choice.golden, AssayRow.version == choice.version
                )
                query = select(RunRow).where(subject.condition, ~judged.exists()).order_by(RunRow.number.desc())
                questions += [
                    Question(
                        run=Run.from_row(row),
                        golden=choice.golden,
                        version=choice.version,
                        golden_digest=found[choice.golden].digest(choice.version) or "",
                        choice=choice,
                    )
                    for row in session.scalars(query.limit(limit))
                ]
        return sorted(questions, key=lambda question: question.run.number, reverse=True)[:limit]

    def close(self) -> None:
        """Lets what is being computed finish, and starts nothing more."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _work(self, question: Question) -> bool:
        if self._is_known(question):
            return True
        with self._claims.held(question.id) as mine:
            if not mine:
                return False
            if not self._is_known(question):
                started = time.monotonic()
                assay = compute(question, self._store, self._runs)
                remember(self._database, question, assay, holder=self._claims.holder)
                seconds, verdict = time.monotonic() - started, str(assay.verdict)
                count_assay(verdict, seconds)
                log.info("assayed", assay=question.id, run=question.run.id, verdict=verdict, seconds=round(seconds, 3))
        return True

    def _is_known(self, question: Question) -> bool:
        with self._database.read() as session:
            return session.scalar(select(AssayRow.id).where(AssayRow.id == question.id)) is not None


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _nothing(choice: Choice, request: Against, run: Run) -> GradassayError:
    reasons, skipped = "; ".join(choice.reasons), "; ".join(choice.skipped)
    if request.version is not None:
        return NotFound(reasons, hint="GET /api/v1/goldens/{name}/versions lists them", golden=choice.golden)
    return NoGolden(
        f"run {run.id}: no golden to compare with: {reasons}",
        hint=f"propose a version of {choice.golden}, or approve one, or name one to compare with: against=v3",
        golden=choice.golden,
        channel=request.channel,
        reasons=reasons,
        skipped=skipped,
    )
