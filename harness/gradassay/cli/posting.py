"""Sends files to the service: all of them checked before the first is sent, then several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from gradassay.client.client import segment
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import Forbidden, GradassayError, Unauthorised, Unreachable, UsageError
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record
from gradassay.goldens.reference import resolve

if TYPE_CHECKING:
    from gradassay.client.client import ServiceClient

HOPELESS = (Unauthorised, Forbidden, Unreachable)
"""Failures that the next file would meet as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable:
    """A valid file. name: that of a golden, empty for a record. why: the reason that a golden is proposed with."""

    path: Path
    kind: Literal["record", "golden"]
    digest: str
    name: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a file. ref: `run:ID` or `golden:NAME@vN`, empty where it was not sent. created: it was new.

    error: why it was not sent, None too where it was not tried because others failed.
    """

    file: Sendable
    ref: str = ""
    id: str = ""
    link: str = ""
    created: bool = False
    error: GradassayError | None = None

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        document: dict[str, Any] = {
            "file": str(self.file.path),
            "kind": self.file.kind,
            "digest": self.file.digest,
            "ref": self.ref or None,
            "id": self.id or None,
            "link": self.link or None,
            "created": self.created,
        }
        if not self.ref:
            known = self.error
            document["error"] = {"code": known.code, "message": known.message, "hint": known.hint} if known else None
        return document


def sendable(texts: Sequence[str], *, why: str = "") -> tuple[Sendable, ...]:
    """The records and goldens that these files and folders hold, each content once, every one read and found valid.

    why: the reason that goldens are proposed with. Raises InvalidFile or UnknownFormat for the first that is not valid,
    UsageError for a reference that is no file.
    """
    found: dict[str, Sendable] = {}
    for text in texts:
        for referred in resolve(text, _no_store):
            name = ""
            if referred.kind == "golden":
                name = read_golden(referred.path).name
            else:
                read_record(referred.path)
            digest = digest_of_file(referred.path)
            file = Sendable(path=referred.path, kind=referred.kind, digest=digest, name=name, why=why)
            found.setdefault(digest, file)
    return tuple(found.values())


def _no_store() -> NoReturn:
    raise UsageError("only files and folders can be posted", hint="write gradassay post FILE or gradassay post FOLDER")


def send_all(
    client: ServiceClient, files: Sequence[Sendable], *, jobs: int, done: Callable[[Sent], None]
) -> tuple[Sent, ...]:
    """What became of each file, in their order; after a failure that the next one would meet too, none is begun.

    jobs: how many are on their way at once. done: told as each one ends, by the thread that sent it.
    """
    hopeless = threading.Event()

    def one(file: Sendable) -> Sent:
        if hopeless.is_set():
            return Sent(file=file)
        try:
            sent = send(client, file)
        except GradassayError as error:
            if isinstance(error, HOPELESS):
                hopeless.set()
            sent = Sent(file=file, error=error)
        done(sent)
        return sent

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return tuple(pool.map(one, files))


def send(client: ServiceClient, file: Sendable) -> Sent:
    """The run or version that the service made of the file; the same content again gives the same."""
    if file.kind == "record":
        run, created = client.send_file("/runs", file.path, file.digest)
        link = f"{client.url}/runs/{segment(run['id'])}"
        return Sent(file=file, ref=f"run:{run['id']}", id=run["id"], link=link, created=created)
    version, created = client.send_file(f"/goldens/{segment(file.name)}/versions", file.path, file.digest, why=file.why)
    number = version["version"]
    link = f"{client.url}/goldens/{segment(file.name)}/v{number}"
    return Sent(file=file, ref=f"golden:{file.name}@v{number}", id=f"v{number}", link=link, created=created)
