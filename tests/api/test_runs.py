"""Posting runs and asking for their assays, over a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RUNS = "/api/v1/runs"


def content_digest(body: bytes) -> dict[str, str]:
    return {"Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"}


def in_pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


def test_posted_run_is_kept_once(service, record: bytes):
    first = service.client.post(RUNS, content=record, headers=content_digest(record))
    again = service.client.post(RUNS, content=in_pieces(record))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.headers["location"] == f"{RUNS}/{first.json()['id']}"
    assert first.json()["digest"] == f"sha256:{hashlib.sha256(record).hexdigest()}"
    assert first.json()["layout"] == "dp4.ep2.accum2"
    assert service.store.record_path(first.json()["id"]).read_bytes() == record
    assert not list(service.uploads.iterdir())


def lying_header(record: bytes, change: Callable[[dict], None]) -> bytes:
    length = int.from_bytes(record[:8], "little")
    header = json.loads(record[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + record[8 + length :]


def lie_about_shape(header: dict) -> None:
    header["reduced.1.sketch"]["shape"][0] += 1


def lie_about_layout(header: dict) -> None:
    header["__metadata__"]["gradassay"] = header["__metadata__"]["gradassay"].replace('"ep":2', '"ep":3')


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], int, str, str]] = {
    "empty": (lambda record: b"", 422, "invalid-file", "0 bytes"),
    "truncated": (lambda record: record[:-100], 422, "invalid-file", "truncated"),
    "half a header": (lambda record: record[:200], 422, "invalid-file", "header claims"),
    "huge length": (lambda record: (2**60).to_bytes(8, "little") + record[8:], 422, "invalid-file", "header claims"),
    "trailing bytes": (lambda record: record + b"more", 422, "invalid-file", "bytes, as the header implies"),
    "lying shape": (lambda record: lying_header(record, lie_about_shape), 422, "invalid-file", "reduced.1.sketch"),
    "lying layout": (
        lambda record: lying_header(record, lie_about_layout),
        422,
        "invalid-file",
        "ep = 3 does not divide",
    ),
    "pickle": (lambda record: b"\x80\x04\x95" + bytes(40), 422, "invalid-file", "pickles are never read"),
    "unknown format": (
        lambda record: record.replace(b'\\"format\\":1', b'\\"format\\":9'),
        422,
        "unknown-format",
        "format 9",
    ),
    "too large": (lambda record: record + bytes(300_000), 413, "too-large", "300000"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_hostile_upload_is_refused_and_nothing_is_kept(service, record: bytes, name: str, streamed: bool):
    spoil, status, code, text = HOSTILE[name]
    body = spoil(record)
    answer = service.client.post(RUNS, content=in_pieces(body) if streamed else body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == code
    assert problem["status"] == status
    assert text in f"{problem['detail']} {problem['hint']}"
    assert str(service.uploads) not in answer.text
    assert service.is_untouched()


def test_golden_is_no_record(service, golden: Path):
    answer = service.client.post(RUNS, content=golden.read_bytes())
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-file")
    assert "'record'" in answer.json()["detail"]
    assert service.is_untouched()


def test_wrong_digest_is_refused_with_both(service, record: bytes):
    other = record[:-1] + bytes([record[-1] ^ 1])
    answer = service.client.post(RUNS, content=other, headers=content_digest(record))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-file")
    for body in (record, other):
        assert hashlib.sha256(body).hexdigest() in answer.json()["detail"]
    assert service.is_untouched()


@pytest.mark.parametrize("header", ["md5=:1B2M2Y8AsgTpgAmY7PhCfg==:", "sha-256=:short:", "sha-256=abc", "nonsense"])
def test_digest_that_cannot_be_checked_is_refused(service, record: bytes, header: str):
    answer = service.client.post(RUNS, content=record, headers={"Content-Digest": header})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert service.is_untouched()


def test_form_is_refused_with_what_to_do(service, record: bytes):
    answer = service.client.post(RUNS, files={"file": record})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert "--data-binary" in answer.json()["hint"]


@pytest.mark.parametrize("claimed", [1, 100])
def test_connection_that_ends_early_leaves_nothing(service, record: bytes, claimed: int):
    head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(record) + claimed}\r\n\r\n"
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(head.encode() + record)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert service.client.get("/healthz").status_code == 200
    assert service.is_untouched()


def test_length_that_is_too_short_ends_the_file_there(service, record: bytes):
    head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(record) - 9}\r\nConnection: close\r\n\r\n"
    answer = b""
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(head.encode() + record)
        while piece := connection.recv(65536):
            answer += piece
    assert b" 422 " in answer.split(b"\r\n")[0]
    assert service.is_untouched()


def test_assay_names_what_is_wrong_and_is_not_sent_twice(service, record: bytes, golden: Path):
    stored = service.store.put_golden(golden)
    service.store.approve(stored.name, 1, who="ada", why="because")
    run = service.client.post(RUNS, content=record).json()["id"]
    answer = service.client.get(f"{RUNS}/{run}/assay")
    assert answer.status_code == 200
    assay = answer.json()
    assert (assay["verdict"], assay["exit"]) == ("diverge", 1)
    assert assay["findings"][0]["families"] == ["expert"]
    assert assay["findings"][0]["law"]["value"] == pytest.approx(2.0, rel=1e-5)
    assert (assay["a"]["ref"], assay["b"]["ref"]) == ("golden:toy.float32@v1", f"run:{run}")
    etag = answer.headers["etag"]
    assert service.client.get(f"{RUNS}/{run}/assay", params={"against": "v1"}).headers["etag"] == etag
    for known in (etag, f'"other", W/{etag}', "*"):
        same = service.client.get(f"{RUNS}/{run}/assay", headers={"If-None-Match": known})
        assert (same.status_code, same.content) == (304, b"")
    assert service.client.get(f"{RUNS}/{run}/assay", headers={"If-None-Match": '"other"'}).text == answer.text


def test_assay_changes_its_tag_with_the_approved_version(service, toy, record: bytes, golden: Path, make_golden):
    name = service.store.put_golden(golden).name
    make_golden(toy, noise=1e-6).write(golden)
    service.store.put_golden(golden)
    run = service.client.post(RUNS, content=record).json()["id"]
    tags = []
    for version in (1, 2):
        service.store.approve(name, version, who="ada", why="because")
        tags.append(service.client.get(f"{RUNS}/{run}/assay").headers["etag"])
    assert tags[0] != tags[1]


def test_assay_without_a_golden_is_never_a_pass(service, record: bytes, golden: Path):
    run = service.client.post(RUNS, content=record).json()["id"]
    for _ in ("no golden at all", "none approved"):
        answer = service.client.get(f"{RUNS}/{run}/assay")
        assert (answer.status_code, answer.json()["code"]) == (404, "no-golden")
        service.store.put_golden(golden)
    for against, code in (("nightly", "no-golden"), ("v9", "not-found")):
        answer = service.client.get(f"{RUNS}/{run}/assay", params={"against": against})
        assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_unknown_run_is_not_found(service):
    answer = service.client.get(f"{RUNS}/0123456789abcdef/assay")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert "0123456789abcdef" in answer.json()["detail"]


def test_damaged_store_is_the_services_error(service, record: bytes, golden: Path):
    service.store.approve(service.store.put_golden(golden).name, 1, who="ada", why="because")
    run = service.client.post(RUNS, content=record).json()["id"]
    service.store.record_path(run).write_bytes(b"damaged")
    answer = service.client.get(f"{RUNS}/{run}/assay")
    assert (answer.status_code, answer.json()["code"]) == (500, "store")
    assert "damaged" in answer.json()["detail"]
