"""A real Postgres on loopback, in a folder of its own, gone when the tests are."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

USER = "gradassay"
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A running server; whoever reaches it on loopback is let in."""

    port: int

    def create(self, database: str) -> str:
        """The address of a new, empty database."""
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{database}"')
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{database}"

    def _conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={USER} dbname={database}"


def programs() -> Path | None:
    """The folder of the newest Postgres that is installed, Debian's or one on PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    found = [*debian, *([Path(on_path)] if on_path else [])]
    return found[-1].parent if found else None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that has just been made, ended with the context."""
    binaries = programs()
    assert binaries is not None, "no Postgres is installed (Debian: apt-get install postgresql)"
    folder = Path(tempfile.mkdtemp(prefix="gradassay-postgres-"))
    try:
        as_user = _unprivileged(folder)
        data = folder / "data"
        initialise = [binaries / "initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--no-sync"]
        subprocess.run([*as_user, *initialise], check=True, capture_output=True, cwd=folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder), "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            command = [*as_user, binaries / "postgres", "-D", data, "-p", str(port), *options]
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_for(port, server, folder / "log")
            yield Postgres(port=port)
        finally:
            server.terminate()
            server.wait(timeout=30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> list[str]:
    """How to start a program that refuses to run as root; the folder becomes its user's."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while True:
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user={USER} dbname=postgres connect_timeout=5").close()
            return
        except psycopg.OperationalError:
            try:
                server.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                if time.monotonic() < give_up:
                    continue
            raise AssertionError(f"Postgres did not start:\n{log.read_text(errors='replace')[-2000:]}") from None
