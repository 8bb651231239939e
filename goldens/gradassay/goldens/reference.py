"""What people write for a record or golden (a file, a folder, `run:`, `golden:`, `mlflow:`), and the files it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gradassay.goldens.container import open_container
from gradassay.goldens.errors import InvalidFile, UsageError

Kind = Literal["record", "golden"]
_VERSION = re.compile(r"v([1-9]\d*)")
FORMS = "a file, a folder, run:ID, golden:NAME[@approved|@vN] or mlflow:RUN_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Referred:
    """A local file, what it holds, and how it was referred to."""

    kind: Kind
    ref: str
    path: Path


class Files(Protocol):
    """What keeps the files that references mean: a store, or a service."""

    def golden_path(self, name: str, version: int | None = None, *, channel: str = ...) -> Path:
        """A local file with the given version, or with the one that `channel` points to."""
        ...

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this id or digest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenReference:
    """A golden of the store: one version, or the one that a channel points to."""

    name: str
    version: int | None
    channel: str = "approved"

    @classmethod
    def parse(cls, text: str) -> GoldenReference:
        """The reference written as NAME, NAME@CHANNEL or NAME@vN, with or without `golden:` before it."""
        name, _, at = text.removeprefix("golden:").partition("@")
        if not name or text.endswith("@"):
            raise UsageError(f"{text!r} names no golden", hint="write NAME, NAME@approved or NAME@v3")
        match = _VERSION.fullmatch(at)
        return cls(name=name, version=int(match[1]) if match else None, channel="approved" if match or not at else at)


def resolve(text: str, store: Callable[[], Files]) -> tuple[Referred, ...]:
    """The files that `text` means: one, or all records and goldens of a folder by name.

    store: opened only where the reference needs it. Raises InvalidFile for a path that is not there or a folder
    without records and goldens; NotFound and NoGolden as the store does.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("run", "mlflow"):
        if not rest:
            raise UsageError(f"{text!r} names no run", hint=f"write {FORMS}")
        return (Referred(kind="record", ref=text, path=store().record_path(rest)),)
    if colon and scheme == "golden":
        wanted = GoldenReference.parse(text)
        path = store().golden_path(wanted.name, wanted.version, channel=wanted.channel)
        return (Referred(kind="golden", ref=text, path=path),)
    path = Path(text)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InvalidFile(f"{text}: there is no such file", hint=f"write {FORMS}", path=text)
    return (Referred(kind=_kind(path), ref=text, path=path),)


def _folder(folder: Path) -> tuple[Referred, ...]:
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise InvalidFile(
            f"{folder}: holds no record or golden",
            hint="they are files ending in .safetensors, written by gradassay record or gradassay golden build",
            path=str(folder),
        )
    return tuple(Referred(kind=_kind(path), ref=str(path), path=path) for path in paths)


def _kind(path: Path) -> Kind:
    return "golden" if open_container(path).document["kind"] == "golden" else "record"
