"""`gradassay doctor`: each check can fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.cli import checks
from scripted import Answer, answering
from served import Service

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]


@pytest.mark.dist
def test_a_sound_machine_passes(gradassay: Command) -> None:
    ran = gradassay("doctor", "--json")

    assert ran.code == 0, ran.out
    found = {check["name"]: check for check in json.loads(ran.out)}
    assert all(check["ok"] for check in found.values())
    assert "2 ranks" in found["ranks"]["found"]
    assert "dir:" in found["store"]["found"]


def test_lines_say_what_to_do(inside: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checks, "_gloo", lambda: checks.Check(name="ranks", ok=True, found="not tried"))
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    monkeypatch.setattr(checks, "FREE_BYTES", 2**80)
    (tmp_path / "store").write_text("a file where the store's folder should be")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ran = inside("doctor", "--url", f"http://127.0.0.1:{taken.getsockname()[1]}")

    assert ran.code == 2
    problems = [line.split()[1] for line in ran.out.splitlines() if line.startswith("✗")]
    assert problems == ["torch", "mlflow", "store", "service", "disk"]
    assert "pip install 'gradassay[torch]'" in ran.out
    assert "gradassay serve" in ran.out


@pytest.mark.dist
def test_ranks_that_fail_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "TWO_RANKS", "gradassay.cli.two_ranks:nothing")
    found = checks._gloo()

    assert not found.ok
    assert "nothing" in found.found


def test_the_service_must_answer_and_know_the_token(
    online: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks._service(service.url).found == f"{service.url} answers and knows the token"

    monkeypatch.setenv("GRADASSAY_TOKEN", "gat_unknown")
    unknown = checks._service(service.url)
    assert not unknown.ok
    assert "put a valid one into GRADASSAY_TOKEN" in unknown.remedy
    assert "gat_unknown" not in unknown.found + unknown.remedy
    with answering(Answer(body=b"<html>")) as other:
        assert "instead of JSON" in checks._service(other.url).found
