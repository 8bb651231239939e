"""The ledger alone says where channels point: whatever is done, replaying its entries gives the rows that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.database.tables import ChannelRow
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.entry import Action
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.rows import entries_of
from gradassay.api.ledger.standing import Status, replay
from gradassay.goldens.errors import Conflict, UsageError
from gradassay.goldens.store.directory import DirectoryStore

NAME = "toy.float32"
VERSIONS = 3
CHANNELS = ("approved", "nightly")

decision = st.tuples(
    st.sampled_from(Decision),
    st.integers(1, VERSIONS),
    st.sampled_from(CHANNELS),
    st.sampled_from(("ada", "bob", "cyd")),
    st.one_of(st.none(), st.integers(0, VERSIONS)),
)
undo = st.tuples(st.just("undo"), st.integers(1, 25))
direct = st.tuples(st.just("direct"), st.integers(0, VERSIONS), st.sampled_from(CHANNELS))
steps = st.lists(st.one_of(decision, decision, undo, direct), max_size=14)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=steps, reviewers=st.integers(1, 2))
def test_replaying_the_entries_gives_the_channels(
    steps: list, reviewers: int, write_golden: Callable[..., Path], tmp_path_factory
):
    folder = tmp_path_factory.mktemp("replay")
    database, store = Database(f"sqlite:///{folder}/service.db"), DirectoryStore(folder / "store")
    upgrade(database)
    ledger = Ledger(database, store, reviewers=reviewers)
    for variant in range(1, VERSIONS + 1):
        ledger.propose(write_golden(variant), who="ci", project="default")
    for step in steps:
        before = ledger.entries("default", limit=200).items
        try:
            do(ledger, store, step)
        except (Conflict, UsageError):
            assert ledger.entries("default", limit=200).items == before
        assert_whole(database, ledger)
        after = ledger.entries("default", limit=200).items
        assert after[len(after) - len(before) :] == before
    ledger.reconcile()
    assert_whole(database, ledger)
    in_store = {channel: version.version for version in store.goldens(NAME) for channel in version.channels}
    assert in_store == ledger.channels(NAME)
    assert ledger.reconcile() == []
    database.close()


def do(ledger: Ledger, store: DirectoryStore, step: tuple) -> None:
    if step[0] == "undo":
        number = step[1]
        if number <= len(ledger.entries("default", limit=200).items):
            ledger.undo(number, who="ada")
    elif step[0] == "direct":
        _, version, channel = step
        if version:
            store.approve(NAME, version, channel=channel, who="eve", why="directly")
        else:
            store.withdraw(NAME, channel=channel, who="eve", why="directly")
        ledger.reconcile()
    else:
        chosen, version, channel, who, expected = step
        ledger.decide(NAME, version, chosen, channel=channel, who=who, why="because", expected_version=expected)


def assert_whole(database: Database, ledger: Ledger) -> None:
    with database.read() as session:
        entries = entries_of(session, NAME)
        rows = {row.channel: (row.version, row.entry) for row in session.scalars(select(ChannelRow))}
    standing = replay(entries)
    for channel, (version, number) in rows.items():
        in_effect = standing.in_effect(channel)
        assert (version, number) == (standing.points(channel), in_effect.number if in_effect else 0)
    assert ledger.channels(NAME) == standing.channels
    pointed: dict[str, int] = {}
    for entry in entries:
        if entry.channel and entry.action in (Action.APPROVED, Action.ADOPTED, Action.UNDONE, Action.ENDORSED):
            if entry.previous is not None:
                assert entry.previous == pointed.get(entry.channel, 0)
            if entry.previous is not None and entry.action is not Action.ENDORSED:
                pointed[entry.channel] = entry.version or 0
    for version in range(1, VERSIONS + 1):
        status = standing.status(version)
        assert (status is Status.APPROVED) == (version in standing.channels.values())
        assert version not in standing.rejected or status is Status.REJECTED
        assert (version in standing.reachable()) >= (status is Status.APPROVED)
