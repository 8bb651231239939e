"""Revisions up and down on SQLite and on a real Postgres, and by several processes at once."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import IntegrityError

from gradassay.api.database.database import Database
from gradassay.api.database.migrate import configuration, downgrade, newest, revision, upgrade
from gradassay.api.database.tables import FindingRow, Table, TokenRow
from gradassay.goldens.errors import UsageError


def test_models_and_revisions_agree(database: Database):
    assert upgrade(database) == newest()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "target_metadata": Table.metadata}
        )
        assert compare_metadata(context, Table.metadata) == []


def test_foreign_keys_are_the_models(database: Database):
    upgrade(database)
    found = inspect(database.engine)
    for table in Table.metadata.sorted_tables:
        theirs = {
            (tuple(key["constrained_columns"]), key["referred_table"], key["options"].get("ondelete"))
            for key in found.get_foreign_keys(table.name)
        }
        ours = {
            (tuple(key.column_keys), key.referred_table.name, key.ondelete) for key in table.foreign_key_constraints
        }
        assert theirs == ours


def test_every_revision_goes_down_and_up_again(database: Database):
    scripts = ScriptDirectory.from_config(configuration())
    revisions = [script.revision for script in scripts.walk_revisions()]
    upgrade(database)
    for older in [*revisions[1:], "base"]:
        assert downgrade(database, older) == older
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    assert revision(database) == "base"
    assert upgrade(database) == newest()
    assert {table.name for table in Table.metadata.sorted_tables} <= set(inspect(database.engine).get_table_names())


def test_what_is_kept_survives_an_upgrade_that_has_nothing_to_do(database: Database):
    upgrade(database)
    made = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
    token = {"id": "1", "name": "ci", "hash": "h", "project": "*", "scopes": ["post"], "created_by": "ada"}
    with database.write() as session:
        session.add(TokenRow(**token, created_at=made))
    upgrade(database)
    with database.read() as session:
        kept = session.scalars(select(TokenRow)).one()
    assert (kept.name, kept.scopes, kept.created_at) == ("ci", ["post"], made)


def test_a_finding_needs_its_assay(database: Database):
    upgrade(database)
    finding = {"position": 0, "law": "l", "families": [], "pattern": "uniform", "formula": "w = 2", "count": 1, "of": 1}
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(FindingRow(assay="none", **finding, known_faults=[], parameters=[]))


def test_replicas_that_start_at_once_migrate_once(url: str):
    program = "import sys; from gradassay.api.database.database import Database\n"
    program += "from gradassay.api.database.migrate import upgrade; print(upgrade(Database(sys.argv[1])))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    ended = [(process.communicate(timeout=120), process.returncode) for process in started]
    assert [code for _, code in ended] == [0] * 4, ended
    assert {out.strip() for (out, _), _ in ended} == {newest()}


def test_threads_that_start_at_once_migrate_once(url: str):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: upgrade(Database(url)), range(8))) == {newest()}


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(database: Database):
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE tokens (id INTEGER)"))
    with pytest.raises(UsageError, match="tokens"):
        upgrade(database)
    assert inspect(database.engine).get_table_names() == ["tokens"]


def test_a_database_of_a_newer_release_is_left_alone(database: Database):
    upgrade(database)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UsageError, match="9999") as refused:
        upgrade(database)
    assert newest() in refused.value.message
    assert "newer" in refused.value.hint


def test_a_database_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path):
    for url, part in (
        ("postgresql+psycopg://ada:hunter2@127.0.0.1:1/nowhere", "127.0.0.1"),
        (f"sqlite:///{tmp_path}", tmp_path.name),
    ):
        with pytest.raises(UsageError, match=part) as refused:
            upgrade(Database(url))
        assert "hunter2" not in str(refused.value)
