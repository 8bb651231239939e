"""The report of a run, made of its parts by the one process that sees them all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from gradassay.goldens.assay.result import EXITS, Verdict
from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.errors import Exit, UsageError
from gradassay.goldens.report.html import render_suite
from gradassay.goldens.report.json import dumps, from_json
from gradassay.goldens.report.junit_suite import render_junit_suite
from gradassay.goldens.report.suite import ERROR, SKIPPED, Entry, Result, Suite
from gradassay.goldens.store.lock import locked
from gradassay.goldens.store.staging import now
from gradassay.testing.parts import Part, Parts
from gradassay.testing.scratch import FOLDER, GUARD

FORMAT = 1
PAGE, DOCUMENT, JUNIT = "index.html", "report.json", "junit.xml"
RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A report that was written. verdict and exit: the gravest of its tests; of no test at all, an error. notes: what the
    tests do not say, a sentence each.
    """

    folder: Path
    verdict: str
    exit: Exit
    notes: tuple[str, ...]


def publish(folder: Path, *, run: str) -> Published:
    """Writes `index.html`, `junit.xml` and, last, `report.json` into the folder, each whole or not at all.

    They hold the parts of this run alone, and replace the files of a run before. Files in `records` stay as they are: a
    record of a run before is replaced by one of the same name and else left, and a note counts those left. Of two runs
    that publish into one folder, the later one's report stays. Raises StoreError where the folder cannot be written.
    """
    parts = Parts(folder, run=run)
    found = parts.read()
    ignored = parts.ignored()
    notes = (*ignored, *_others(folder, found))
    entries = tuple(map(_entry, found))
    # What cannot be read may have been a test that failed.
    unread = tuple(Entry(name="gradassay", verdict=ERROR, message=(text,)) for text in ignored)
    suite = Suite(run=run, created=now(), entries=entries + unread, notes=notes)
    exit_code = _exit(suite, found)
    document = {
        "format": FORMAT,
        "kind": "suite",
        "run": run,
        "created": suite.created,
        "verdict": suite.verdict,
        "exit": int(exit_code),
        "counts": dict(suite.counts),
        "results": {str(result): suite.count(result) for result in Result},
        "tests": [{**asdict(part), "result": str(entry.result)} for part, entry in zip(found, entries, strict=True)],
        "notes": list(notes),
    }
    with locked(folder / FOLDER / GUARD):
        write_atomically(folder / PAGE, render_suite(suite).encode())
        write_atomically(folder / JUNIT, render_junit_suite(suite).encode())
        write_atomically(folder / DOCUMENT, dumps(document).encode("utf-8", "backslashreplace"))
    return Published(folder=folder, verdict=suite.verdict, exit=exit_code, notes=notes)


def _entry(part: Part) -> Entry:
    assay, message = None, []
    if part.error is not None:
        text = "\n".join(str(part.error.get(key, "")) for key in ("message", "hint"))
        message += text.splitlines() or [ERROR]
    if part.assay is not None:
        try:
            assay = from_json(part.assay)
        except UsageError as error:
            message += [f"its assay cannot be shown: {error.message}"]
    facts = {"cell": part.cell, "golden": part.golden, "record": part.record}
    passed = part.verdict == Verdict.AGREE and assay is not None and assay.verdict is Verdict.AGREE and not message
    return Entry(
        name=part.test if part.number == 1 else f"{part.test} ({part.number})",
        verdict=ERROR if part.verdict == Verdict.AGREE and not passed else part.verdict,
        assay=assay,
        message=tuple(filter(None, message)),
        facts={title: text for title, text in facts.items() if text},
        reproduce=part.reproduce,
        seconds=part.seconds,
    )


def _exit(suite: Suite, parts: tuple[Part, ...]) -> Exit:
    """That of the gravest test: AGREE only where every test that was not skipped passed, and one at least did."""
    if suite.verdict in set(Verdict):
        return EXITS[Verdict(suite.verdict)]
    codes = {part.exit for part in parts if part.verdict == suite.verdict and part.exit in set(Exit)} - {Exit.AGREE}
    if codes:
        return Exit(min(codes))
    return Exit.NO_GOLDEN if suite.verdict == SKIPPED else Exit.INCOMPLETE


def _others(folder: Path, parts: tuple[Part, ...]) -> tuple[str, ...]:
    own = {part.record for part in parts}
    left = [path.name for path in (folder / RECORDS).glob("*.safetensors") if path.name not in own]
    if not left:
        return ()
    files = "1 file" if len(left) == 1 else f"{len(left)} files"
    return (f"records of runs before this one, which no test of this report made: {files} in {RECORDS}",)
