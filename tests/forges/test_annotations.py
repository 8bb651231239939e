"""Commands for GitHub's runner, read back as the runner reads them."""

from __future__ import annotations

import re

import pytest

from forges.results import HOSTILE, agrees, diverges, failed, result
from gradassay.forges.annotations import LONGEST, SHOWN, annotate, warning
from gradassay.forges.escaping import shortened


def read(command: str) -> tuple[str, dict[str, str], str]:
    """Level, properties and message, as the runner takes a line apart."""
    found = re.fullmatch(r"::(\w+) (.*?)::(.*)", command)
    assert found is not None
    properties = dict(part.split("=", 1) for part in found[2].split(","))
    return found[1], {name: unescaped(value) for name, value in properties.items()}, unescaped(found[3])


def unescaped(text: str) -> str:
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_a_divergence_is_an_error_on_its_line() -> None:
    (command,) = annotate(result(agrees(), diverges())).commands
    level, properties, message = read(command)

    assert level == "error"
    assert properties == {"file": "matrix.toml", "line": "7", "title": "diverge: toy/zero1/dp4.ep2.accum3"}
    assert "too large by a factor of ep = 2" in message
    assert message.endswith("http://127.0.0.1:1/runs/r1")


def test_an_accepted_divergence_is_a_notice_and_agreement_nothing() -> None:
    (command,) = annotate(result(agrees(), diverges(exit=0, accepted=True))).commands
    assert read(command)[0] == "notice"
    assert annotate(result(agrees())).commands == ()


def test_a_job_that_fails_beside_its_cells_says_so() -> None:
    (command,) = annotate(result(agrees(), exit=11, verdict="unreachable", notes=("no answer",))).commands
    assert read(command) == ("error", {"file": "matrix.toml", "title": "unreachable"}, "no answer")


@pytest.mark.parametrize("text", [*HOSTILE, "100%0A, done::error::x", "a%2Cb"])
def test_no_text_ends_its_command(text: str) -> None:
    job = result(failed(text, error=text, verdict=text), matrix=text.replace("\n", "").replace("\r", ""))
    (command,) = annotate(job).commands

    assert "\n" not in command
    assert "\r" not in command
    _, properties, message = read(command)
    assert properties["file"] == job.matrix
    assert properties["title"] == shortened(f"{text}: {text}", 200)
    assert message.startswith(shortened(text, LONGEST))
    assert set(properties) == {"file", "line", "title"}


def test_ten_of_a_level_are_printed_and_the_rest_counted() -> None:
    accepted = [diverges(f"a{number}", exit=0, accepted=True) for number in range(SHOWN + 1)]
    found = annotate(result(*accepted, *(diverges(f"d{number}") for number in range(SHOWN + 4))))

    assert [read(command)[0] for command in found.commands] == ["error"] * SHOWN + ["notice"] * SHOWN
    assert found.note == "5 more annotations: GitHub shows 10 a step"
    assert annotate(result(diverges())).note == ""


def test_a_warning_is_one_line() -> None:
    assert warning("a\nb: 5%") == "::warning title=gradassay::a%0Ab: 5%25"
