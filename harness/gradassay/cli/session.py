"""What the global options say, and where output goes: data to stdout, messages and progress to stderr."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from gradassay.goldens.errors import Exit

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from gradassay.harness.progress import Progress

PLAIN_WIDTH = 110
"""Columns where stdout is no terminal and COLUMNS says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One invocation. url: the service, empty where none is meant. local: a store was named, which goes before it."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
    url: str = ""
    local: bool = False

    @property
    def remote(self) -> bool:
        """Whether goldens and records are those of the service."""
        return bool(self.url) and not self.local

    def emit(self, text: str) -> None:
        """Writes data to stdout; a reader that went away (`| head`) is no error."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def emit_json(self, document: Any) -> None:
        """Writes one strictly valid JSON document to stdout."""
        import json

        self.emit(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def show(self, renderable: RenderableType) -> None:
        """Writes something that rich can render to stdout, in colour on a terminal."""
        out = console(sys.stdout)
        with out.capture() as captured:
            out.print(renderable)
        text = captured.get()
        self.emit(text if out.is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))

    def say(self, text: str) -> None:
        """Writes a message to stderr, unless --quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def progress(self, *, lines: bool = False) -> Progress:
        """Bars on stderr where that is a terminal and --quiet is not given; elsewhere notices, or with lines a few lines."""
        from gradassay.cli.lines import Lines, Notices

        if self.quiet or not sys.stderr.isatty():
            return Lines(self.say) if lines else Notices(self.say)
        from gradassay.cli.bars import Bars

        return Bars(console(sys.stderr))


def console(stream: Any) -> Console:
    """A rich console on the stream; NO_COLOR and COLUMNS are honoured."""
    from rich.console import Console

    plain = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Console(file=stream, width=plain, highlight=False, markup=False, legacy_windows=False)


def session_of(context: typer.Context) -> Session:
    """The session of the running command."""
    session: Session = context.obj
    return session


def leave(exit: Exit) -> NoReturn:
    """Ends the command with this exit code."""
    raise typer.Exit(int(exit))
