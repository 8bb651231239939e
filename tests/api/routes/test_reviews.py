"""Reviews over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gradassay.api.ledger.deciding import Decision
from served import Service

RUNS = "/api/v1/runs"
Mint = Callable[..., dict[str, str]]


def until(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


@pytest.fixture
def run(service: Service, record: bytes, golden: Path) -> str:
    """The id of a run that was judged and diverges."""
    version = service.parts.ledger.propose(golden, who="ci", project="default")
    service.parts.ledger.decide(version.name, 1, Decision.APPROVE, who="ada", why="because")
    posted = service.client.post(RUNS, content=record).json()["id"]
    assert service.client.get(f"{RUNS}/{posted}/assay", params={"wait": 60}).json()["verdict"] == "diverge"
    return posted


def test_accepted_divergence_is_shown_with_the_assay_and_changes_its_tag(service: Service, run: str):
    before = service.client.get(f"{RUNS}/{run}/assay")
    law = before.json()["accepted"]["findings"][0]["law"]
    asked = {"law": law, "reason": "known", "expires_at": until(30)}
    created = service.client.post(f"{RUNS}/{run}/reviews", json=asked)
    assert created.status_code == 201
    review = created.json()
    assert (review["decision"], review["standing"], review["who"], review["formula"]) == (
        "accepted",
        "active",
        "test",
        "w[r,m] = ep",
    )
    after = service.client.get(f"{RUNS}/{run}/assay", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert (after.json()["verdict"], after.json()["exit"]) == ("diverge", 1)
    assert after.json()["accepted"]["every_finding"] is True
    assert after.json()["accepted"]["findings"][0]["reviews"] == [review]
    assert service.client.get(f"{RUNS}/{run}/reviews").json() == [review]
    withdrawn = service.client.delete(f"{RUNS}/{run}/reviews/{review['number']}")
    assert (withdrawn.status_code, withdrawn.json()["standing"]) == (200, "withdrawn")
    assert service.client.get(f"{RUNS}/{run}/assay").json()["accepted"]["every_finding"] is False
    again = service.client.delete(f"{RUNS}/{run}/reviews/{review['number']}")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    "wrong",
    [
        {"expires_at": None},
        {"expires_at": until(-1)},
        {"expires_at": until(400)},
        {"expires_at": "9999-12-31T23:59:59-12:00"},
        {"expires_at": "2031-01-01T00:00:00"},
        {"decision": "rejected", "expires_at": until(3)},
        {"decision": "maybe"},
        {"law": "no law"},
        {"law": ""},
        {"reason": ""},
        {"reason": " "},
        {"parameters": ["unknown"]},
        {"law": "a\0"},
        {"reason": "a\0"},
        {"assay": "\0"},
        {"parameters": ["\0"]},
    ],
)
def test_review_that_makes_no_sense_is_refused(service: Service, run: str, wrong: dict[str, object]):
    asked = {"law": "w[r,m] = ep", "reason": "known", "expires_at": until(30)} | wrong
    answer = service.client.post(f"{RUNS}/{run}/reviews", json=asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert service.client.get(f"{RUNS}/{run}/reviews").json() == []


def test_only_reviewers_of_the_project_decide(service: Service, mint: Mint, run: str):
    asked = {"law": "w[r,m] = ep", "reason": "known", "decision": "rejected"}
    path = f"{RUNS}/{run}/reviews"
    assert service.anonymous.post(path, json=asked).status_code == 401
    assert service.client.post(path, json=asked, headers=mint(service, "post", "admin")).status_code == 403
    theirs = mint(service, "review", project="other")
    assert service.client.post(path, json=asked, headers=theirs).status_code == 404
    created = service.client.post(path, json=asked, headers=mint(service, "review"))
    assert (created.status_code, created.json()["decision"], created.json()["expires_at"]) == (201, "rejected", None)
    assert service.client.delete(f"{path}/{created.json()['number']}", headers=theirs).status_code == 404
    assert service.client.delete(f"{path}/999").status_code == 404
