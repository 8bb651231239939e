"""`gradassay serve` as processes of their own, to be stopped, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database

DEADLINE_S = 120.0
SETTINGS = ("GRADASSAY_", "MLFLOW_", "AWS_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A process that answers at `url`. login: its one-time login link, None where it printed none; log: its stderr."""

    process: subprocess.Popen[bytes]
    url: str
    login: str | None
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged until now."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def stop(self, *, deadline_s: float = 60.0) -> int:
        """Asks it to stop; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=deadline_s)

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def replica(folder: Path, *arguments: str, **variables: str) -> Iterator[Replica]:
    """A service started in `folder` on a free port, with settings by environment variable; killed with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    started = time.monotonic_ns()
    printed, log = folder / f"{started}.out", folder / f"{started}.log"
    command = [sys.executable, "-m", "gradassay.cli.main", "serve", "--json", "--port", "0", *arguments]
    with printed.open("wb") as out, log.open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=kept | variables, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
    try:
        said = _said(process, printed, log)
        yield Replica(process=process, url=said["url"], login=said["login"], log=log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def token(database_url: str, *scopes: Scope, project: str = "default") -> dict[str, str]:
    """The headers of a new token, by default with every scope, made as `gradassay token create` on the machine does."""
    database = Database(database_url)
    _, secret = Tokens(database).create(name="test", scopes=scopes or tuple(Scope), by="tests", project=project)
    database.close()
    return {"Authorization": f"Bearer {secret}"}


def client(replica: Replica, headers: dict[str, str]) -> httpx2.Client:
    """A client of this replica that holds a token."""
    return httpx2.Client(base_url=replica.url, headers=headers, timeout=120)


def _said(process: subprocess.Popen[bytes], printed: Path, log: Path) -> dict[str, Any]:
    give_up = time.monotonic() + DEADLINE_S
    while time.monotonic() < give_up:
        try:
            document: dict[str, Any] = json.loads(printed.read_text())
            return document
        except ValueError:
            try:
                process.wait(timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                continue
    raise AssertionError(f"the service did not start ({process.poll()}):\n{log.read_text(errors='replace')[-3000:]}")
