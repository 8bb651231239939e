"""What was done in the store directly, what a killed process left undone, and a store that does not follow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.ledger import mirror
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.standing import Status
from gradassay.goldens.errors import NoGolden, StoreError
from gradassay.goldens.store.directory import DirectoryStore

NAME = "toy.float32"
Propose = Callable[..., int]
Write = Callable[..., Path]


def approve(ledger: Ledger, version: int, **options):
    return ledger.decide(NAME, version, Decision.APPROVE, who="ada", why="because", **options)


def history(ledger: Ledger) -> list[tuple[str, int | None, str | None]]:
    entries = reversed(ledger.entries("*").items)
    return [(str(entry.action), entry.version, entry.channel) for entry in entries]


class Disconnected(DirectoryStore):
    """A store whose channels cannot be changed."""

    def approve(self, *arguments, **options):
        raise StoreError("disconnected")

    def withdraw(self, *arguments, **options):
        raise StoreError("disconnected")


@pytest.fixture
def cut_off(database: Database, store: DirectoryStore) -> Ledger:
    """The ledger while its store's channels cannot be changed."""
    return Ledger(database, Disconnected(store.folder))


def test_what_the_command_line_kept_is_adopted_once(ledger: Ledger, store: DirectoryStore, write_golden: Write):
    stored = [store.put_golden(write_golden(variant)) for variant in (1, 2, 3)]
    store.approve(NAME, 1, who="ada", why="first")
    store.approve(NAME, 2, who="bob", why="second")
    store.approve(NAME, 1, channel="nightly", who="bob", why="trial")
    assert ledger.adopt() == 6
    assert ledger.adopt() == 0
    assert ledger.channels(NAME) == {"approved": 2, "nightly": 1}
    versions = ledger.versions(NAME)
    assert [version.status for version in versions] == [Status.APPROVED, Status.APPROVED, Status.PROPOSED]
    assert {version.project for version in versions} == {"default"}
    assert [version.digest for version in versions] == [version.digest for version in stored]
    moved = [entry for entry in ledger.entries("default").items if entry.channel == "approved"]
    assert [(entry.who, entry.why, entry.previous) for entry in moved] == [("bob", "second", 1), ("ada", "first", 0)]
    assert [entry.at.isoformat(timespec="microseconds").replace("+00:00", "Z") for entry in reversed(moved)] == [
        approval.when for approval in store.approvals(NAME) if approval.channel == "approved"
    ]
    assert ledger.reconcile() == []


def test_adopted_approvals_can_be_undone(ledger: Ledger, store: DirectoryStore, write_golden: Write):
    store.put_golden(write_golden(1))
    store.approve(NAME, 1, who="ada", why="first")
    ledger.adopt()
    ledger.undo(ledger.entries("default").items[0].number, who="bob", why="oops")
    assert ledger.channels(NAME) == {}
    with pytest.raises(NoGolden):
        store.find_golden(NAME)
    assert ledger.reconcile() == []


def test_a_later_approval_by_the_command_line_is_adopted(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, 2)
    approve(ledger, 1)
    store.approve(NAME, 2, who="bob", why="directly")
    assert ledger.reconcile() == []
    assert ledger.channels(NAME) == {"approved": 2}
    assert history(ledger)[-1] == ("adopted", 2, "approved")
    assert ledger.adopt() == 0


def test_a_withdrawal_by_others_is_adopted(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1)
    approve(ledger, 1)
    store.withdraw(NAME, channel="approved", who="bob", why="directly")
    assert ledger.adopt() == 1
    assert ledger.channels(NAME) == {}
    assert ledger.version(NAME, 1).status is Status.SUPERSEDED


def test_with_two_reviewers_a_direct_approval_is_put_back(two: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, 2)
    for who in ("ada", "bob"):
        two.decide(NAME, 1, Decision.APPROVE, who=who, why="because")
    store.approve(NAME, 2, who="eve", why="directly")
    assert two.reconcile() == ["golden toy.float32: approved pointed to v2 in the store, the ledger says v1"]
    assert two.channels(NAME) == {"approved": 1}
    assert store.find_golden(NAME).version == 1
    assert two.reconcile() == []


def test_a_store_that_cannot_follow_does_not_lose_the_decision(
    cut_off: Ledger, ledger: Ledger, store: DirectoryStore, propose: Propose
):
    propose(1)
    approve(cut_off, 1)
    assert cut_off.channels(NAME) == {"approved": 1}
    assert not store.approvals(NAME)
    assert ledger.reconcile() == ["golden toy.float32: approved pointed to no version in the store, the ledger says v1"]
    assert store.find_golden(NAME).version == 1
    cut_off.undo(cut_off.entries("default").items[0].number, who="bob")
    assert store.find_golden(NAME).version == 1
    assert ledger.reconcile() == ["golden toy.float32: approved pointed to v1 in the store, the ledger says no version"]
    assert ledger.reconcile() == []
    assert history(ledger) == [("proposed", 1, None), ("approved", 1, "approved"), ("undone", 0, "approved")]


def test_what_was_approved_directly_before_a_later_decision_does_not_count(
    cut_off: Ledger, ledger: Ledger, store: DirectoryStore, propose: Propose
):
    propose(1, 2, 3)
    approve(ledger, 1)
    store.approve(NAME, 3, who="bob", why="directly")
    approve(cut_off, 2)
    assert len(ledger.reconcile()) == 1
    assert ledger.channels(NAME) == {"approved": 2}
    assert store.find_golden(NAME).version == 2


def test_a_new_database_learns_everything_from_the_store(
    ledger: Ledger, store: DirectoryStore, propose: Propose, tmp_path: Path
):
    propose(1, 2, 3)
    first = approve(ledger, 1)
    approve(ledger, 2)
    ledger.undo(ledger.entries("default").items[1].number, who="bob")
    assert ledger.channels(NAME) == {"approved": 1}
    database = Database(f"sqlite:///{tmp_path}/new.db")
    upgrade(database)
    new = Ledger(database, store)
    assert new.reconcile() == []
    assert new.channels(NAME) == {"approved": 1}
    assert len(new.versions(NAME)) == 3
    assert first.version == 1
    database.close()


def test_a_damaged_file_is_left_out_and_the_rest_adopted(ledger: Ledger, store: DirectoryStore, write_golden: Write):
    for variant in (1, 2):
        store.put_golden(write_golden(variant))
    damaged = store.golden_path(NAME, 1)
    content = damaged.read_bytes()
    damaged.write_bytes(b"damaged")
    store.approve(NAME, 2, who="ada", why="first")
    assert ledger.adopt() == 2
    assert [version.version for version in ledger.versions(NAME)] == [2]
    damaged.write_bytes(content)
    assert ledger.adopt() == 1


KILLED = {
    "before the file": ("gradassay.goldens.store.directory.DirectoryStore.put_golden", 0),
    "before the row": ("gradassay.api.ledger.proposing._add", 1),
    "before the commit": ("gradassay.api.ledger.proposing.append", 1),
    "before the answer": ("gradassay.api.ledger.ledger.Ledger.version", 1),
}
PROGRAM = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
from gradassay.api.database.database import Database
from gradassay.api.ledger.ledger import Ledger
from gradassay.goldens.store.directory import DirectoryStore
url, folder, golden, where = sys.argv[1:]
parts = where.split(".")
owner = next(m for n in (len(parts) - 1, len(parts) - 2) for m in [sys.modules.get(".".join(parts[:n]))] if m)
for part in parts[len(owner.__name__.split(".")):-1]:
    owner = getattr(owner, part)
setattr(owner, parts[-1], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
Ledger(Database(url), DirectoryStore(Path(folder))).propose(Path(golden), who="ci", project="team", why="new")
"""


@pytest.mark.parametrize("moment", KILLED)
def test_a_proposal_that_was_killed_is_whole_or_not_there(
    url: str, ledger: Ledger, store: DirectoryStore, write_golden: Write, moment: str
):
    where, kept = KILLED[moment]
    path = write_golden()
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, str(store.folder), str(path), where], env=os.environ, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(store.goldens()) == kept
    ledger.adopt()
    assert ledger.goldens("default") == []
    assert len(ledger.goldens("team")) == kept
    version = ledger.propose(path, who="ci", project="team", why="again")
    assert (version.version, version.proposed_by, version.project) == (1, "ci", "team")
    assert len(store.goldens()) == 1
    assert len([entry for entry in ledger.entries("team").items if entry.action is Action.PROPOSED]) == 1


def test_channel_that_cannot_be_repaired_keeps_no_other_from_it(ledger, store, propose, monkeypatch):
    propose(1, 2)
    for channel, version in (("approved", 1), ("nightly", 2)):
        ledger.decide(NAME, version, Decision.APPROVE, channel=channel, who="ada", why="because")
        store.withdraw(NAME, channel=channel, who="ada", why="lost")
    mirrored = mirror.mirror

    def fail(*arguments: Any) -> bool:
        if arguments[-1] == "approved":
            raise StoreError("damaged")
        return mirrored(*arguments)

    monkeypatch.setattr(ledger, "adopt", lambda: 0)
    monkeypatch.setattr(mirror, "mirror", fail)
    assert ledger.reconcile() == [f"golden {NAME}: nightly pointed to no version in the store, the ledger says v2"]
