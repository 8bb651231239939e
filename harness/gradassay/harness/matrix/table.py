"""One [[matrix]] table: its keys, their types and the names that they may hold."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from gradassay.goldens.errors import InvalidFile, UsageError
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.environments import parse
from gradassay.harness.faults import parse_fault
from gradassay.harness.problems import load_problem
from gradassay.harness.strategies import STRATEGIES

SIZES = tuple(field.name for field in fields(Layout))
NAMES = ("problems", "strategies", "dtypes", "frameworks", "faults")
KEYS = (*NAMES, *SIZES, "layouts", "options", "full", "capture", "exclude")
CAPTURE: Mapping[str, type | tuple[type, ...]] = {
    "stages": list,
    "steps": int,
    "learning_rate": (int, float),
    "max_norm": (int, float),
}
EXCLUDABLE = {"problem": str, "strategy": str, "dtype": str, "framework": str, "fault": str} | dict.fromkeys(SIZES, int)


@dataclass(frozen=True, slots=True)
class Where:
    """A table of a file, for messages. number: from 1, of the [[matrix]] tables."""

    path: Path
    text: str
    number: int

    def refuse(self, key: str, expected: str, found: object, *, hint: str = "") -> NoReturn:
        """Raises InvalidFile naming file, line, table, key and both values."""
        raise InvalidFile(
            f"{self.path}:{self.line(key)}: [[matrix]] number {self.number}: {key}: expected {expected}, found {found}",
            hint=hint,
            path=str(self.path),
            line=self.line(key),
            table=self.number,
            field=key,
            expected=expected,
            found=str(found),
        )

    def line(self, key: str) -> int:
        """The line that sets the key, else that of the table's header, from 1."""
        lines = self.text.splitlines()
        headers = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*matrix\s*\]\]", line)]
        if len(headers) < self.number:
            return 1
        first, end = headers[self.number - 1], [*headers, len(lines) + 1][self.number]
        setting = re.compile(rf"\s*[\"']?{re.escape(key.partition(':')[0])}[\"']?\s*=")
        return next((line for line in range(first, end) if setting.match(lines[line - 1])), first)


def nearest(word: str, known: Collection[str]) -> str:
    """A hint: the known word nearest to `word`, or all of them."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A checked table. sizes: the choices for each size of a product; layouts: instead of it, one by one, or None."""

    where: Where
    problems: tuple[str, ...]
    strategies: tuple[str, ...]
    dtypes: tuple[str, ...]
    frameworks: tuple[str, ...]
    faults: tuple[str, ...]
    sizes: Mapping[str, tuple[int, ...]]
    layouts: tuple[Layout, ...] | None
    options: Mapping[str, str]
    full: bool
    capture: Mapping[str, Any]
    exclude: tuple[Mapping[str, tuple[str | int, ...]], ...]


def check_table(where: Where, content: Mapping[str, Any]) -> Table:
    """The table, or InvalidFile for the first thing in it that is wrong."""
    for key in content:
        if key not in KEYS:
            where.refuse(key, "a key of [[matrix]]", repr(key), hint=nearest(key, KEYS))
    explicit = [key for key in SIZES if key in content]
    if "layouts" in content and explicit:
        where.refuse("layouts", "either layouts or sizes", f"both layouts and {', '.join(explicit)}")
    names = {key: _names(where, content, key) for key in NAMES}
    for key, known in (("strategies", STRATEGIES), ("dtypes", DTYPES)):
        for name in names[key]:
            if name not in known:
                where.refuse(key, f"names of {key}", repr(name), hint=nearest(name, known))
    for name in names["problems"]:
        try:
            load_problem(name)
        except UsageError as error:
            where.refuse("problems", "names of problems", repr(name), hint=error.hint)
    for name in filter(None, names["frameworks"]):
        try:
            parse(name)
        except UsageError as error:
            where.refuse("frameworks", "releases as in deepspeed==0.15.3", repr(name), hint=error.hint)
    for name in filter(None, names["faults"]):
        try:
            parse_fault(name)
        except UsageError as error:
            where.refuse("faults", "faults that can be injected", f"{name!r} ({error.message})", hint=error.hint)
    return Table(
        where=where,
        problems=names["problems"],
        strategies=names["strategies"],
        dtypes=names["dtypes"],
        frameworks=names["frameworks"],
        faults=names["faults"],
        sizes={key: _sizes(where, content, key) for key in SIZES},
        layouts=_layouts(where, content),
        options=_options(where, content),
        full=_flag(where, content),
        capture=_capture(where, content),
        exclude=_exclude(where, content),
    )


def _names(where: Where, content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    defaults = {"dtypes": ["float32"], "frameworks": [""], "faults": [""]}
    if key not in content and key not in defaults:
        where.refuse(key, "one name or a list of names", "nothing")
    value = content.get(key, defaults.get(key))
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        where.refuse(key, "one name or a list of names", repr(value))
    return tuple(value)


def _sizes(where: Where, content: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = content.get(key, 1)
    value = value if isinstance(value, list) else [value]
    if not value or not all(type(size) is int and size >= 1 for size in value):
        where.refuse(key, "whole numbers of at least 1", repr(content[key]))
    return tuple(value)


def _layouts(where: Where, content: Mapping[str, Any]) -> tuple[Layout, ...] | None:
    value = content.get("layouts")
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(layout, str) for layout in value):
        where.refuse("layouts", 'a list as in ["dp4.ep2.accum3"]', repr(value))
    layouts = []
    for text in value:
        try:
            layouts.append(Layout.parse(text))
        except UsageError as error:
            where.refuse("layouts", "layouts that can exist", f"{text!r} ({error.message})", hint=error.hint)
    return tuple(layouts)


def _options(where: Where, content: Mapping[str, Any]) -> dict[str, str]:
    value = content.get("options", {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        where.refuse("options", 'a table of texts as in { reshard = "false" }', repr(value))
    return dict(value)


def _flag(where: Where, content: Mapping[str, Any]) -> bool:
    value = content.get("full", False)
    if not isinstance(value, bool):
        where.refuse("full", "true or false", repr(value))
    return value


def _capture(where: Where, content: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a cell that say what is captured, and when."""
    value = content.get("capture", {})
    if not isinstance(value, dict):
        where.refuse("capture", 'a table as in { stages = ["local", "reduced"] }', repr(value))
    for key, part in value.items():
        if key not in CAPTURE:
            where.refuse(f"capture: {key}", "part of what is captured", repr(key), hint=nearest(key, CAPTURE))
        if not isinstance(part, CAPTURE[key]) or isinstance(part, bool):
            kind = {"stages": "a list of stages", "steps": "a whole number"}.get(key, "a number")
            where.refuse(f"capture: {key}", kind, repr(part))
    found: dict[str, Any] = {key: tuple(part) if key == "stages" else part for key, part in value.items()}
    try:
        Cell(problem="", strategy="", layout=Layout(), **found)
    except UsageError as error:
        where.refuse("capture", "what a run can capture", error.message, hint=error.hint)
    return found


def _exclude(where: Where, content: Mapping[str, Any]) -> tuple[Mapping[str, tuple[str | int, ...]], ...]:
    value = content.get("exclude", [])
    if not isinstance(value, list) or not all(isinstance(rule, dict) and rule for rule in value):
        where.refuse("exclude", 'a list as in [{ strategy = "ddp", dp = 6 }]', repr(value))
    rules = []
    for rule in value:
        choices: dict[str, tuple[str | int, ...]] = {}
        for key, choice in rule.items():
            if key not in EXCLUDABLE:
                where.refuse(f"exclude: {key}", "part of a cell", repr(key), hint=nearest(key, EXCLUDABLE))
            choices[key] = tuple(choice if isinstance(choice, list) else [choice])
            if not all(type(item) is EXCLUDABLE[key] for item in choices[key]):
                kind = "whole numbers" if EXCLUDABLE[key] is int else "names"
                where.refuse(f"exclude: {key}", kind, repr(choice))
        rules.append(choices)
    return tuple(rules)
