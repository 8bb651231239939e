"""`gradassay post` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.api.auth.scope import Scope
from gradassay.cli import posting
from gradassay.goldens.container import digest_of_file
from scripted import Answer, answering, free_port
from served import Service, mint

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


def secret(service: Service, *scopes: Scope, project: str = "default") -> str:
    return mint(service, *scopes, project=project)["Authorization"].removeprefix("Bearer ")


def posted_runs(service: Service) -> list[str]:
    return sorted(run["digest"] for run in service.client.get("/api/v1/runs").json()["items"])


def test_a_record_becomes_a_run_once(online: Command, service: Service, files: Files) -> None:
    first = online("post", files.healthy)
    again = online("post", files.healthy)

    assert (first.code, again.code) == (0, 0)
    assert first.out == again.out
    ref, file, link = first.out.split()
    assert (file, link) == (str(files.healthy), f"{service.url}/runs/{ref.removeprefix('run:')}")
    assert ref.startswith("run:")
    assert first.err == f"posted: {files.healthy}\n"
    assert again.err == f"was there already: {files.healthy}\n"
    assert posted_runs(service) == [digest_of_file(files.healthy)]


def test_files_and_folders_of_records_and_goldens(
    online: Command, service: Service, files: Files, tmp_path: Path
) -> None:
    copy = tmp_path / "copies"
    copy.mkdir()
    (copy / "again.safetensors").write_bytes(files.healthy.read_bytes())

    ran = online("post", tmp_path, copy, "--reason", "torch 2.13", "--json", "-j", "2")

    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["service"] == service.url
    by_file = {Path(item["file"]).name: item for item in document["files"]}
    assert set(by_file) == {
        "golden.safetensors",
        "healthy.safetensors",
        "doubled.safetensors",
        "quadrupled.safetensors",
    }
    assert by_file["golden.safetensors"]["ref"] == "golden:toy.float32@v1"
    assert all(item["created"] for item in by_file.values())
    assert service.parts.ledger.version("toy.float32", 1).why == "torch 2.13"
    assert len(posted_runs(service)) == 3


def test_nothing_is_posted_where_a_file_is_invalid(
    online: Command, service: Service, files: Files, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(files.healthy.read_bytes()[:-8])

    ran = online("post", files.healthy, damaged)

    assert (ran.code, ran.out) == (2, "")
    assert "damaged.safetensors" in ran.err
    assert posted_runs(service) == []


@pytest.mark.parametrize("reference", ["run:0123456789abcdef", "golden:toy.float32", "none.safetensors"])
def test_only_files_can_be_posted(online: Command, reference: str) -> None:
    ran = online("post", reference)
    assert (ran.code, ran.out) == (2, "")


def test_without_a_service_nothing_can_be_posted(
    inside: Command, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRADASSAY_URL", raising=False)
    ran = inside("post", files.healthy)

    assert ran.code == 2
    assert "GRADASSAY_URL" in ran.err


def test_a_token_that_may_not_post_is_exit_10(
    online: Command, service: Service, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for token, says in (("", "GRADASSAY_TOKEN"), ("gat_unknown", ""), (secret(service, Scope.REVIEW), "scope post")):
        monkeypatch.setenv("GRADASSAY_TOKEN", token)
        ran = online("post", files.healthy, files.doubled, "-j", "1")
        assert (ran.code, ran.out) == (10, "")
        assert f"not tried: {files.doubled}" in ran.err
        assert "0 of 2 posted" in ran.err
        assert says in ran.err
        assert not token or token not in ran.err
    assert posted_runs(service) == []


def test_a_service_that_is_not_there_is_exit_11(inside: Command, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADASSAY_RETRY_S", "0.5")
    ran = inside("post", files.healthy, "--url", f"http://127.0.0.1:{free_port()}")

    assert (ran.code, ran.out) == (11, "")
    assert "trying again in" in ran.err
    assert "no answer, tried" in ran.err


def test_a_service_that_fails_is_exit_12(inside: Command, files: Files) -> None:
    with answering(Answer.problem(500, "bug", request_id="r-7")) as server:
        ran = inside("post", files.healthy, "--url", server.url)

    assert (ran.code, ran.out) == (12, "")
    assert "r-7" in ran.err


def test_a_partial_failure_says_which(inside: Command, files: Files) -> None:
    """The service takes two of three files; the digests by which it would know them again make a repeat safe."""
    taken = [Answer.of({"id": f"{number:032x}"}, status=201) for number in (1, 2)]
    with answering(*taken, Answer.problem(413, "too-large")) as server:
        ran = inside("post", files.healthy, files.doubled, files.quadrupled, "--json", "-j", "1", "--url", server.url)

    assert ran.code == 2
    done, also_done, refused = json.loads(ran.out)["files"]
    assert (done["ref"], also_done["ref"], refused["ref"]) == (f"run:{1:032x}", f"run:{2:032x}", None)
    assert refused["error"]["code"] == "too-large"
    assert f"not posted: {files.quadrupled}" in ran.err
    assert "2 of 3 posted" in ran.err


def test_a_refused_file_does_not_keep_the_others(inside: Command, files: Files) -> None:
    with answering(Answer.problem(413, "too-large"), Answer.of({"id": f"{1:032x}"}, status=201)) as server:
        ran = inside("post", files.healthy, files.doubled, "-j", "1", "--url", server.url)

    assert ran.code == 2
    assert ran.out.startswith(f"run:{1:032x}  {files.doubled}")


def test_a_busy_service_is_tried_again(inside: Command, files: Files) -> None:
    busy = Answer(status=503, headers={"Retry-After": "0"})
    with answering(busy, busy, Answer.of({"id": f"{1:032x}"}, status=201)) as server:
        ran = inside("post", files.healthy, "--url", server.url)

    assert ran.code == 0
    assert len(server.asked) == 3
    assert all(asked.body == files.healthy.read_bytes() for asked in server.asked)


def test_several_are_on_their_way_at_once(online: Command, service: Service, files: Files) -> None:
    chosen = posting.sendable([str(files.healthy), str(files.doubled), str(files.quadrupled)])
    assert [file.kind for file in chosen] == ["record"] * 3

    ran = online("post", files.healthy, files.doubled, files.quadrupled, "-j", "3")

    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()] == [
        str(file) for file in (files.healthy, files.doubled, files.quadrupled)
    ]


def test_the_token_is_in_no_output(
    online: Command, service: Service, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = secret(service, Scope.POST)
    monkeypatch.setenv("GRADASSAY_TOKEN", token)
    for arguments in (["post", files.healthy, "--json"], ["wait", "0123456789", "--debug"], ["golden", "list"]):
        ran = online(*arguments)
        assert token not in ran.out + ran.err
