"""What each test came to, one file a test, so that whichever process ran it can die and its part stays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.errors import Exit, GradassayError
from gradassay.goldens.report.suite import ERROR
from gradassay.testing.scratch import scratch_of

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one comparison of a test came to.

    test: its node id. verdict and exit: those of the assay; where there is none, "skipped", or the code and exit of the
    error. assay: as gradassay.goldens.report.json writes it. error: as `error_of` writes it. record: its file below
    `records` of the report's folder. number: of the comparison, from 1, where a test makes several.
    """

    test: str
    verdict: str
    exit: int
    cell: str | None = None
    assay: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    record: str | None = None
    golden: str | None = None
    reproduce: str = ""
    seconds: float = 0.0
    number: int = 1


def error_of(error: GradassayError) -> dict[str, Any]:
    """The error as a part holds it."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


class Parts:
    """The parts of one run, below the folder of its report; every process of the run may write.

    A part is a file of its own, named by a digest of the test, and appears whole or not at all. What another run left in
    the same folder is never read.
    """

    def __init__(self, folder: Path, *, run: str) -> None:
        self.folder = folder
        self.run = run
        self._own = scratch_of(folder, run)

    def write(self, part: Part) -> None:
        """Writes the part, over an earlier one of the same test and number.

        Raises StoreError, its subclass StorageFull where the disk is full; the earlier one is then still there.
        """
        document = {"format": FORMAT, "kind": "part", "run": self.run, **asdict(part)}
        # Escaped, since what a test is called may hold what is no Unicode text.
        write_atomically(self._own / _name(part), json.dumps(document, allow_nan=False, indent=1).encode())

    def lost(self, test: str, reason: str) -> None:
        """Makes an error of a test whose process died; what it had compared before stays beside that."""
        error = {"code": "cell-failed", "message": reason, "hint": "run this test alone to see what it printed"}
        known = [part for part in self.read() if part.test == test]
        for part in known or [Part(test=test, verdict=ERROR, exit=Exit.INCOMPLETE)]:
            self.write(replace(part, verdict=ERROR, exit=int(Exit.INCOMPLETE), error=error))

    def read(self) -> tuple[Part, ...]:
        """The parts of this run by test and number; what is not a part is left out, and `ignored` says so."""
        found = [part for _, part in self._files() if isinstance(part, Part)]
        return tuple(sorted(found, key=lambda part: (part.test, part.number)))

    def ignored(self) -> tuple[str, ...]:
        """A sentence for each file in the run's folder that looks like a part and is none of this run."""
        return tuple(f"{path.name} is left out: {reason}" for path, reason in self._files() if isinstance(reason, str))

    def _files(self) -> Iterator[tuple[Path, Part | str]]:
        for path in sorted(self._own.glob("*.json")):
            yield path, _read(path, self.run)


def _name(part: Part) -> str:
    key = part.test if part.number == 1 else f"{part.test}\0{part.number}"
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _read(path: Path, run: str) -> Part | str:
    """The part in a file, or why there is none."""
    from pydantic import TypeAdapter, ValidationError

    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({error})"
    if not isinstance(document, Mapping) or document.get("kind") != "part":
        return "it was not written by gradassay"
    if document.get("format") != FORMAT:
        return f"format {document.get('format')!r} is not known to this release, which reads format {FORMAT}"
    if document.get("run") != run:
        return f"it is of run {document.get('run')!r}, not of {run!r}"
    try:
        part: Part = TypeAdapter(Part).validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return part if path.name == _name(part) else f"it is named like another test than {part.test!r}"
