"""What only the MLflow store does: what MLflow shows, garbage collection, silence, and servers that are not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.errors import GradassayError, InvalidFile, MissingExtra, StoreError, Unreachable
from gradassay.goldens.store.approval import Approval
from gradassay.goldens.store.mlflow import MlflowStore
from gradassay.goldens.store.mlflow_client import Connection
from gradassay.goldens.store.mlflow_limits import LEFT_OUT, check_tags, summarise
from gradassay.goldens.store.mlflow_runs import visible_runs
from gradassay.goldens.store.mlflow_versions import LEDGER, append_version, ledger_tags, search_versions

Write = Callable[..., Path]
STORE = "mlflow-sqlite"


@pytest.fixture
def store(stores) -> MlflowStore:
    return stores(STORE)


@pytest.fixture
def connection(store: MlflowStore) -> Connection:
    """A second connection to the same database."""
    return Connection(str(store), artifacts="", cache=Path("unused"))


def test_golden_is_a_registered_model_version_with_the_channel_as_alias(
    store: MlflowStore, connection: Connection, write_golden: Write
):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 2, who="ada", why="because")
    with connection.calling() as client:
        row = client.get_model_version_by_alias(f"gradassay.{name}", "approved")
        run = client.get_run(row.run_id)
    assert int(row.version) == 2
    assert row.source == run.info.artifact_uri
    assert row.tags["gradassay.digest"] == store.find_golden(name).digest
    assert run.data.metrics["units"] == 4


def test_alias_moved_by_hand_changes_nothing_and_is_set_again(
    store: MlflowStore, connection: Connection, write_golden: Write
):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 1, who="ada", why="because")
    with connection.calling() as client:
        client.set_registered_model_alias(f"gradassay.{name}", "approved", "2")
    assert store.find_golden(name).version == 1
    store.approve(name, 1, who="ada", why="again")
    with connection.calling() as client:
        assert int(client.get_model_version_by_alias(f"gradassay.{name}", "approved").version) == 1


def test_aliases_that_others_moved_or_removed_are_repaired(
    store: MlflowStore, connection: Connection, write_golden: Write
):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    for channel in ("approved", "nightly", "weekly"):
        store.approve(name, 1, channel=channel, who="ada", why="because")
    store.withdraw(name, channel="weekly", who="ada", why="nobody uses it")
    with connection.calling() as client:
        client.set_registered_model_alias(f"gradassay.{name}", "approved", "2")
        client.delete_registered_model_alias(f"gradassay.{name}", "nightly")
        client.set_registered_model_alias(f"gradassay.{name}", "weekly", "2")
        client.set_registered_model_alias(f"gradassay.{name}", "theirs", "2")
    assert [sentence for sentence in store.repair() if name in sentence] == [
        f"golden {name}: the alias approved named v2, its ledger says v1",
        f"golden {name}: the alias nightly named no version, its ledger says v1",
        f"golden {name}: the alias weekly named v2, its ledger says no version",
    ]
    with connection.calling() as client:
        aliases = client.get_registered_model(f"gradassay.{name}").aliases
    assert {alias: int(version) for alias, version in aliases.items()} == {"approved": 1, "nightly": 1, "theirs": 2}
    assert not [sentence for sentence in store.repair() if name in sentence]


def test_deleting_frees_the_bytes_of_the_copies_made_on_approval_too(store: MlflowStore, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.approve(name, 1, who="ada", why="because")
    store.withdraw(name, channel="approved", who="ada", why="too early")
    folder = Path(str(store).removeprefix("sqlite:///")).parent
    content = write_golden(1).read_bytes()

    def copies() -> int:
        return sum(path.read_bytes() == content for path in folder.rglob("golden.safetensors"))

    assert copies() == 2
    store.delete_golden(name, 1)
    assert copies() == 0


def test_record_is_a_run_with_few_metrics_and_tags(store: MlflowStore, connection: Connection, write_record: Write):
    record = store.put_record(write_record())
    with connection.calling() as client:
        run = client.get_run(record.id)
        experiment = client.get_experiment(run.info.experiment_id)
    assert experiment.name == "gradassay-records"
    assert run.info.status == "FINISHED"
    assert set(run.data.metrics) >= {"gradient_norm", "gradient_norm.expert", "parameters"}
    assert run.data.tags["gradassay.layout"] == "dp2.accum2"
    assert LEFT_OUT not in run.data.tags
    assert len(run.data.metrics) <= 30
    assert len(run.data.tags) <= 20


def test_infinite_metric_is_named_in_a_tag_instead_of_sent(
    store: MlflowStore, connection: Connection, write_record: Write
):
    record = store.put_record(write_record(nonfinite=True))
    with connection.calling() as client:
        run = client.get_run(record.id)
    assert run.data.tags[LEFT_OUT] == "gradient_norm = inf; gradient_norm.dense = inf"
    assert "gradient_norm" not in run.data.metrics
    assert run.data.metrics["nonfinite_elements"] == 1


def test_approval_that_lost_a_race_never_counts(store: MlflowStore, connection: Connection, write_golden: Write):
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 1, who="ada", why="because")
    late = Approval(name=name, channel="approved", version=2, previous=None, who="bob", why="late", when="now")
    run = visible_runs(connection, "gradassay-approved", store.find_golden(name).digest)[0]
    append_version(connection, LEDGER + name, run, ledger_tags(late))
    assert store.find_golden(name).version == 1
    assert [entry.who for entry in store.approvals(name)] == ["ada"]
    store.approve(name, 2, who="cyd", why="after", expected=1)
    assert [entry.previous for entry in store.approvals(name)] == [None, 1]


def test_later_version_of_the_same_content_is_taken_back(
    store: MlflowStore, connection: Connection, write_golden: Write, monkeypatch: pytest.MonkeyPatch
):
    first = store.put_golden(write_golden())
    real = store._with_digest
    unseen = iter([True])

    def not_yet_visible(*which: str):
        return None if next(unseen, False) else real(*which)

    monkeypatch.setattr(store, "_with_digest", not_yet_visible)
    assert store.put_golden(write_golden()) == first
    rows, _ = search_versions(connection, first.name)
    assert [int(row.version) for row in rows] == [1]


def test_interrupted_upload_is_not_visible(
    store: MlflowStore, write_golden: Write, write_record: Write, toy, monkeypatch: pytest.MonkeyPatch
):
    from mlflow import MlflowClient

    for call in ("log_artifact", "log_batch"):
        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, call, _crash)
            for put, path in ((store.put_golden, write_golden()), (store.put_record, write_record())):
                with pytest.raises(KeyboardInterrupt):
                    put(path)
        assert not store.goldens(f"{toy.name}.float32")
        assert not [record for record in store.records() if record.problem == toy.name]
    assert store.put_golden(write_golden()).version == 1
    assert store.put_record(write_record()).problem == toy.name


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_damaged_artifact_is_refused(store: MlflowStore, write_record: Write):
    record = store.put_record(write_record())
    path = store.record_path(record.id)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(InvalidFile, match=record.digest):
        store.record_path(record.id)


def test_damaged_cache_is_fetched_again(stores, write_record: Write):
    store = stores("mlflow-server")
    path = write_record()
    record = store.put_record(path)
    cached = store.record_path(record.id)
    assert cached.parent.name == "cache"
    cached.write_bytes(b"damaged")
    assert store.record_path(record.id).read_bytes() == path.read_bytes()


def test_approved_golden_outlives_garbage_collection_and_others_do_not(tmp_path: Path, write_golden: Write):
    uri = f"sqlite:///{tmp_path}/gc/mlflow.db"
    store = MlflowStore(uri, artifacts="", cache=tmp_path / "cache")
    connection = Connection(uri, artifacts="", cache=tmp_path / "cache")
    name = store.put_golden(write_golden(1)).name
    store.put_golden(write_golden(2))
    store.approve(name, 1, who="ada", why="because")
    with connection.calling() as client:
        for run in visible_runs(connection, "gradassay-goldens"):
            client.delete_run(run.info.run_id)
    command = [sys.executable, "-m", "mlflow", "gc", "--backend-store-uri", uri]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"MLFLOW_TRACKING_URI": uri})
    assert store.golden_path(name).read_bytes() == write_golden(1).read_bytes()
    with pytest.raises(StoreError):
        store.golden_path(name, 2)


def test_tracking_uri_of_the_user_is_left_alone_and_nothing_is_printed(tmp_path: Path, write_golden: Write):
    program = (
        "import sys; from pathlib import Path; from gradassay.goldens.store.open import open_store\n"
        "store = open_store(sys.argv[1]); golden = store.put_golden(Path(sys.argv[2]))\n"
        "store.approve(golden.name, 1, who='ada', why='because'); store.golden_path(golden.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{tmp_path}/quiet/mlflow.db", write_golden()],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/other.db"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "other.db").exists()
    assert not (tmp_path / "mlruns").exists()


def test_server_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write_record: Write):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = MlflowStore(f"http://ada:secret@127.0.0.1:{port}", artifacts="", cache=tmp_path)
    for call in (store.goldens, store.records, lambda: store.put_record(write_record())):
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}: MLflow could not be reached") as refused:
            call()
        assert refused.value.code == "unreachable"
        assert "GRADASSAY_STORE" in refused.value.hint
        assert "secret" not in str(refused.value)


def test_database_that_is_not_there_says_so_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import sqlalchemy

    refused = sqlalchemy.exc.OperationalError("connect", {}, ConnectionRefusedError(111, "Connection refused"))
    monkeypatch.setattr(sqlalchemy, "create_engine", lambda *_, **__: _raise(refused))
    store = MlflowStore("postgresql+psycopg://ada:secret@nowhere/db", artifacts="files", cache=tmp_path)
    with pytest.raises(Unreachable, match=r"\*\*\*@nowhere/db") as unreachable:
        store.goldens()
    assert "secret" not in str(unreachable.value)


def test_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    store = MlflowStore("postgresql+psycopg://nowhere/db", artifacts="files", cache=tmp_path)
    with pytest.raises(MissingExtra, match=r"needs psycopg.*\n.*gradassay\[server\]"):
        store.goldens()
    monkeypatch.setitem(sys.modules, "pymysql", None)
    store = MlflowStore("mysql+pymysql://nowhere/db", artifacts="files", cache=tmp_path)
    with pytest.raises(StoreError, match="driver pymysql is not installed"):
        store.goldens()


def _raise(error: Exception) -> None:
    raise error


def test_server_that_refuses_the_host_says_so(mlflow_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import requests

    send = requests.Session.request

    def from_elsewhere(self, method, url, **options):
        options["headers"] = {**options.get("headers", {}), "Host": "elsewhere.example"}
        return send(self, method, url, **options)

    monkeypatch.setattr(requests.Session, "request", from_elsewhere)
    with pytest.raises(StoreError, match="--allowed-hosts"):
        MlflowStore(mlflow_server, artifacts="", cache=tmp_path).goldens()


def test_database_that_is_none_is_an_error_of_the_store(tmp_path: Path):
    (tmp_path / "mlflow.db").write_text("this is no database, but a text that is long enough to be taken for a header")
    with pytest.raises(StoreError, match=r"mlflow\.db"):
        MlflowStore(f"sqlite:///{tmp_path}/mlflow.db", artifacts="", cache=tmp_path).goldens()


def test_deleted_experiment_says_how_to_restore_it(tmp_path: Path, write_record: Write):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    MlflowStore(uri, artifacts="", cache=tmp_path).put_record(write_record())
    connection = Connection(uri, artifacts="", cache=tmp_path)
    with connection.calling() as client:
        client.delete_experiment(connection.experiment("gradassay-records"))
    with pytest.raises(StoreError, match="mlflow experiments restore"):
        MlflowStore(uri, artifacts="", cache=tmp_path).put_record(write_record(2))


def test_summary_keeps_to_the_limits():
    summary = summarise({f"m{number}": number for number in range(40)} | {"nan": float("nan")}, {"a": "b", "empty": ""})
    assert len(summary.metrics) == 30
    assert summary.tags["a"] == "b"
    assert "empty" not in summary.tags
    assert summary.tags[LEFT_OUT].startswith("m30: more than 30; ")
    assert "more" in summary.tags[LEFT_OUT]
    assert LEFT_OUT not in summarise({f"m{number}": 0.0 for number in range(30)}, {}).tags
    assert "bad:name" in summarise({"bad:name": 1.0}, {}).tags[LEFT_OUT]


@pytest.mark.parametrize(
    "tags",
    [{"a": "x" * 5001}, {"k" * 251: "x"}, {f"tag{number}": "x" for number in range(21)}],
    ids=["value", "key", "number"],
)
def test_tag_that_would_be_cut_is_refused(tags: dict[str, str]):
    with pytest.raises(StoreError):
        check_tags(tags)


def test_reason_too_long_for_mlflow_is_refused_before_anything_changes(store: MlflowStore, write_golden: Write):
    name = store.put_golden(write_golden()).name
    with pytest.raises(GradassayError, match="5001 characters"):
        store.approve(name, 1, who="ada", why="x" * 5001)
    assert not store.approvals(name)
