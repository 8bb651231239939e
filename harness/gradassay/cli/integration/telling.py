"""What a job leaves for people: reports in its folder, and remarks where the forge shows them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.errors import GradassayError

if TYPE_CHECKING:
    from gradassay.cli.session import Session
    from gradassay.forges.outcome import CiResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where people look. key: tells the comments of several jobs apart. junit, summary: more files for what the folder has."""

    folder: Path
    comment: bool
    key: str
    junit: Path | None
    summary: Path | None


def tell_people(session: Session, result: CiResult, places: Places) -> tuple[CiResult, GradassayError | None]:
    """The result with notes on what could not be told, and the error where reports could not be written."""
    from gradassay.client.settings import ClientSettings
    from gradassay.forges.detect import detect
    from gradassay.forges.telling import tell
    from gradassay.goldens.atomic import write_atomically

    # Whoever reads stdout as JSON reads nothing else there; runners take commands from both streams.
    commands = sys.stderr if session.json else sys.stdout
    try:
        notes = tell(
            result,
            detect(os.environ),
            places.folder,
            comment=places.comment,
            key=places.key,
            retry_s=ClientSettings.load().retry_s,
            emit=lambda line: print(line, file=commands, flush=True),
            say=session.say,
        )
        for name, copy in (("junit.xml", places.junit), ("summary.md", places.summary)):
            if copy is not None:
                write_atomically(copy, (places.folder / name).read_bytes())
    except GradassayError as error:
        return result, error
    return replace(result, notes=(*result.notes, *notes)), None
