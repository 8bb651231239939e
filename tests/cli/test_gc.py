"""`gradassay gc` beside a running service, on its database and its store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.golden import Golden
from gradassay.goldens.store.open import open_store
from served import Service

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


@pytest.fixture
def there(gradassay: Command, service: Service) -> Command:
    """Runs commands with the settings of the service."""
    settings = service.parts.settings
    variables = {"GRADASSAY_STORE": settings.store, "GRADASSAY_DATABASE_URL": settings.database_url}

    def execute(*arguments: str | Path) -> Ran:
        return gradassay(*arguments, variables=variables)

    return execute


@pytest.fixture
def run(service: Service, files: Files, make_golden: Callable[..., Golden], tmp_path: Path) -> str:
    """A run; and beside it a golden whose first version is approved and whose second is rejected."""
    ledger = service.parts.ledger
    other = tmp_path / "other" / "golden.safetensors"
    other.parent.mkdir()
    make_golden(noise=2e-7).write(other)
    for file, decision in ((files.golden, Decision.APPROVE), (other, Decision.REJECT)):
        version = ledger.propose(file, who="ada", project="default")
        ledger.decide(version.name, version.version, decision, who="ada", why="too noisy")
    answer = service.client.post("/api/v1/runs", content=files.healthy.read_bytes())
    answer.raise_for_status()
    known: str = answer.json()["id"]
    return known


def test_nothing_young_may_go(there: Command, service: Service, run: str) -> None:
    ran = there("gc", "--delete")

    assert (ran.code, ran.out) == (0, "")
    assert "nothing may go" not in ran.err
    assert "0 of 0 deleted" in ran.err
    assert service.client.get(f"/api/v1/runs/{run}").status_code == 200


def test_it_lists_and_deletes_when_told(there: Command, service: Service, run: str) -> None:
    listed = there("gc", "--keep-days", "0", "--json")

    document = json.loads(listed.out)
    assert listed.code == 0
    assert {item["ref"] for item in document["items"]} == {"golden:toy.float32@v2", f"run:{run}"}
    assert document["size"] == sum(item["size"] for item in document["items"]) > 0
    assert [item["deleted"] for item in document["items"]] == [None, None]
    text = there("gc", "--keep-days", "0")
    assert "too noisy" in text.out
    assert "nothing was deleted, --delete does that" in text.err
    assert service.client.get(f"/api/v1/runs/{run}").status_code == 200

    deleted = there("gc", "--keep-days", "0", "--delete")
    assert deleted.code == 0
    assert f"run:{run}" in deleted.out
    assert "2 of 2 deleted" in deleted.err
    assert service.client.get(f"/api/v1/runs/{run}").status_code == 404
    assert service.client.get("/api/v1/goldens/toy.float32/versions/2").status_code == 404
    assert service.client.get("/api/v1/goldens/toy.float32/versions/1/file").status_code == 200
    assert json.loads(there("gc", "--keep-days", "0", "--json").out)["items"] == []


def test_what_was_approved_in_the_store_meanwhile_stays(there: Command, service: Service, run: str) -> None:
    open_store(service.parts.settings.store).approve("toy.float32", 2, who="bob", why="by hand")

    refs = {item["ref"] for item in json.loads(there("gc", "--keep-days", "0", "--json").out)["items"]}

    assert refs == {f"run:{run}"}


def test_without_a_service_there_is_nothing_to_clean(gradassay: Command, tmp_path: Path) -> None:
    ran = gradassay("gc")

    assert (ran.code, ran.out) == (2, "")
    assert "no database of a service" in ran.err
    assert not (tmp_path / "store").exists()
    assert gradassay("gc", "--folder", tmp_path / "elsewhere").code == 2


def test_what_could_not_be_deleted_is_an_error(there: Command, service: Service, run: str) -> None:
    digest = service.client.get(f"/api/v1/runs/{run}").json()["digest"].removeprefix("sha256:")
    content = service.folder / "records" / f"{digest}.safetensors"
    content.unlink()
    content.mkdir()

    ran = there("gc", "--keep-days", "0", "--delete", "--json")

    assert ran.code == 2
    assert "could not be deleted" in ran.err
    deleted = {item["ref"]: item["deleted"] for item in json.loads(ran.out)["items"]}
    assert deleted == {"golden:toy.float32@v2": True, f"run:{run}": False}
