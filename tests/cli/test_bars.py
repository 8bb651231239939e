"""Progress on a terminal, and none elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradassay.cli.bars import Bars
from gradassay.cli.lines import Lines
from gradassay.cli.session import Session
from gradassay.harness.progress import Silent


def test_a_bar_counts_what_is_done_and_what_failed() -> None:
    stream = io.StringIO()
    bars = Bars(Console(file=stream, force_terminal=True, width=120, color_system=None))
    with bars.stage("references [16]", 3) as advance:
        advance("ddp dp2")
        advance("ddp dp4", ok=False)
        with bars.stage("inner", 1) as inner:
            inner("x")
        advance("ddp dp6")

    assert "references [16]" in stream.getvalue()
    assert "3/3" in stream.getvalue()
    assert "1 failed" in stream.getvalue()


def test_a_stage_that_breaks_leaves_the_terminal_as_it_was() -> None:
    stream = io.StringIO()
    bars = Bars(Console(file=stream, force_terminal=True, width=120))
    with pytest.raises(KeyboardInterrupt), bars.stage("references", 3):
        raise KeyboardInterrupt
    assert stream.getvalue().rstrip("\n").rsplit("\x1b[?25", 1)[1].startswith("h")
    with bars.stage("again", 1) as advance:
        advance("works")


def test_a_line_stands_above_the_bars_and_they_go_on() -> None:
    stream = io.StringIO()
    bars = Bars(Console(file=stream, force_terminal=True, width=120, color_system=None, markup=False))
    with bars.stage("references", 2) as advance:
        advance("ddp")
        bars.say("[4] waits for process 7")
        advance("fsdp2")
    assert "[4] waits for process 7\n" in stream.getvalue()
    assert "2/2" in stream.getvalue().partition("process 7")[2]


def test_lines_come_at_every_quarter() -> None:
    said: list[str] = []
    with Lines(said.append).stage("references", 18) as advance:
        for number in range(18):
            advance("cell", ok=number != 10)

    assert said == [
        f"references: {text}" for text in ("5 of 18", "9 of 18", "14 of 18, 1 failed", "18 of 18, 1 failed")
    ]


def test_no_bars_without_a_terminal_or_when_quiet_but_what_holds_things_up(capsys: pytest.CaptureFixture[str]) -> None:
    for session in (Session(), Session(quiet=True)):
        progress = session.progress()
        assert isinstance(progress, Silent)
        with progress.stage("references", 1) as advance:
            advance("ddp")
            progress.say(f"quiet={session.quiet}")
    assert capsys.readouterr() == ("", "quiet=False\n")
