"""Goldens and the ledger over a real socket: proposed, approved, rejected, undone, and told apart by project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from served import Service

NAME = "toy.float32"
GOLDENS = "/api/v1/goldens"
LEDGER = "/api/v1/ledger"
BINARY = {"Content-Type": "application/octet-stream"}
Mint = Callable[..., dict[str, str]]
Post = Callable[..., dict[str, Any]]


@pytest.fixture
def files(toy, make_golden, tmp_path: Path) -> Callable[[int], bytes]:
    """Golden files of one name; each number is another content, which differs by rounding alone."""

    def content(number: int, *, environment: dict[str, str] | None = None) -> bytes:
        made = make_golden(toy, noise=3e-8 * (1 + number / 100))
        made.header.environment.update(environment or {})
        return made.to_bytes()

    return content


@pytest.fixture
def post(service: Service, files) -> Post:
    """Proposes golden files; answers with the last one's version."""

    def propose(*numbers: int, headers: dict[str, str] | None = None, **environment: str) -> dict[str, Any]:
        for number in numbers:
            content = files(number, environment=environment)
            path = f"{GOLDENS}/{NAME}/versions"
            answer = service.client.post(
                path, content=content, headers={**BINARY, **(headers or {})}, params={"why": f"try {number}"}
            )
            assert answer.status_code == 201, answer.text
        return answer.json()

    return propose


def approve(service: Service, version: int, expected: int | None, **headers: str):
    body = {"version": version, "expected_version": expected, "why": "looks right"}
    return service.client.put(f"{GOLDENS}/{NAME}/channels/approved", json=body, headers=headers)


def reject(service: Service, version: int, **headers: str):
    return service.client.post(f"{GOLDENS}/{NAME}/versions/{version}/rejection", json={"why": "noisy"}, headers=headers)


def test_a_version_is_proposed_once_and_shown(service: Service, files):
    path = f"{GOLDENS}/{NAME}/versions"
    first = service.client.post(path, content=files(1), headers=BINARY, params={"why": "new data"})
    again = service.client.post(path, content=files(1), headers=BINARY)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.headers["Location"] == f"{path}/1"
    version = service.client.get(first.headers["Location"]).json()
    assert (version["status"], version["why"], version["proposed_by"]) == (
        "proposed",
        "new data",
        first.json()["proposed_by"],
    )
    assert version["facts"]["units"] == [512] * 8
    assert version["proposed_at"].endswith(("Z", "+00:00"))
    assert service.client.get(f"{GOLDENS}/{NAME}/versions").json() == [first.json()]
    golden = service.client.get(f"{GOLDENS}/{NAME}").json()
    assert service.client.get(GOLDENS).json() == [golden]
    assert (golden["channels"], golden["waiting"], golden["latest"]["version"]) == ({}, 1, 1)


def test_approving_rejecting_and_undoing(service: Service, post: Post):
    post(1, 2, 3)
    first = approve(service, 1, 0)
    assert (first.status_code, first.json()["action"], first.json()["previous"]) == (200, "approved", 0)
    second = approve(service, 2, 1)
    assert second.json()["version"] == 2
    rejection = reject(service, 3)
    assert (rejection.status_code, rejection.json()["action"]) == (201, "rejected")
    undone = service.client.post(f"{LEDGER}/{second.json()['number']}/undo", json={"why": "oops"})
    assert (undone.status_code, undone.json()["version"], undone.json()["undoes"]) == (201, 1, second.json()["number"])
    assert service.client.get(f"{GOLDENS}/{NAME}").json()["channels"] == {"approved": 1}
    assert service.store.find_golden(NAME).version == 1
    versions = service.client.get(f"{GOLDENS}/{NAME}/versions").json()
    assert [(one["version"], one["status"]) for one in versions] == [(3, "rejected"), (2, "proposed"), (1, "approved")]
    assert versions[0]["rejected"]["why"] == "noisy"


def test_a_lost_race_is_told_by_whom(service: Service, post: Post, mint: Mint):
    post(1, 2)
    bob = mint(service, "review", name="bob")
    assert approve(service, 1, 0, **bob).status_code == 200
    for answer in (approve(service, 2, 0), reject(service, 1), approve(service, 1, 1)):
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert "approved by bob on" in answer.json()["detail"]
        assert "looks right" in answer.json()["detail"]
    assert service.client.post(f"{LEDGER}/3/undo", json={}).status_code == 201
    again = service.client.post(f"{LEDGER}/3/undo", json={})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_what_is_wrong_is_refused_and_nothing_changes(service: Service, post: Post, files, record: bytes):
    post(1)
    before = service.client.get(LEDGER).json()
    versions = f"{GOLDENS}/{NAME}/versions"
    wrong = [
        (service.client.post(versions, content=record, headers=BINARY), 422, "invalid-file"),
        (service.client.post(versions, content=files(2)[:-9], headers=BINARY), 422, "invalid-file"),
        (service.client.post(f"{GOLDENS}/other.float32/versions", content=files(2), headers=BINARY), 400, "usage"),
        (service.client.post(versions, content=files(2), headers={**BINARY, "Content-Digest": "x"}), 400, "usage"),
        (service.client.post(versions, content=bytes(400_000), headers=BINARY), 413, "too-large"),
        (service.client.post(versions, content=files(2), headers=BINARY, params={"why": "a\0"}), 400, "usage"),
        (approve(service, 7, 0), 404, "not-found"),
        (approve(service, 0, 0), 400, "usage"),
        (approve(service, 2**40, 0), 400, "usage"),
        (service.client.put(f"{GOLDENS}/{NAME}/channels/Latest", json=body(why="x")), 400, "usage"),
        (service.client.put(f"{GOLDENS}/{NAME}/channels/approved", json=body(why="")), 400, "usage"),
        (service.client.put(f"{GOLDENS}/{NAME}/channels/approved", json=body(why=" ")), 400, "usage"),
        (service.client.put(f"{GOLDENS}/{NAME}/channels/approved", content=half_a_character()), 400, "usage"),
        (service.client.post(f"{versions}/1/rejection", json={}), 400, "usage"),
        (service.client.post(f"{versions}/1/rejection", content='{"why": "no", "channel": "\\ud800"}'), 400, "usage"),
        (service.client.get(f"{versions}/9"), 404, "not-found"),
        (service.client.get(f"{versions}/99999999999"), 400, "usage"),
        (service.client.get(f"{GOLDENS}/nobody"), 404, "not-found"),
        (service.client.get(f"{GOLDENS}/%00"), 404, "not-found"),
        (service.client.post(f"{LEDGER}/1/undo", json={}), 400, "usage"),
        (service.client.post(f"{LEDGER}/99/undo", json={}), 404, "not-found"),
        (service.client.get(LEDGER, params={"cursor": "none"}), 400, "usage"),
    ]
    for answer, status, code in wrong:
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert service.client.get(LEDGER).json() == before
    assert [version.version for version in service.store.goldens()] == [1]


def body(**said: Any) -> dict[str, Any]:
    return {"version": 1, "expected_version": 0, "why": "because", **said}


def half_a_character() -> bytes:
    return json.dumps(body(why="half \ud800")).encode()


def test_scopes_are_needed(service: Service, post: Post, files, mint: Mint):
    post(1)
    reader, poster, reviewer = (mint(service, *scopes) for scopes in ((), ("post",), ("review",)))
    versions = f"{GOLDENS}/{NAME}/versions"

    def propose(headers):
        return service.anonymous.post(versions, content=files(2), headers={**BINARY, **headers}).status_code

    def decide(headers):
        path = f"{GOLDENS}/{NAME}/channels/approved"
        return service.anonymous.put(path, json=body(), headers=headers).status_code

    def decline(headers):
        return service.anonymous.post(f"{versions}/1/rejection", json={"why": "no"}, headers=headers).status_code

    def undo(headers):
        return service.anonymous.post(f"{LEDGER}/1/undo", json={}, headers=headers).status_code

    def share(headers):
        many = {"cause": "x", "why": "y", "items": [{"name": NAME, "version": 1, "expected_version": 0}]}
        return service.anonymous.post(f"{GOLDENS}/approvals", json=many, headers=headers).status_code

    for call in (propose, decide, decline, undo, share):
        assert call({}) == 401
        assert call(reader) == 403
    for call in (decide, decline, undo, share):
        assert call(poster) == 403
    assert propose(reviewer) == 403
    for path in (GOLDENS, f"{GOLDENS}/{NAME}", versions, f"{versions}/1", LEDGER):
        assert service.anonymous.get(path).status_code == 401
        assert service.anonymous.get(path, headers=reader).status_code == 200


def test_another_projects_goldens_are_as_unknown_as_none(service: Service, post: Post, files, mint: Mint):
    post(1)
    approve(service, 1, 0)
    other = mint(service, "post", "review", project="other")
    assert service.anonymous.get(GOLDENS, headers=other).json() == []
    assert service.anonymous.get(LEDGER, headers=other).json()["items"] == []
    assert service.anonymous.get(LEDGER, params={"golden": NAME}, headers=other).json()["items"] == []

    def answers(name: str, entry: int):
        ask = service.anonymous
        yield ask.get(f"{GOLDENS}/{name}", headers=other)
        yield ask.get(f"{GOLDENS}/{name}/versions", headers=other)
        yield ask.get(f"{GOLDENS}/{name}/versions/1", headers=other)
        yield ask.get(f"{GOLDENS}/{name}/versions/9", headers=other)
        yield ask.get(f"{GOLDENS}/{name}/versions/9/file", headers=other)
        yield ask.put(f"{GOLDENS}/{name}/channels/approved", json=body(), headers=other)
        yield ask.post(f"{GOLDENS}/{name}/versions/1/rejection", json={"why": "no"}, headers=other)
        yield ask.post(f"{LEDGER}/{entry}/undo", json={}, headers=other)

    for theirs, nobodys in zip(answers(NAME, 2), answers("nobody", 99), strict=True):
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["detail"].replace(NAME, "nobody").replace(" 2 ", " 99 ") == nobodys.json()["detail"]
        assert theirs.json()["hint"] == nobodys.json()["hint"]
    versions = f"{GOLDENS}/{NAME}/versions"
    assert service.anonymous.post(versions, content=files(2), headers={**BINARY, **other}).status_code == 404
    assert service.client.get(f"{GOLDENS}/{NAME}").json()["channels"] == {"approved": 1}


def test_a_token_of_all_projects_sees_and_decides(service: Service, post: Post, files, mint: Mint):
    other = mint(service, "post", project="other")
    everyone = mint(service, "review", project="*")
    versions = f"{GOLDENS}/{NAME}/versions"
    assert service.anonymous.post(versions, content=files(1), headers={**BINARY, **other}).status_code == 201
    assert [one["project"] for one in service.anonymous.get(GOLDENS, headers=everyone).json()] == ["other"]
    decided = service.anonymous.put(f"{GOLDENS}/{NAME}/channels/approved", json=body(), headers=everyone)
    assert (decided.status_code, decided.json()["project"]) == (200, "other")


def test_the_ledger_comes_in_pages(service: Service, post: Post):
    post(*range(1, 6))
    approve(service, 5, 0)
    seen, cursor = [], None
    while True:
        page = service.client.get(
            LEDGER, params={"limit": 4, "golden": NAME} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += [(entry["action"], entry["version"]) for entry in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [("approved", 5), *(("proposed", version) for version in range(5, 0, -1))]


def test_a_golden_whose_name_has_slashes_and_more(service: Service, make_toy, make_golden):
    made = make_golden(make_toy(name="my.module:problem/v 1 %?", families={"dense": [(4,)]}, units=2))
    quoted = "my.module%3Aproblem%2Fv%201%20%25%3F.float32"
    path = f"{GOLDENS}/{quoted}/versions"
    assert service.client.post(path, content=made.to_bytes(), headers=BINARY).status_code == 201
    assert service.client.get(f"{GOLDENS}/{quoted}").json()["name"] == made.name
    assert service.client.get(f"{path}/1").json()["name"] == made.name
    assert service.client.get(f"{path}/1/file").content == made.to_bytes()
    assert service.client.put(f"{GOLDENS}/{quoted}/channels/approved", json=body()).status_code == 200


def test_several_are_approved_by_cause_each_on_its_own(service: Service, toy, make_toy, make_golden):
    names = ("one", "two", "three", "four")
    cause = "torch 2.12.0 -> 2.13.0"
    for name in names:
        problem = make_toy(name=name, families={"dense": [(24, 16)]}, units=4)
        for torch, noise in (("2.12.0", 3e-8), ("2.13.0", 3.1e-8)):
            made = make_golden(problem, noise=9e-8 if (name, torch) == ("three", "2.13.0") else noise)
            made.header.environment["torch"] = torch
            path = f"{GOLDENS}/{name}.float32/versions"
            assert service.client.post(path, content=made.to_bytes(), headers=BINARY).status_code == 201
        first = service.client.put(f"{GOLDENS}/{name}.float32/channels/approved", json=body())
        assert first.status_code == 200
        from gradassay.api.judging.refresh import ensure_drift

        ensure_drift(service.parts.database, service.store, f"{name}.float32", 2)
    service.client.post(f"{GOLDENS}/two.float32/versions/2/rejection", json={"why": "no"})
    items = [{"name": f"{name}.float32", "version": 2, "expected_version": 1} for name in names]
    items[3]["expected_version"] = 0
    items.append({"name": "nobody.float32", "version": 1, "expected_version": 0})
    answer = service.client.post(f"{GOLDENS}/approvals", json={"cause": cause, "why": "new torch", "items": items})
    assert answer.status_code == 200
    outcomes = answer.json()["items"]
    assert [one["name"] for one in outcomes] == [item["name"] for item in items]
    assert [one["refused"] and one["refused"]["code"] for one in outcomes] == [
        None,
        "conflict",
        "conflict",
        "conflict",
        "not-found",
    ]
    assert (outcomes[0]["entry"]["cause"], outcomes[0]["entry"]["version"]) == (cause, 2)
    assert "rejected by" in outcomes[1]["refused"]["detail"]
    assert "reason of its own: structured" in outcomes[2]["refused"]["detail"]
    assert "not been compared" in outcomes[3]["refused"]["detail"]
    pointing = {golden["name"]: golden["channels"]["approved"] for golden in service.client.get(GOLDENS).json()}
    assert pointing == {"one.float32": 2, "two.float32": 1, "three.float32": 1, "four.float32": 1}
    other = service.client.post(
        f"{GOLDENS}/approvals", json={"cause": "gremlins", "why": "x", "items": [{**items[3], "expected_version": 1}]}
    )
    assert "another cause: torch" in other.json()["items"][0]["refused"]["detail"]
