"""docs/cli.md names every command, option and exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from gradassay.cli.main import app
from gradassay.client.settings import ClientSettings
from gradassay.goldens.errors import Exit
from gradassay.goldens.settings import Settings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{name} {word}")


COMMANDS = dict(_commands(typer.main.get_command(app), "gradassay"))


def section(document: str, command: str) -> str:
    """The text under the command's heading up to the next heading; empty where there is none."""
    heading = "Global options" if command == "gradassay" else rf"{re.escape(command)}(?= |\n)[^\n]*"
    found = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", document, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def missing(document: str, name: str, command: Any) -> list[str]:
    """Options of the command that its section does not name."""
    text = section(document, name)
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
    common = {"--help", "-h"} if name != "gradassay" else set()
    return [option for option in options if option not in common and f"`{option}`" not in text]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    assert section(DOCUMENT, name), f"docs/cli.md has no heading for {name}"
    assert missing(DOCUMENT, name, COMMANDS[name]) == []


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_documented(code: Exit) -> None:
    assert f"| {int(code)} |" in section(DOCUMENT, "Exit codes")


@pytest.mark.parametrize("name", sorted(ClientSettings.model_fields.keys() - Settings.model_fields.keys()))
def test_every_setting_of_a_client_is_documented(name: str) -> None:
    assert f"| `GRADASSAY_{name.upper()}` |" in section(DOCUMENT, "A store or a service")


def test_an_undocumented_option_is_found() -> None:
    without = DOCUMENT.replace("`--stage`", "")

    assert missing(without, "gradassay diff", COMMANDS["gradassay diff"]) == ["--stage"]
    assert not section(DOCUMENT, "gradassay frobnicate")


def test_every_documented_command_exists() -> None:
    headed = re.findall(r"^##+ (gradassay(?: [a-z]+)*)", DOCUMENT, re.MULTILINE)

    assert set(headed) <= COMMANDS.keys()
