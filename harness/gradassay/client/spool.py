"""What could not be sent because the service did not answer, kept on disk until it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from gradassay.goldens.atomic import PARTIAL, write_atomically
from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import InvalidFile, StoreError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.record import Record, read_record
from gradassay.goldens.store.lock import locked, taking
from gradassay.goldens.store.staging import now, publish, remove_abandoned, staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """One file that waits. url: of the service that it is meant for. name: that of a golden, empty for a record.

    why: the reason that a golden is proposed with. source: where it was, for messages. since: UTC, ISO 8601.
    """

    url: str
    digest: str
    kind: Literal["record", "golden"]
    name: str = ""
    why: str = ""
    source: str = ""
    since: str = ""


_SPOOLED: TypeAdapter[Spooled] = TypeAdapter(Spooled)


class Spool:
    """The files that wait for one service, in a folder of its own below `folder`; those of other services are not seen.

    A file lies there once, by its digest, and is visible with the `.json` beside it, which is written last and goes
    first. Whoever sends takes a turn; the service knows a file by its digest, so that one which was sent but not yet
    removed when a process died is the same run when it is sent again.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url.rstrip("/")
        self.folder = folder.expanduser().absolute() / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def add(
        self, path: Path, *, kind: Literal["record", "golden"], name: str = "", why: str = "", source: str = ""
    ) -> Spooled:
        """The entry of a copy of the file, made now or there already; nothing is left behind where it cannot be made.

        Raises StorageFull or StoreError where it cannot be kept, InvalidFile where it is no longer what it was.
        """
        read: Callable[[Path], Golden | Record] = read_golden if kind == "golden" else read_record
        self._make()
        with locked(self.folder / ".writing"):
            self._sweep()
            with staged(path, self.folder, read) as incoming:
                entry_path, content_path = self._paths(incoming.digest)
                if entry_path.exists():
                    return self._read(entry_path)
                entry = Spooled(
                    url=self.url,
                    digest=incoming.digest,
                    kind=kind,
                    name=name,
                    why=why,
                    source=source or str(path.absolute()),
                    since=now(),
                )
                publish(incoming.path, content_path)
                try:
                    write_atomically(entry_path, _SPOOLED.dump_json(entry, indent=1))
                except StoreError:
                    content_path.unlink(missing_ok=True)
                    raise
                return entry

    def count(self) -> int:
        """How many files wait."""
        return sum(1 for _ in self.folder.glob("*.json"))

    def entries(self, damaged: Callable[[StoreError], None]) -> Sequence[Spooled]:
        """What waits, oldest first. damaged: told about each entry that cannot be read; it keeps none of the others."""
        found = []
        for path in self.folder.glob("*.json"):
            try:
                found.append(self._read(path))
            except StoreError as error:
                damaged(error)
        return sorted(found, key=lambda entry: (entry.since, entry.digest))

    def content_path(self, entry: Spooled) -> Path:
        """Where the kept copy is."""
        return self._paths(entry.digest)[1]

    def check(self, entry: Spooled) -> None:
        """Raises InvalidFile where the kept copy is no longer what was spooled."""
        path = self.content_path(entry)
        found = digest_of_file(path) if path.exists() else "nothing"
        if found != entry.digest:
            raise InvalidFile(
                f"{path}: the spool holds {found} instead of {entry.digest}",
                hint=f"the disk or somebody changed it; it came from {entry.source}, post that again",
                path=str(path),
            )

    @contextmanager
    def turn(self, *, wait: bool) -> Iterator[bool]:
        """Whether it is this process's turn to send; without `wait` False where another one is sending just now.

        A turn ends with the process that has it. Where nothing was ever spooled nothing is made.
        """
        if not self.folder.is_dir():
            yield True
            return
        with taking(self.folder / ".sending", wait=wait) as held:
            yield held

    def remove(self, entry: Spooled) -> None:
        """Forgets what has been sent."""
        with locked(self.folder / ".writing"):
            entry_path, content_path = self._paths(entry.digest)
            _unlink(entry_path)
            _unlink(content_path)

    def put_aside(self, entry: Spooled) -> Path:
        """The folder where a file that the service will never take lies from now on; it is not sent again."""
        refused = self.folder / "refused"
        with locked(self.folder / ".writing"):
            try:
                refused.mkdir(exist_ok=True)
                for path in self._paths(entry.digest):
                    if path.exists():
                        path.replace(refused / path.name)
            except OSError as error:
                raise _unusable(self.folder, error) from error
        return refused

    def _make(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.folder, error) from error

    def _paths(self, digest: str) -> tuple[Path, Path]:
        name = digest.removeprefix("sha256:")
        return self.folder / f"{name}.json", self.folder / f"{name}.safetensors"

    def _sweep(self) -> None:
        """Removes what writers and senders left that died between two steps; the caller holds the writing lock."""
        remove_abandoned(self.folder)
        for path in self.folder.glob(f".*{PARTIAL}"):
            _unlink(path)
        for path in self.folder.glob("*.safetensors"):
            if not path.with_suffix(".json").exists():
                _unlink(path)

    def _read(self, path: Path) -> Spooled:
        try:
            entry = _SPOOLED.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise StoreError(
                f"{path}: is no entry of a spool ({str(error).splitlines()[0]})",
                hint="it was edited or damaged: delete it, and post what it stood for again",
                path=str(path),
            ) from error
        if entry.url != self.url:
            raise StoreError(f"{path}: is meant for {entry.url}, not for {self.url}", hint="move it out of the spool")
        return entry


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: the spool cannot be used ({error.strerror or error})",
        hint="name a folder of your own that can be written in GRADASSAY_SPOOL",
        path=str(path),
    )
