"""Downloads: whole, in ranges, not at all where the client has the file, and only of the caller's own project."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gradassay.goldens.store.directory import DirectoryStore
from served import Service


@pytest.fixture
def run(service: Service, record: bytes, tmp_path: Path) -> str:
    path = tmp_path / "record.safetensors"
    path.write_bytes(record)
    digest = f"sha256:{hashlib.sha256(record).hexdigest()}"
    kept, _ = service.parts.runs.post(path, digest, who="tests", project="default")
    return kept.id


@pytest.fixture
def version(service: Service, golden: Path) -> str:
    service.parts.ledger.propose(golden, who="tests", project="default", why="first")
    return "toy.float32/versions/1"


def content_digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def test_a_record_comes_back_as_it_was_posted(service: Service, run: str, record: bytes):
    answer = service.client.get(f"/api/v1/runs/{run}/record")

    assert (answer.status_code, answer.content) == (200, record)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == str(len(record))
    assert answer.headers["Content-Digest"] == answer.headers["Repr-Digest"] == content_digest(record)
    assert answer.headers["ETag"] == f'"sha256:{hashlib.sha256(record).hexdigest()}"'
    assert "private" in answer.headers["Cache-Control"]


def test_a_golden_comes_back_as_it_was_proposed(service: Service, version: str, golden: Path):
    answer = service.client.get(f"/api/v1/goldens/{version}/file")

    assert (answer.status_code, answer.content) == (200, golden.read_bytes())
    assert answer.headers["Content-Digest"] == content_digest(golden.read_bytes())


def test_what_the_client_has_is_not_sent_again(service: Service, run: str):
    path = f"/api/v1/runs/{run}/record"
    etag = service.client.get(path).headers["ETag"]

    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = service.client.get(path, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["ETag"] == etag
    assert service.client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_range_says_the_digest_of_the_whole_only(service: Service, run: str, record: bytes):
    answer = service.client.get(f"/api/v1/runs/{run}/record", headers={"Range": "bytes=10-19"})

    assert (answer.status_code, answer.content) == (206, record[10:20])
    assert answer.headers["Repr-Digest"] == content_digest(record)
    assert "Content-Digest" not in answer.headers


def test_nobody_else_gets_it(service: Service, run: str, version: str, mint: Callable[..., dict[str, str]]):
    for path in (f"/api/v1/runs/{run}/record", f"/api/v1/goldens/{version}/file"):
        assert service.anonymous.get(path).status_code == 401
        other = service.anonymous.get(path, headers=mint(service, "post", "review", project="other"))
        assert (other.status_code, other.json()["code"]) == (404, "not-found")
        assert service.anonymous.get(path, headers=mint(service, project="*")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/0123456789abcdef/record",
        "/api/v1/goldens/nobody/versions/1/file",
        "/api/v1/goldens/toy.float32/versions/9/file",
        "/api/v1/goldens/..%2F..%2Fetc/versions/1/file",
    ],
)
def test_what_is_not_there(service: Service, version: str, path: str):
    answer = service.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize("number", ["0", "-1", "x", "99999999999999999999"])
def test_a_version_that_is_none(service: Service, version: str, number: str):
    answer = service.client.get(f"/api/v1/goldens/toy.float32/versions/{number}/file")
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")


def test_a_damaged_file_is_the_services_failure(service: Service, run: str, version: str):
    assert isinstance(service.store, DirectoryStore)
    for file in service.folder.rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    for path in (f"/api/v1/runs/{run}/record", f"/api/v1/goldens/{version}/file"):
        answer = service.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (500, "store")
        assert str(service.folder) not in answer.json()["detail"]
