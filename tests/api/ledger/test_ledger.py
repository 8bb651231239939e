"""What people can do with versions, on SQLite and on a real Postgres."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.standing import Status
from gradassay.goldens.errors import Conflict, InvalidFile, NoGolden, NotFound, StoreError, UsageError
from gradassay.goldens.store.directory import DirectoryStore

NAME = "toy.float32"
Propose = Callable[..., int]
Write = Callable[..., Path]


def actions(ledger: Ledger) -> list[str]:
    """What was done, oldest first."""
    return [str(entry.action) for entry in reversed(ledger.entries("default").items)]


def approve(ledger: Ledger, version: int, *, who: str = "ada", why: str = "because", **options):
    return ledger.decide(NAME, version, Decision.APPROVE, who=who, why=why, **options)


def reject(ledger: Ledger, version: int, *, who: str = "bob", why: str = "too noisy", **options):
    return ledger.decide(NAME, version, Decision.REJECT, who=who, why=why, **options)


def test_proposed_version_says_what_it_is(ledger: Ledger, store: DirectoryStore, write_golden: Write):
    path = write_golden()
    version, new = ledger.post(path, who="ci", project="default", why="new data")
    assert new
    assert (version.name, version.version, version.status) == (NAME, 1, Status.PROPOSED)
    assert (version.proposed_by, version.why, version.channels) == ("ci", "new data", ())
    assert abs(datetime.now(UTC) - version.proposed_at) < timedelta(minutes=1)
    assert version.facts["units"] == [512] * 4
    assert version.facts["families"]["dense"] == {"parameters": 1, "elements": 32}
    assert version.facts["references"][0]["strategy"] == "fsdp2"
    assert version.facts["power"]["dense"] > 1
    assert store.golden_path(NAME, 1).read_bytes() == path.read_bytes()
    assert ledger.channels(NAME) == {}


def test_the_same_content_is_proposed_once(ledger: Ledger, write_golden: Write):
    first = ledger.post(write_golden(), who="ci", project="default")
    again = ledger.post(write_golden(), who="somebody", project="default")
    assert (first[1], again[1]) == (True, False)
    assert first[0] == again[0]
    assert actions(ledger) == ["proposed"]


def test_refused_file_leaves_nothing(ledger: Ledger, store: DirectoryStore, tmp_path: Path, write_golden: Write):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(write_golden().read_bytes()[:-50])
    with pytest.raises(InvalidFile, match="truncated"):
        ledger.propose(broken, who="ci", project="default")
    with pytest.raises(InvalidFile, match="printable"):
        ledger.propose(write_golden(name="a\0b"), who="ci", project="default")
    with pytest.raises(UsageError, match="200"):
        ledger.propose(write_golden(name="a" * 300), who="ci", project="default")
    assert not store.goldens()
    assert ledger.goldens("*") == []
    assert ledger.propose(write_golden(), who="ci", project="other").project == "other"


def test_a_name_belongs_to_the_project_that_proposed_it_first(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, project="team")
    with pytest.raises(NotFound, match="'default'"):
        propose(2, project="default")
    assert len(store.goldens()) == 1
    assert [golden.name for golden in ledger.goldens("team")] == [NAME]
    assert ledger.goldens("default") == []
    assert [golden.project for golden in ledger.goldens("*")] == ["team"]
    assert ledger.entries("default").items == ()


def test_a_name_of_the_store_belongs_to_the_default_project(
    ledger: Ledger, store: DirectoryStore, propose: Propose, write_golden: Write
):
    store.put_golden(write_golden(1))
    with pytest.raises(NotFound, match="'team'"):
        propose(2, project="team")
    assert [version.proposed_by for version in ledger.versions(NAME)] == ["the store"]
    assert propose(2, project="default") == 2


def test_approval_points_the_channel_and_the_store_follows(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, 2)
    first = approve(ledger, 1, expected_version=0)
    assert (first.action, first.previous, first.version, first.channel) == (Action.APPROVED, 0, 1, "approved")
    second = approve(ledger, 2, who="bob", why="more references", expected_version=1, cause="torch 2.13")
    assert (second.previous, second.version, second.who, second.cause) == (1, 2, "bob", "torch 2.13")
    assert ledger.channels(NAME) == {"approved": 2}
    assert store.find_golden(NAME).version == 2
    assert store.approvals(NAME)[1].who == "bob"
    assert [version.status for version in ledger.versions(NAME)] == [Status.SUPERSEDED, Status.APPROVED]
    assert actions(ledger) == ["proposed", "proposed", "approved", "approved", "superseded"]
    superseded = ledger.entries("default").items[0]
    assert (superseded.version, superseded.why) == (1, "replaced by v2: more references")
    golden = ledger.golden(NAME)
    assert (golden.versions, golden.waiting, golden.latest.version) == (2, 0, 2)


def test_channels_are_independent(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, 2)
    approve(ledger, 1)
    approve(ledger, 2, channel="nightly")
    assert ledger.channels(NAME) == {"approved": 1, "nightly": 2}
    assert store.find_golden(NAME, channel="nightly").version == 2
    assert ledger.version(NAME, 2).channels == ("nightly",)
    approve(ledger, 2)
    assert ledger.version(NAME, 2).channels == ("approved", "nightly")
    assert set(ledger.version(NAME, 2).approved_in) == {"approved", "nightly"}


def test_another_version_than_expected_is_a_conflict_that_says_who_when_and_why(ledger: Ledger, propose: Propose):
    propose(1, 2, 3)
    approve(ledger, 1)
    moved = approve(ledger, 2, who="bob", why="more references")
    with pytest.raises(
        Conflict, match=r"points to v2, not to v1: entry \d+, approved by bob on .*: more ref"
    ) as refused:
        approve(ledger, 3, expected_version=1)
    assert f"{moved.at:%Y-%m-%d at %H:%M:%S}" in refused.value.message
    assert (refused.value.facts["expected"], refused.value.facts["present"]) == (1, 2)
    with pytest.raises(Conflict, match="points to v2, not to no version"):
        reject(ledger, 3, expected_version=0)
    assert ledger.channels(NAME) == {"approved": 2}


def test_a_decided_version_is_not_decided_again(ledger: Ledger, propose: Propose):
    propose(1, 2)
    approve(ledger, 1)
    rejection = reject(ledger, 2)
    assert ledger.version(NAME, 2).status is Status.REJECTED
    assert ledger.version(NAME, 2).rejected == rejection
    for again in (approve, reject):
        with pytest.raises(Conflict, match=r"v2 was rejected by bob on .*: too noisy") as refused:
            again(ledger, 2)
        assert str(rejection.number) in refused.value.hint
        with pytest.raises(Conflict, match=r"v1 is approved already: entry .*approved by ada"):
            again(ledger, 1, expected_version=1)
    assert actions(ledger) == ["proposed", "proposed", "approved", "rejected"]


def test_a_decision_says_who_and_why(ledger: Ledger, propose: Propose):
    propose(1)
    for decide in (approve, reject):
        with pytest.raises(UsageError, match="say why"):
            decide(ledger, 1, why="  ")
        with pytest.raises(UsageError, match="say who"):
            decide(ledger, 1, who="")
    with pytest.raises(UsageError, match="latest"):
        approve(ledger, 1, channel="latest")
    assert actions(ledger) == ["proposed"]


def test_what_is_not_there_is_named(ledger: Ledger, propose: Propose):
    propose(1, 2)
    for call in (lambda: approve(ledger, 7), lambda: reject(ledger, 7), lambda: ledger.version(NAME, 7)):
        with pytest.raises(NotFound, match="no v7") as refused:
            call()
        assert "v1, v2" in refused.value.hint
    for name in ("nobody", "nobody\0", "", "x" * 5000):
        for call in (ledger.golden, ledger.versions, lambda name: ledger.version(name, 1)):
            with pytest.raises(NotFound, match=r"nobody|''|xxx"):
                call(name)
    for call in (ledger.entry, lambda number: ledger.undo(number, who="ada")):
        with pytest.raises(NotFound, match="999"):
            call(999)


def test_a_version_whose_file_is_damaged_is_not_approved(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1)
    store.golden_path(NAME, 1).write_bytes(b"damaged")
    with pytest.raises((InvalidFile, StoreError), match="digest"):
        approve(ledger, 1)
    assert ledger.channels(NAME) == {}
    assert reject(ledger, 1).action is Action.REJECTED


def test_undoing_an_approval_points_back(ledger: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, 2)
    first, second = approve(ledger, 1), approve(ledger, 2)
    undone = ledger.undo(second.number, who="cyd", why="wrong version")
    assert (undone.action, undone.undoes, undone.previous, undone.version) == (Action.UNDONE, second.number, 2, 1)
    assert ledger.channels(NAME) == {"approved": 1}
    assert store.find_golden(NAME).version == 1
    assert [version.status for version in ledger.versions(NAME)] == [Status.APPROVED, Status.PROPOSED]
    ledger.undo(first.number, who="cyd")
    assert ledger.channels(NAME) == {}
    with pytest.raises(NoGolden):
        store.find_golden(NAME)
    assert approve(ledger, 2, expected_version=0).previous == 0
    assert store.find_golden(NAME).version == 2


def test_undo_compares_and_sets(ledger: Ledger, propose: Propose):
    propose(1, 2, 3)
    first = approve(ledger, 1)
    second = approve(ledger, 2, who="bob")
    with pytest.raises(Conflict, match=r"no longer what approved stands on: entry .*approved by bob"):
        ledger.undo(first.number, who="cyd")
    ledger.undo(second.number, who="cyd", why="oops")
    with pytest.raises(Conflict, match=r"undone by cyd on .*oops"):
        ledger.undo(second.number, who="ada")
    approve(ledger, 3)
    with pytest.raises(Conflict, match="undone by cyd"):
        ledger.undo(second.number, who="ada")
    assert ledger.channels(NAME) == {"approved": 3}


def test_undo_never_points_at_a_version_that_was_rejected_since(ledger: Ledger, propose: Propose):
    propose(1, 2)
    approve(ledger, 1)
    second = approve(ledger, 2)
    rejection = reject(ledger, 1, why="was wrong all along")
    with pytest.raises(Conflict, match=r"v1, which approved would point to again, was rejected by bob.*all along"):
        ledger.undo(second.number, who="ada")
    ledger.undo(rejection.number, who="ada")
    ledger.undo(second.number, who="ada")
    assert ledger.channels(NAME) == {"approved": 1}


def test_undoing_a_rejection_opens_the_version_again(ledger: Ledger, propose: Propose):
    propose(1)
    rejection = reject(ledger, 1)
    assert ledger.golden(NAME).waiting == 0
    undone = ledger.undo(rejection.number, who="ada", why="wrong tab")
    assert (undone.action, undone.version, undone.channel) == (Action.UNDONE, 1, None)
    assert ledger.golden(NAME).waiting == 1
    with pytest.raises(Conflict, match="undone by ada"):
        ledger.undo(rejection.number, who="bob")
    assert approve(ledger, 1).action is Action.APPROVED


def test_only_decisions_can_be_undone(ledger: Ledger, propose: Propose):
    propose(1)
    undone = ledger.undo(approve(ledger, 1).number, who="ada")
    proposed = ledger.entries("default").items[-1]
    for entry in (proposed, undone):
        with pytest.raises(UsageError, match=f"entry {entry.number} .* cannot be undone"):
            ledger.undo(entry.number, who="ada")


def test_two_reviewers_are_two_people(two: Ledger, store: DirectoryStore, propose: Propose):
    propose(1, who="ada")
    first = approve(two, 1, who="ada", why="mine, and good")
    assert (first.action, first.channel) == (Action.ENDORSED, "approved")
    version = two.version(NAME, 1)
    assert (version.status, [entry.who for entry in version.endorsed]) == (Status.ENDORSED, ["ada"])
    assert two.channels(NAME) == {}
    with pytest.raises(NoGolden):
        store.find_golden(NAME)
    with pytest.raises(Conflict, match=r"endorsed by ada on .*another person"):
        approve(two, 1, who="ada")
    assert approve(two, 1, who="bob").action is Action.APPROVED
    assert store.find_golden(NAME).version == 1
    assert two.version(NAME, 1).endorsed == ()


def test_a_first_approval_counts_until_its_channel_moves(two: Ledger, propose: Propose):
    propose(1, 2)
    approve(two, 1, who="ada")
    approve(two, 2, who="ada")
    approve(two, 2, who="bob")
    assert two.version(NAME, 1).status is Status.PROPOSED
    assert approve(two, 1, who="bob").action is Action.ENDORSED
    assert two.channels(NAME) == {"approved": 2}


def test_a_first_approval_can_be_undone_and_the_rejected_is_not_approved(two: Ledger, propose: Propose):
    propose(1)
    endorsed = approve(two, 1, who="ada")
    two.undo(endorsed.number, who="ada")
    assert two.version(NAME, 1).status is Status.PROPOSED
    endorsed = approve(two, 1, who="ada")
    reject(two, 1)
    with pytest.raises(Conflict, match="rejected by bob"):
        approve(two, 1, who="cyd")
    assert two.version(NAME, 1).status is Status.REJECTED


def test_a_first_approval_that_became_an_approval_is_not_undone(two: Ledger, propose: Propose):
    propose(1)
    endorsed = approve(two, 1, who="ada")
    approve(two, 1, who="bob")
    with pytest.raises(Conflict, match=r"no longer counts: entry .*approved by bob"):
        two.undo(endorsed.number, who="ada")


def test_entries_come_in_pages_newest_first(ledger: Ledger, propose: Propose):
    propose(*range(1, 6))
    propose(1, name="other")
    first = ledger.entries("default", golden=NAME, limit=3)
    second = ledger.entries("default", golden=NAME, before=first.next, limit=3)
    numbers = [entry.number for page in (first, second) for entry in page.items]
    assert numbers == sorted(numbers, reverse=True)
    assert [entry.version for page in (first, second) for entry in page.items] == [5, 4, 3, 2, 1]
    assert second.next is None
    assert len(ledger.entries("*").items) == 6
    assert ledger.entries("default", limit=6).next is None


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
def test_entries_of_what_is_no_text_are_none(ledger: Ledger, text: str):
    assert ledger.entries("default", golden=text).items == ()
    assert ledger.entries("default", who=text).items == ()
