"""Assays over HTTP: of any two, and their parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Toy, make_record
from gradassay.api.ledger.deciding import Decision
from judged import LAYOUT
from served import Service

ASSAYS = "/api/v1/assays"
Mint = Callable[..., dict[str, str]]


@pytest.fixture
def runs(service: Service, toy: Toy, record: bytes) -> tuple[str, str]:
    """The ids of a healthy run, and of one whose experts are twice too large."""
    healthy = make_record(toy, layout=LAYOUT, strategy="fsdp2").to_bytes()
    posted = [service.client.post("/api/v1/runs", content=content).json()["id"] for content in (healthy, record)]
    return posted[0], posted[1]


def test_two_runs_are_compared_and_found_again(service: Service, mint: Mint, runs: tuple[str, str]):
    a, b = runs
    answer = service.client.post(ASSAYS, json={"a": a, "b": b}, params={"wait": 60})
    assert answer.status_code == 200
    assay = answer.json()
    assert (assay["verdict"], assay["run"], assay["other_run"], assay["choice"]) == ("diverge", b, a, None)
    assert service.client.post(ASSAYS, json={"a": f"run:{a}", "b": b[:12]}, params={"wait": 60}).json() == assay
    shown = service.client.get(f"{ASSAYS}/{assay['id']}")
    assert shown.json() == assay
    known = {"If-None-Match": shown.headers["etag"]}
    assert service.client.get(f"{ASSAYS}/{assay['id']}", headers=known).status_code == 304
    theirs = mint(service, project="other")
    for path in ("", "/parameters", "/report.md"):
        assert service.client.get(f"{ASSAYS}/{assay['id']}{path}", headers=theirs).status_code == 404
    assert service.client.post(ASSAYS, json={"a": a, "b": b}, headers=theirs).status_code == 404


def test_run_is_compared_with_a_golden_of_any_version(service: Service, runs: tuple[str, str], golden: Path):
    name = service.parts.ledger.propose(golden, who="ci", project="default").name
    pair = {"a": f"golden:{name}@v1", "b": runs[1]}
    assay = service.client.post(ASSAYS, json=pair, params={"wait": 60}).json()
    assert (assay["verdict"], assay["a"]["ref"]) == ("diverge", f"golden:{name}@v1")
    unapproved = service.client.post(ASSAYS, json={**pair, "a": f"golden:{name}"})
    assert (unapproved.status_code, unapproved.json()["code"]) == (404, "no-golden")
    service.parts.ledger.decide(name, 1, Decision.APPROVE, who="ada", why="because")
    assert service.client.post(ASSAYS, json={**pair, "a": f"golden:{name}"}).json()["id"] == assay["id"]
    for reference, code in (
        (f"golden:{name}@v7", "not-found"),
        ("golden:unknown@v1", "no-golden"),
        ("golden:a\0b", "no-golden"),
        ("nonsense", "not-found"),
    ):
        answer = service.client.post(ASSAYS, json={**pair, "a": reference})
        assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_parameters_are_paged_searched_and_sorted(service: Service, runs: tuple[str, str]):
    assay = service.client.post(ASSAYS, json={"a": runs[0], "b": runs[1]}, params={"wait": 60}).json()
    path = f"{ASSAYS}/{assay['id']}/parameters"
    everything = service.client.get(path).json()
    assert (everything["total"], everything["next"]) == (3, None)
    assert [one["name"] for one in everything["items"]] == [one["name"] for one in assay["parameters"]]
    found, cursor = [], None
    while True:
        page = service.client.get(path, params={"limit": 1, "sort": "name", "descending": True, "cursor": cursor or ""})
        found += [one["name"] for one in page.json()["items"]]
        cursor = page.json()["next"]
        if cursor is None:
            break
    assert found == ["expert.1.weight", "expert.0.weight", "dense.0.weight"]
    worst = service.client.get(path, params={"sort": "ratio", "descending": True, "limit": 1}).json()
    assert worst["items"][0]["family"] == "expert"
    narrowed = service.client.get(path, params={"search": "EXPERT", "verdict": "diverge"}).json()
    assert narrowed["total"] == 2
    for wrong in ({"sort": "beauty"}, {"cursor": "!"}, {"limit": 0}):
        assert service.client.get(path, params=wrong).status_code == 400
