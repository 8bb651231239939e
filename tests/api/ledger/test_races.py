"""Reviewers who decide at the same moment: exactly one wins, and the others are told who did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from gradassay.api.database.database import Database
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.standing import Status
from gradassay.goldens.errors import Conflict
from gradassay.goldens.store.directory import DirectoryStore

NAME = "toy.float32"
REVIEWERS = 8
Propose = Callable[..., int]


@pytest.fixture
def replicas(url: str, store: DirectoryStore):
    """A ledger for each reviewer, each with connections of its own, as replicas have."""
    databases = [Database(url) for _ in range(REVIEWERS)]
    yield [Ledger(database, store) for database in databases]
    for database in databases:
        database.close()


def winner(answers: list[Entry | Exception]) -> Entry:
    """The only decision that counted; every other answer is a Conflict that names who made it."""
    won = [answer for answer in answers if isinstance(answer, Entry)]
    assert len(won) == 1, answers
    for answer in answers:
        if answer is not won[0]:
            assert isinstance(answer, Conflict), answer
            assert won[0].who in answer.message
            assert f"{won[0].at:%H:%M:%S}" in answer.message
    return won[0]


def decisions(replicas: list[Ledger], choose: Callable[[int], tuple[int, Decision]], expected: int | None):
    """One call a reviewer: to decide about the chosen version in the chosen way."""

    def call(number: int) -> Callable[[], Entry]:
        version, decision = choose(number)
        said = {"who": f"reviewer-{number}", "why": f"reason {number}"}
        return lambda: replicas[number].decide(NAME, version, decision, expected_version=expected, **said)

    return [call(number) for number in range(REVIEWERS)]


@pytest.mark.parametrize("expected", [1, None])
def test_approve_against_reject(replicas, ledger, store, propose: Propose, at_once, expected: int | None):
    propose(1, 2)
    ledger.decide(NAME, 1, Decision.APPROVE, who="ada", why="start")
    either = [Decision.APPROVE, Decision.REJECT]
    won = winner(at_once(decisions(replicas, lambda number: (2, either[number % 2]), expected)))
    approved = won.action is Action.APPROVED
    assert ledger.version(NAME, 2).status is (Status.APPROVED if approved else Status.REJECTED)
    assert ledger.channels(NAME) == {"approved": 2 if approved else 1}
    assert store.find_golden(NAME).version == (2 if approved else 1)


def test_approvals_of_several_versions(replicas, ledger, store, propose: Propose, at_once):
    propose(*range(1, REVIEWERS + 2))
    ledger.decide(NAME, 1, Decision.APPROVE, who="ada", why="start")
    won = winner(at_once(decisions(replicas, lambda number: (number + 2, Decision.APPROVE), 1)))
    assert ledger.channels(NAME) == {"approved": won.version}
    assert store.find_golden(NAME).version == won.version


def test_first_approvals_of_a_golden(replicas, ledger, propose: Propose, at_once):
    propose(*range(1, REVIEWERS + 1))
    won = winner(at_once(decisions(replicas, lambda number: (number + 1, Decision.APPROVE), 0)))
    assert ledger.channels(NAME) == {"approved": won.version}


def test_approvals_that_expect_nothing_all_count_and_the_store_ends_where_the_ledger_does(
    replicas, ledger, store, propose: Propose, at_once
):
    propose(*range(1, REVIEWERS + 1))
    answers = at_once(decisions(replicas, lambda number: (number + 1, Decision.APPROVE), None))
    assert all(isinstance(answer, Entry) for answer in answers), answers
    last = max(answers, key=lambda entry: entry.number)
    assert ledger.channels(NAME) == {"approved": last.version}
    ledger.reconcile()
    assert store.find_golden(NAME).version == last.version
    assert ledger.channels(NAME) == {"approved": last.version}
    assert Counter(entry.action for entry in ledger.entries("default").items)[Action.SUPERSEDED] == REVIEWERS - 1


def test_undo_against_undo_and_approval(replicas, ledger, propose: Propose, at_once):
    propose(1, 2, 3)
    ledger.decide(NAME, 1, Decision.APPROVE, who="ada", why="start")
    second = ledger.decide(NAME, 2, Decision.APPROVE, who="ada", why="more")

    def call(number: int) -> Callable[[], Entry]:
        said = {"who": f"reviewer-{number}", "why": "because"}
        if number % 2:
            return lambda: replicas[number].decide(NAME, 3, Decision.APPROVE, expected_version=2, **said)
        return lambda: replicas[number].undo(second.number, **said)

    won = winner(at_once([call(number) for number in range(REVIEWERS)]))
    assert ledger.channels(NAME) == {"approved": 3 if won.action is Action.APPROVED else 1}


def test_the_same_file_proposed_by_many_is_one_version(replicas, ledger, write_golden, at_once):
    paths = [write_golden(1), write_golden(2)]
    answers = at_once(
        [
            lambda number=number: replicas[number].post(paths[number % 2], who=f"ci-{number}", project="default")
            for number in range(REVIEWERS)
        ]
    )
    assert sorted(new for _, new in answers) == [False] * (REVIEWERS - 2) + [True] * 2
    assert {version.version for version, _ in answers} == {1, 2}
    assert len(ledger.entries("default").items) == 2


def test_a_name_wanted_by_several_projects_at_once_goes_to_one(replicas, ledger, store, write_golden, at_once):
    path = write_golden(1)
    answers = at_once(
        [
            lambda number=number: replicas[number].propose(path, who="ci", project=f"team-{number}")
            for number in range(REVIEWERS)
        ]
    )
    assert len([answer for answer in answers if not isinstance(answer, Exception)]) == 1
    assert len(ledger.goldens("*")) == len(store.goldens()) == 1
