"""One store of every kind for the whole session; tests keep apart by the names of their problems."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import Toy
from gradassay.goldens.golden import Golden
from gradassay.goldens.record import Record
from gradassay.goldens.store.open import open_store
from gradassay.goldens.store.protocol import GoldenStore

KINDS = ("directory", "mlflow-sqlite", "mlflow-server")


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server on loopback, with SQLite and its own artifact serving."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | quiet, stdout=log, stderr=log, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(process, f"{address}/health", folder / "log", deadline_s=120)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path, *, deadline_s: float) -> None:
    give_up = time.monotonic() + deadline_s
    while time.monotonic() < give_up:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            break
    pytest.fail(f"mlflow server did not answer at {url}:\n{log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], GoldenStore]:
    """Opens the session's store of a kind, anew each time, as another process would."""
    folder = tmp_path_factory.mktemp("stores")

    def open_kind(kind: str) -> GoldenStore:
        addresses = {
            "directory": lambda: f"dir:{folder}/directory",
            "mlflow-sqlite": lambda: f"sqlite:///{folder}/sqlite/mlflow.db",
            "mlflow-server": lambda: request.getfixturevalue("mlflow_server"),
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRADASSAY_CACHE", str(folder / "cache"))
            return open_store(addresses[kind]())

    return open_kind


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn."""
    return str(request.param)


@pytest.fixture
def store(kind: str, stores: Callable[[str], GoldenStore]) -> GoldenStore:
    """A store of each kind."""
    return stores(kind)


@pytest.fixture
def toy(make_toy: Callable[..., Toy]) -> Toy:
    """A tiny problem with a name of its own."""
    return make_toy(name=f"toy-{uuid.uuid4().hex[:12]}", families={"dense": [(8, 4)], "expert": [(6,)]}, units=4)


@pytest.fixture
def write_golden(toy: Toy, make_golden: Callable[..., Golden], tmp_path: Path) -> Callable[..., Path]:
    """Writes a golden of the toy; other numbers of references make other contents."""

    def write(variant: int = 1) -> Path:
        golden = make_golden(toy)
        golden = replace(golden, header=replace(golden.header, references=golden.header.references * variant))
        path = tmp_path / f"golden-{variant}.safetensors"
        golden.write(path)
        return path

    return write


@pytest.fixture
def write_record(toy: Toy, make_record: Callable[..., Record], tmp_path: Path) -> Callable[..., Path]:
    """Writes a record of the toy; other seeds make other contents. nonfinite: some values are infinite."""

    def write(seed: int = 1, *, nonfinite: bool = False) -> Path:
        from gradassay.goldens.layout import Layout

        record = make_record(toy, layout=Layout(dp=2, accum=2), seed=seed)
        if nonfinite:
            capture = record.captures["reduced.1"]
            spoiled = replace(capture, norm2=np.array([np.inf, 1.0]), nonfinite=np.array([1, 0]))
            record = replace(record, captures={"reduced.1": spoiled})
        path = tmp_path / f"record-{seed}-{nonfinite}.safetensors"
        record.write(path)
        return path

    return write
