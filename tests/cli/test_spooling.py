"""What `gradassay post` keeps while the service is down is sent by the next one, exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from gradassay.api.auth.scope import Scope
from gradassay.client.spool import Spool
from gradassay.goldens.container import digest_of_file
from scripted import Answer, answering, free_port
from served import Service, mint, serving

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def down(inside: Command, port: int, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line with the address of a service that is not there."""
    monkeypatch.setenv("GRADASSAY_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0")
    return inside


@contextmanager
def up(port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service that comes back at this address, and a token for it."""
    folder.mkdir(exist_ok=True)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[])
    with serving(folder, uploads=folder, on_port=port, max_upload_bytes=2**26) as service:
        token = mint(service, *Scope)["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("GRADASSAY_TOKEN", token)
        yield service
    structlog.reset_defaults()


def runs(service: Service) -> list[str]:
    return sorted(run["digest"] for run in service.client.get("/api/v1/runs").json()["items"])


def spool_of(tmp_path: Path, port: int) -> Spool:
    return Spool(tmp_path / "spool", f"http://127.0.0.1:{port}")


def test_what_could_not_be_sent_is_sent_by_the_next_post(
    down: Command, port: int, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = down("post", files.healthy, files.golden, "--reason", "torch 2.13", "-j", "1", "--json")

    assert failed.code == 11
    assert "2 wait in the spool" in failed.err
    assert "gradassay post --spooled" in failed.err
    assert [item["spooled"] for item in json.loads(failed.out)["files"]] == [True, True]
    files.healthy.unlink()
    with up(port, tmp_path / "service", monkeypatch) as service:
        ran = down("post", files.doubled)
        assert ran.code == 0, ran.err
        assert ran.out.count("run:") == 1
        assert ran.err.count("from the spool: ") == 2
        assert len(runs(service)) == 2
        assert service.parts.ledger.version("toy.float32", 1).why == "torch 2.13"
        assert spool_of(tmp_path, port).count() == 0
        alone = down("post", "--spooled")
        assert (alone.code, alone.out, alone.err) == (0, "", "")


def test_the_spool_alone_prints_what_it_became_and_waits_for_it(
    down: Command, port: int, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digest_of_file(files.healthy)
    assert down("post", files.healthy).code == 11
    assert down("post", files.healthy).code == 11
    still = down("post", "--spooled")
    assert (still.code, still.out) == (11, "")
    assert f"still in the spool: {files.healthy}" in still.err

    with up(port, tmp_path / "service", monkeypatch) as service:
        ran = down("post", "--spooled", "--wait", "--json")
        assert ran.code == 3
        (sent,) = json.loads(ran.out)["waited"]
        assert (sent["digest"], sent["created"]) == (digest, True)
        assert runs(service) == [digest]


def test_a_spool_that_cannot_be_sent_does_not_ask_twice(down: Command, files: Files) -> None:
    assert down("post", files.healthy).code == 11
    second = down("post", files.doubled)

    assert second.code == 11
    assert f"not tried: {files.doubled}" in second.err
    assert "1 wait in the spool" in second.err


def test_without_a_file_something_must_be_asked_for(down: Command) -> None:
    ran = down("post")
    assert (ran.code, ran.out) == (2, "")
    assert "--spooled" in ran.err


def test_a_token_that_is_not_taken_spools_nothing(
    inside: Command, service: Service, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADASSAY_TOKEN", "gat_unknown")
    assert inside("post", files.healthy, "--url", service.url).code == 10
    assert not (tmp_path / "spool").exists()


def test_another_services_spool_is_left_alone(down: Command, port: int, files: Files, tmp_path: Path) -> None:
    assert down("post", files.healthy).code == 11
    with answering(Answer.of({"id": f"{1:032x}"}, status=201)) as other:
        ran = down("post", files.doubled, "--url", other.url)

    assert ran.code == 0
    assert len(other.asked) == 1
    assert spool_of(tmp_path, port).count() == 1


def test_what_the_service_refuses_is_put_aside(inside: Command, files: Files, tmp_path: Path) -> None:
    with answering(
        Answer.problem(413, "too-large"), Answer.of({"id": f"{1:032x}"}, status=201), Answer.of({"id": "x"})
    ) as server:
        spool = Spool(tmp_path / "spool", server.url)
        spool.add(files.healthy, kind="record")
        ran = inside("post", files.doubled, "--url", server.url)
        assert (ran.code, len(server.asked)) == (0, 2)
        assert "said too-large; it is kept in" in ran.err
        assert inside("post", "--spooled", "--url", server.url).code == 0
        assert len(server.asked) == 2
    assert digest_of_file(next((spool.folder / "refused").glob("*.safetensors"))) == digest_of_file(files.healthy)


@pytest.mark.parametrize("answer", [Answer.problem(500, "bug"), Answer.problem(403, "forbidden")])
def test_what_may_be_taken_later_stays(inside: Command, files: Files, tmp_path: Path, answer: Answer) -> None:
    with answering(answer, Answer.of({"id": f"{1:032x}"}, status=201)) as server:
        spool = Spool(tmp_path / "spool", server.url)
        spool.add(files.healthy, kind="record")
        ran = inside("post", files.doubled, "--url", server.url)

    assert ran.code == 0
    assert "still in the spool" in ran.err
    assert spool.count() == 1


def test_a_full_disk_is_said_and_the_record_is_where_it_was(down: Command, files: Files, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("no folder")
    ran = down("post", files.healthy)

    assert ran.code == 11
    assert "not spooled: " in ran.err
    assert "wait in the spool" not in ran.err
    assert files.healthy.exists()


def _posting(service: Service, spool: Path, script: str = "") -> subprocess.Popen[str]:
    token = mint(service, Scope.POST)["Authorization"].removeprefix("Bearer ")
    variables = {"GRADASSAY_TOKEN": token, "GRADASSAY_URL": service.url, "GRADASSAY_SPOOL": str(spool)}
    return subprocess.Popen(
        [sys.executable, "-c", f"{script}\nfrom gradassay.cli.main import run\nrun()", "post", "--spooled"],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once_send_each_file_once(service: Service, files: Files, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", service.url)
    for file in (files.healthy, files.doubled, files.quadrupled):
        spool.add(file, kind="record")

    both = [_posting(service, tmp_path / "spool") for _ in range(2)]
    ended = [(*one.communicate(timeout=60), one.returncode) for one in both]

    assert [code for *_, code in ended] == [0, 0], ended
    assert sum(out.count("run:") for out, *_ in ended) == 3
    assert (len(runs(service)), spool.count()) == (3, 0)


def test_killed_between_sending_and_removing(service: Service, files: Files, tmp_path: Path) -> None:
    """The entry is still there and is sent again, which the service knows to be the same run."""
    spool = Spool(tmp_path / "spool", service.url)
    spool.add(files.healthy, kind="record")
    dying = (
        "import os, signal\n"
        "from gradassay.client.spool import Spool\n"
        "Spool.remove = lambda self, entry: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = _posting(service, tmp_path / "spool", dying)
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert (len(runs(service)), spool.count()) == (1, 1)

    again = _posting(service, tmp_path / "spool")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert out.count("run:") == 1
    assert (len(runs(service)), spool.count()) == (1, 0)
