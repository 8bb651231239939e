"""Hostile and broken uploads, over a real socket: refused with the reason, and nothing of them is kept."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from served import Service, serving

RUNS = "/api/v1/runs"


def content_digest(body: bytes) -> dict[str, str]:
    return {"Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"}


def in_pieces(body: bytes, size: int = 1000) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def is_untouched(service: Service) -> bool:
    """Neither a file nor a row was left behind."""
    return service.is_untouched() and not service.parts.runs.page("*").items


def with_header(record: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The record with its safetensors header changed."""
    length = int.from_bytes(record[:8], "little")
    header = json.loads(record[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + record[8 + length :]


def with_document(record: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The record with its own document changed."""

    def rewrite(header: dict[str, Any]) -> None:
        document = json.loads(header["__metadata__"]["gradassay"])
        change(document)
        header["__metadata__"]["gradassay"] = json.dumps(document)

    return with_header(record, rewrite)


def renamed(name: str) -> Callable[[bytes], bytes]:
    """Gives the first parameter this name."""
    return lambda record: with_document(record, lambda document: document["parameters"][0].update(name=name))


def stating(**changes: Any) -> Callable[[bytes], bytes]:
    """Changes what the document states, a part of it at a time."""

    def change(document: dict[str, Any]) -> None:
        for name, value in changes.items():
            document[name] = {**document[name], **value} if isinstance(document.get(name), dict) else value

    return lambda record: with_document(record, change)


def raw(text: str) -> Callable[[bytes], bytes]:
    """Puts this text where the document says which environment it was: JSON that json.dumps would not write."""

    def change(record: bytes) -> bytes:
        marked = with_document(record, lambda document: document.update(environment="MARK"))
        length = int.from_bytes(marked[:8], "little")
        header = marked[8 : 8 + length].replace(b'\\"MARK\\"', text.encode())
        return len(header).to_bytes(8, "little") + header + marked[8 + length :]

    return change


def lie_about_shape(header: dict[str, Any]) -> None:
    header["reduced.1.sketch"]["shape"][0] += 1


def overlap(header: dict[str, Any]) -> None:
    header["reduced.1.norm2"]["data_offsets"] = header["reduced.1.absmax"]["data_offsets"]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], int, str, str]] = {
    "empty": (lambda record: b"", 422, "invalid-file", "0 bytes"),
    "three bytes": (lambda record: b"abc", 422, "invalid-file", "3 bytes"),
    "truncated": (lambda record: record[:-100], 422, "invalid-file", "truncated"),
    "half a header": (lambda record: record[:200], 422, "invalid-file", "header claims"),
    "gigabyte header": (lambda record: (2**30).to_bytes(8, "little") + record[8:], 422, "invalid-file", "1073741824"),
    "huge length": (lambda record: (2**60).to_bytes(8, "little") + record[8:], 422, "invalid-file", "header claims"),
    "largest length": (lambda record: b"\xff" * 8 + record[8:], 422, "invalid-file", "header claims"),
    "trailing bytes": (lambda record: record + b"more", 422, "invalid-file", "bytes, as the header implies"),
    "lying shape": (lambda record: with_header(record, lie_about_shape), 422, "invalid-file", "reduced.1.sketch"),
    "overlapping arrays": (lambda record: with_header(record, overlap), 422, "invalid-file", "data_offsets"),
    "lying layout": (stating(layout={"ep": 3}), 422, "invalid-file", "ep = 3 does not divide"),
    "layout of a planet": (stating(layout={"dp": 10**9, "ep": 1}), 422, "invalid-file", "at most 1048576 units"),
    "pickle": (lambda record: pickle.dumps({"a": list(range(5000))}), 422, "invalid-file", "pickles are never read"),
    "zip, as torch saves": (lambda record: b"PK\x03\x04" + bytes(2000), 422, "invalid-file", "pickles are never read"),
    "html": (lambda record: b"<!doctype html><title>no</title>", 422, "invalid-file", "header claims"),
    "unknown format": (stating(format=9), 422, "unknown-format", "format 9"),
    "name out of its folder": (renamed("../../etc/passwd"), 422, "invalid-file", "no path out of its folder"),
    "absolute name": (renamed("/etc/passwd"), 422, "invalid-file", "no path out of its folder"),
    "name with dots inside": (renamed("layers/../../x"), 422, "invalid-file", "no path out of its folder"),
    "name of Windows": (renamed("..\\x"), 422, "invalid-file", "no path out of its folder"),
    "name with NUL": (renamed("weight\0.png"), 422, "invalid-file", "control characters"),
    "name with escape codes": (renamed("\x1b[2Jweight"), 422, "invalid-file", "control characters"),
    "endless name": (renamed("n" * 5000), 422, "invalid-file", "at most 1024 characters"),
    "problem out of its folder": (stating(problem={"name": "../x"}), 422, "invalid-file", "no path out of its folder"),
    "problem without digest": (stating(problem={"digest": ""}), 422, "invalid-file", "problem: digest"),
    "endless framework": (stating(framework={"name": "f" * 300}), 422, "invalid-file", "at most 128 characters"),
    "strategy with NUL": (stating(strategy="ddp\0"), 422, "invalid-file", "control characters"),
    "NaN in the header": (raw('{\\"a\\":NaN}'), 422, "invalid-file", "NaN is no JSON number"),
    "infinity in the header": (raw('{\\"a\\":1e999}'), 422, "invalid-file", "finite JSON values"),
    "digits without end": (raw('{\\"a\\":' + "9" * 5000 + "}"), 422, "invalid-file", "gradassay"),
    "a name twice": (raw('{\\"a\\":1,\\"a\\":2}'), 422, "invalid-file", "'a' more than once"),
    "lone surrogate": (raw('{\\"a\\":\\"\\\\ud800\\"}'), 422, "invalid-file", "a JSON object"),
    "deep environment": (stating(environment=nested(40)), 422, "invalid-file", "at most 16 levels"),
    "bottomless environment": (
        raw('{\\"a\\":' + "[" * 40000 + "]" * 40000 + "}"),
        422,
        "invalid-file",
        "RecursionError",
    ),
    "environment with NUL": (stating(environment={"a": ["\0"]}), 422, "invalid-file", "control characters"),
    "formula that is no formula": (
        stating(convention={"expert": "__import__('os').abort()"}),
        422,
        "invalid-file",
        "scales that can be read",
    ),
    "formula without end": (stating(convention={"all": "9**9**9**9"}), 422, "invalid-file", "scales that can be read"),
    "too large": (lambda record: record + bytes(300_000), 413, "too-large", "300000"),
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all that it refuses: nothing that is refused may leave a trace for the next."""
    folder = tmp_path_factory.mktemp("strict")
    patch = pytest.MonkeyPatch()
    uploads = folder / "uploads"
    uploads.mkdir()
    patch.setattr("tempfile.tempdir", str(uploads))
    with serving(folder, uploads=uploads) as running:
        yield running
    patch.undo()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_hostile_upload_is_refused_and_nothing_is_kept(strict: Service, record: bytes, name: str, streamed: bool):
    spoil, status, code, text = HOSTILE[name]
    body = spoil(record)
    assert body != record
    answer = strict.client.post(RUNS, content=in_pieces(body) if streamed else body)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert text in f"{problem['detail']} {problem['hint']}"
    assert "upload" in problem["detail"]
    assert not any(place in answer.text for place in ("/proc/", str(strict.uploads), str(strict.folder)))
    assert len(answer.text) < 6000
    assert is_untouched(strict)


@pytest.mark.parametrize(
    "change", [renamed("layers/0/kernel"), renamed("wörter..weight"), stating(environment=nested(8)), stating()]
)
def test_what_is_kept_differs_from_what_is_refused_by_that_alone(
    service: Service, record: bytes, change: Callable[[bytes], bytes]
):
    assert service.client.post(RUNS, content=change(record)).status_code == 201


def test_golden_is_no_record(strict: Service, golden: Path):
    answer = strict.client.post(RUNS, content=golden.read_bytes())
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-file")
    assert "'record'" in answer.json()["detail"]
    assert is_untouched(strict)


def test_wrong_digest_is_refused_with_both(strict: Service, record: bytes):
    other = record[:-1] + bytes([record[-1] ^ 1])
    answer = strict.client.post(RUNS, content=other, headers=content_digest(record))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-file")
    for body in (record, other):
        assert hashlib.sha256(body).hexdigest() in answer.json()["detail"]
    assert is_untouched(strict)


@pytest.mark.parametrize("header", ["md5=:1B2M2Y8AsgTpgAmY7PhCfg==:", "sha-256=:short:", "sha-256=abc", "nonsense"])
def test_digest_that_cannot_be_checked_is_refused(strict: Service, record: bytes, header: str):
    answer = strict.client.post(RUNS, content=record, headers={"Content-Digest": header})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert is_untouched(strict)


def test_form_is_refused_with_what_to_do(strict: Service, record: bytes):
    for form in ({"files": {"file": record}}, {"data": {"file": "record"}}):
        answer = strict.client.post(RUNS, **form)
        assert (answer.status_code, answer.json()["code"]) == (400, "usage")
        assert "--data-binary" in answer.json()["hint"]
    assert is_untouched(strict)


def test_declared_length_beyond_the_limit_is_refused_before_anything_is_sent(strict: Service):
    answer = exchange(strict, b"", length=str(10**15), close=False)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"too-large" in answer
    assert is_untouched(strict)


def test_file_that_will_never_be_one_is_read_to_its_end_but_not_kept(tmp_path: Path, record: bytes):
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    with serving(tmp_path, uploads=uploads, max_upload_bytes=64 * 2**20) as service:
        checkpoint = b"PK\x03\x04" + bytes(32 * 2**20)
        answer = service.client.post(RUNS, content=in_pieces(checkpoint, 2**20))
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-file")
        assert "pickles are never read" in answer.json()["hint"]
        assert is_untouched(service)


def exchange(service: Service, body: bytes, *, length: str | None, close: bool = True, chunked: bool = False) -> bytes:
    """Everything that the service answers to a request that is written byte by byte."""
    head = [f"POST {RUNS} HTTP/1.1", "Host: localhost", f"Authorization: {service.client.headers['Authorization']}"]
    head += [f"Content-Length: {length}"] if length is not None else []
    head += ["Transfer-Encoding: chunked"] if chunked else []
    head += ["Connection: close"]
    answer = b""
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        if close:
            connection.shutdown(socket.SHUT_WR)
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return answer


@pytest.mark.parametrize("claimed", [1, 100])
def test_connection_that_ends_early_leaves_nothing(strict: Service, record: bytes, claimed: int):
    exchange(strict, record, length=str(len(record) + claimed))
    assert strict.client.get("/healthz").status_code == 200
    assert is_untouched(strict)


def test_chunks_that_stop_leave_nothing(strict: Service, record: bytes):
    exchange(strict, f"{len(record):x}\r\n".encode() + record[:5000], length=None, chunked=True)
    assert strict.client.get("/healthz").status_code == 200
    assert is_untouched(strict)


def test_length_that_is_too_short_ends_the_file_there(strict: Service, record: bytes):
    answer = exchange(strict, record, length=str(len(record) - 9), close=False)
    assert b" 422 " in answer.split(b"\r\n")[0]
    assert is_untouched(strict)


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "99999999999999999999999999", "12 12"])
def test_length_that_is_no_number_is_refused(strict: Service, record: bytes, length: str):
    answer = exchange(strict, record, length=length, close=False)
    assert answer.split(b" ")[1] in (b"400", b"413")
    assert is_untouched(strict)


def test_full_disk_is_said_and_leaves_nothing(tmp_path: Path, record: bytes):
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    with serving(tmp_path, uploads=uploads, max_upload_bytes=64 * 2**20) as service:
        body = (2**20).to_bytes(8, "little") + bytes(24 * 2**20)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 2**20, hard))
        try:
            answer = service.client.post(RUNS, content=body)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
        assert "nothing was kept" in answer.json()["hint"]
        assert is_untouched(service)
        assert service.client.post(RUNS, content=record).status_code == 201


def test_upload_has_no_name_while_it_arrives(strict: Service, record: bytes):
    head = f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {strict.client.headers['Authorization']}\r\n"
    with socket.create_connection(strict.address, timeout=30) as connection:
        connection.sendall(f"{head}Content-Length: {len(record)}\r\n\r\n".encode() + record[:-1])
        assert strict.client.get("/healthz").status_code == 200
        assert not list(strict.uploads.iterdir())
    assert is_untouched(strict)
