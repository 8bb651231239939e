"""Commands that read a store, with a service instead of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import served
from gradassay.api.auth.scope import Scope
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.store.open import open_store
from served import Service, mint

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


def secret(service: Service, *scopes: Scope, name: str = "ci", project: str = "default") -> str:
    return mint(service, *scopes, name=name, project=project)["Authorization"].removeprefix("Bearer ")


def test_from_proposal_to_verdict(online: Command, service: Service, files: Files, tmp_path: Path) -> None:
    assert online("post", files.golden, "--reason", "first").code == 0
    run = online("post", files.doubled).out.split()[0]

    assert online("diff", "golden:toy.float32", run).code == 3
    listed = online("golden", "list", "--json")
    (row,) = json.loads(listed.out)
    assert (row["name"], row["version"], row["channels"], row["status"]) == ("toy.float32", 1, [], "proposed")
    text = online("golden", "list", "toy.float32")
    assert "proposed" in text.out
    assert f"in the service {service.url}" in text.err

    approved = online("golden", "approve", "toy.float32", "1", "--reason", "measured", "--expected", "0", "--json")
    assert approved.code == 0
    assert json.loads(approved.out)["action"] == "approved"
    assert "toy.float32 v1 is approved" in approved.err

    for golden in ("golden:toy.float32", "golden:toy.float32@approved", "golden:toy.float32@v1"):
        ran = online("diff", golden, run)
        assert ran.code == 1
        assert "w[r,m] = ep" in ran.out
    assert online("diff", "golden:toy.float32", files.healthy).code == 0
    assert len(list((tmp_path / "cache").glob("*.safetensors"))) == 2
    shown = json.loads(online("golden", "show", "toy.float32", "--json").out)
    assert [(item["who"], item["why"], item["previous"]) for item in shown["approvals"]] == [("ci", "measured", None)]
    assert "measured" in online("golden", "show", "golden:toy.float32@v1").out
    pulled = tmp_path / "pulled.safetensors"
    assert online("golden", "pull", "toy.float32", "--out", pulled).code == 0
    assert pulled.read_bytes() == files.golden.read_bytes()
    assert online("golden", "verify", "toy.float32").code == 0


def test_two_reviewers_at_once(
    online: Command, service: Service, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    online("post", files.golden)

    rejected = online("golden", "reject", "toy.float32@v1", "--reason", "too noisy", "--json")
    assert (rejected.code, json.loads(rejected.out)["action"]) == (0, "rejected")
    assert "toy.float32 v1 is rejected" in rejected.err
    monkeypatch.setenv("GRADASSAY_TOKEN", secret(service, Scope.REVIEW, name="bob"))
    late = online("golden", "approve", "toy.float32", "1", "--reason", "looks right")

    assert (late.code, late.out) == (2, "")
    assert "rejected by ci" in late.err
    assert "too noisy" in late.err
    assert json.loads(online("golden", "list", "--json").out)[0]["status"] == "rejected"


def test_decisions_are_undone_by_their_number(online: Command, files: Files) -> None:
    online("post", files.golden)
    approved = json.loads(online("golden", "approve", "toy.float32", "1", "--reason", "good", "--json").out)

    undone = online("golden", "undo", approved["number"], "--reason", "too early", "--json")
    assert (undone.code, json.loads(undone.out)["undoes"]) == (0, approved["number"])
    assert f"entry {approved['number']} is undone; approved points to no version" in undone.err
    again = online("golden", "undo", approved["number"], "--reason", "twice")
    assert again.code == 2
    assert "too early" in again.err or "undone" in again.err

    rejected = json.loads(online("golden", "reject", "toy.float32", "1", "--reason", "no", "--json").out)
    assert online("golden", "undo", rejected["number"], "--reason", "yes").code == 0
    assert json.loads(online("golden", "list", "--json").out)[0]["status"] == "proposed"


def test_a_channel_that_moved_meanwhile_is_a_conflict(online: Command, files: Files) -> None:
    online("post", files.golden)

    ran = online("golden", "approve", "toy.float32", "v1", "--reason", "because", "--expected", "4")

    assert ran.code == 2
    assert "points to no version, not to v4" in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["approve", "toy.float32", "1"], "must say why"),
        (["reject", "toy.float32", "1"], "must say why"),
        (["approve", "toy.float32", "--reason", "x"], "which version"),
        (["reject", "toy.float32", "--reason", "x"], "gradassay golden reject NAME VERSION"),
        (["approve", "toy.float32", "1", "--reason", "x", "--who", "ada"], "--who cannot be chosen"),
        (["approve", "toy.float32", "7", "--reason", "x"], "v7"),
        (["approve", "nobody", "1", "--reason", "x"], "not known"),
        (["reject", "nobody", "1", "--reason", "x"], "not known"),
        (["undo", "1"], "must say why"),
        (["undo", "1", "--reason", "x"], "cannot be undone"),
        (["undo", "77", "--reason", "x"], "77"),
    ],
)
def test_decisions_that_cannot_be_made(online: Command, files: Files, arguments: list[str], says: str) -> None:
    online("post", files.golden)
    ran = online("golden", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_who_may_only_post_decides_nothing(
    online: Command, service: Service, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    online("post", files.golden)
    monkeypatch.setenv("GRADASSAY_TOKEN", secret(service, Scope.POST))

    for verb in ("approve", "reject"):
        ran = online("golden", verb, "toy.float32", "1", "--reason", "x")
        assert (ran.code, ran.out) == (10, "")
        assert "scope review" in ran.err


def test_a_store_cannot_reject(inside: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADASSAY_URL", raising=False)
    ran = inside("golden", "reject", "toy.float32", "1", "--reason", "x")

    assert ran.code == 2
    assert "GRADASSAY_URL" in ran.err
    assert "GRADASSAY_URL" in inside("golden", "undo", "1", "--reason", "x").err


def test_a_store_on_the_command_line_goes_before_the_service(online: Command, files: Files, tmp_path: Path) -> None:
    store = f"dir:{tmp_path / 'mine'}"
    open_store(store).put_golden(files.golden)

    assert len(json.loads(online("golden", "list", "--json", "--store", store).out)) == 1
    assert json.loads(online("golden", "list", "--json").out) == []
    assert online("golden", "approve", "toy.float32", "1", "--reason", "mine", "--store", store).code == 0
    assert online("diff", "golden:toy.float32", files.healthy, "--store", store).code == 0


def test_a_run_of_a_service_by_digest(online: Command, files: Files) -> None:
    online("post", files.healthy)
    digest = digest_of_file(files.healthy)

    assert online("diff", files.golden, f"run:{digest}").code == 0
    assert online("diff", files.golden, f"run:{digest[7:19]}").code == 0
    assert online("diff", files.golden, "run:0123456789abcdef").code == 2
    assert online("diff", "golden:toy.float32@v4", f"run:{digest}").code == 2


def test_a_damaged_file_in_the_cache_is_fetched_again(online: Command, files: Files, tmp_path: Path) -> None:
    run = online("post", files.healthy).out.split()[0]
    assert online("diff", files.golden, run).code == 0
    (cached,) = (tmp_path / "cache").glob("*.safetensors")
    cached.write_bytes(b"damaged")

    assert online("diff", files.golden, run).code == 0
    assert cached.read_bytes() == files.healthy.read_bytes()


def test_mlflow_references_are_of_the_store(online: Command, files: Files, tmp_path: Path) -> None:
    record = open_store(f"dir:{tmp_path / 'store'}").put_record(files.healthy)

    assert online("diff", files.golden, f"mlflow:{record.id}").code == 0
    assert online("diff", files.golden, f"run:{record.id}").code == 2


@pytest.fixture
def careful(tmp_path: Path) -> Iterator[Service]:
    """A service where two people must approve."""
    folder = tmp_path / "careful"
    folder.mkdir()
    with served.serving(folder, uploads=folder, max_upload_bytes=2**26, reviewers=2) as running:
        yield running


def test_the_first_of_two_reviewers_is_told_so(
    online: Command, careful: Service, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(who: str) -> Any:
        monkeypatch.setenv("GRADASSAY_TOKEN", secret(careful, Scope.POST, Scope.REVIEW, name=who))
        return online("golden", "approve", "toy.float32", "1", "--reason", "measured", "--url", careful.url)

    monkeypatch.setenv("GRADASSAY_TOKEN", secret(careful, Scope.POST))
    assert online("post", files.golden, "--url", careful.url).code == 0
    first, again, second = decide("ada"), decide("ada"), decide("bob")

    assert (first.code, again.code, second.code) == (0, 2, 0)
    assert "second reviewer" in first.err
    assert "another person" in again.err
    assert "v1 is approved" in second.err


def test_the_ledger_says_who_decided_what(online: Command, files: Files) -> None:
    online("post", files.golden, "--reason", "torch 2.13")
    online("golden", "approve", "toy.float32", "1", "--reason", "measured")

    entries = json.loads(online("ledger", "--json").out)
    assert [(entry["action"], entry["who"], entry["why"]) for entry in entries] == [
        ("approved", "ci", "measured"),
        ("proposed", "ci", "torch 2.13"),
    ]
    assert len(json.loads(online("ledger", "--limit", "1", "--json").out)) == 1
    assert json.loads(online("ledger", "--golden", "nobody", "--json").out) == []
    text = online("ledger", "--golden", "toy.float32")
    assert text.code == 0
    assert "toy.float32 v1 (approved)" in text.out
    assert "2 entries" in text.err
