"""Progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from gradassay.harness.progress import Advance


class Bars:
    """One bar a stage, with the piece that was done last; satisfies gradassay.harness.progress.Progress.

    Bars are drawn while a stage is open, and nothing is between stages, so that data and messages have the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: RichProgress | None = None
        self._open = 0

    @contextmanager
    def stage(self, title: str, total: int) -> Iterator[Advance]:
        """A bar of `total` steps; steps that failed are counted beside it. Stages may stand inside stages."""
        shown = self._shown = self._shown or self._start()
        self._open += 1
        bar = shown.add_task(title, total=total, label="")
        failed = 0

        def advance(label: str, *, ok: bool = True) -> None:
            nonlocal failed
            failed += not ok
            shown.update(bar, advance=1, label=f"{failed} failed, {label}" if failed else label)

        try:
            yield advance
        finally:
            shown.update(bar, label=f"{failed} failed" if failed else "")
            self._open -= 1
            if self._open == 0:
                shown.stop()
                self._shown = None

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._console.print(text)

    def _start(self) -> RichProgress:
        progress = RichProgress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[label]}", style="dim", markup=False, table_column=Column(no_wrap=True)),
            console=self._console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        progress.start()
        return progress
