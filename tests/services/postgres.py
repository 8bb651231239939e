"""A real Postgres: one cluster for the session, in a folder of its own, and a fresh database for each test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

START_S = 60
_ATTEMPTS = 3
_INITIAL = ("--username=gradassay", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
# What is lost with the machine is lost with the test.
_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=200")


def binaries() -> Path:
    """The folder of the newest installed Postgres' programs; fails the test where there is none, and says what to do."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.fail("this test starts a real Postgres: apt-get install postgresql, or make packages")
    return Path(on_path).parent


@contextmanager
def running_postgres() -> Iterator[str]:
    """The address of a new cluster on loopback, without a database's name; gone when the context ends."""
    programs = binaries()
    # Postgres refuses to be run by root.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="gradassay-postgres-"))
    try:
        shutil.chown(folder, user)
        made = subprocess.run(
            [programs / "initdb", "--pgdata", folder / "data", *_INITIAL],
            user=user,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        process, address = _start(programs, folder, user)
        try:
            yield address
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(timeout=START_S)
    finally:
        shutil.rmtree(folder)


def _start(programs: Path, folder: Path, user: str) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its address; another port where somebody took the one that was free a moment ago."""
    log = folder / "log"
    for _ in range(_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = ["listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", f"port={port}", *_FAST]
        command = [
            programs / "postgres",
            "-D",
            folder / "data",
            *(word for option in options for word in ("-c", option)),
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, user=user, cwd=folder, stdout=output, stderr=output, start_new_session=True
            )
        address = f"postgresql://gradassay@127.0.0.1:{port}"
        if _answers(process, address):
            return process, address
    pytest.fail(f"Postgres did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        try:
            psycopg.connect(f"{address}/postgres", connect_timeout=5).close()
            return True
        except psycopg.OperationalError:
            try:
                process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            return False
    process.kill()
    process.wait()
    return False


@contextmanager
def fresh_database(address: str) -> Iterator[str]:
    """The URL, for SQLAlchemy, of a new database of the cluster; dropped when the context ends."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{address.replace('postgresql://', 'postgresql+psycopg://')}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of the session's Postgres cluster."""
    with running_postgres() as address:
        yield address


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a fresh, empty database on a real Postgres."""
    with fresh_database(postgres_server) as url:
        yield url
