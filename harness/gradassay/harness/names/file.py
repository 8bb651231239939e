"""A map as a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradassay.goldens.errors import InvalidFile, UsageError
from gradassay.harness.names.canonical import nearest
from gradassay.harness.names.map import NameMap
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule, Stack

Axis = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PartTable(_Table):
    """One of `parts`."""

    to: str | None = None
    size: Count | str | None = None


class StackTable(_Table):
    """The value of `stack`."""

    of: str
    axis: Axis = 0
    joined: bool = False


class RuleTable(_Table):
    """One table [[rule]]."""

    source: str = Field(alias="from")
    to: str | None = None
    parts: list[PartTable] | None = Field(default=None, min_length=2)
    axis: Axis = 0
    groups: Count | str = 1
    stack: StackTable | None = None
    local: str | None = None
    transpose: list[Axis] | None = None
    cut: Axis | None = None
    optional: bool = False


class MapFile(_Table):
    """The whole file."""

    prefixes: list[str] = []
    ignore: list[str] = []
    tied: list[list[str]] = []
    values: dict[str, Count] = {}
    rename: dict[str, str] = {}
    rule: list[RuleTable] = []


KEYS = tuple(
    field.alias or name
    for table in (MapFile, RuleTable, PartTable, StackTable)
    for name, field in table.model_fields.items()
)


def read_map(path: Path, values: Mapping[str, int]) -> NameMap:
    """The map in the file; values: by name, before the file's own. Raises InvalidFile, naming file, key and value."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: cannot be read ({error})", hint="give a TOML file", path=str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(f"{path}: not valid TOML: {error}", hint="see docs/names.md", path=str(path)) from error
    try:
        file = MapFile.model_validate(document)
    except ValidationError as error:
        raise _refused(path, error.errors()[0]) from error
    try:
        _check_values(file, values)
        return _name_map(file, {**file.values, **values})
    except UsageError as error:
        raise InvalidFile(f"{path}: {error.message}", hint=error.hint, path=str(path), **error.facts) from error


def _refused(path: Path, problem: Any) -> InvalidFile:
    """What pydantic found first, in the words of a TOML file."""
    where = ".".join(str(part + 1) if isinstance(part, int) else part for part in problem["loc"])
    key = str(problem["loc"][-1])
    if problem["type"] == "extra_forbidden":
        close = nearest(key, KEYS)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(dict.fromkeys(KEYS))}"
        return InvalidFile(f"{path}: {where}: no such key", hint=hint, path=str(path), field=where)
    found = "" if problem["type"] == "missing" else f", found {problem['input']!r}"[:120]
    return InvalidFile(
        f"{path}: {where}: {problem['msg']}{found}", hint="see docs/names.md", path=str(path), field=where
    )


def _check_values(file: MapFile, values: Mapping[str, int]) -> None:
    asked = {rule.groups for rule in file.rule} | {part.size for rule in file.rule for part in rule.parts or ()}
    idle = next((name for name in {**file.values, **values} if name not in asked), None)
    if idle is not None:
        names = ", ".join(sorted(name for name in asked if isinstance(name, str)))
        raise UsageError(f"no rule names the value {idle!r}", hint=f"they name: {names or 'none'}")


def _name_map(file: MapFile, values: Mapping[str, int]) -> NameMap:
    renames = [
        Rule(source=Pattern(own), parts=(Part(to=Pattern(canonical)),)) for own, canonical in file.rename.items()
    ]
    return NameMap(
        rules=(*renames, *(_rule(table, values) for table in file.rule)),
        prefixes=tuple(file.prefixes),
        ignore=tuple(map(Pattern, file.ignore)),
        tied=tuple(map(tuple, file.tied)),
    )


def _rule(table: RuleTable, values: Mapping[str, int]) -> Rule:
    if (table.to is None) == (table.parts is None):
        both = "neither" if table.to is None else "both"
        raise UsageError(f"rule {table.source!r}: {both} of `to` and `parts`", hint="give one of them")
    parts = table.parts or [PartTable(to=table.to)]

    def number(value: int | str) -> int:
        if isinstance(value, str) and value not in values:
            raise UsageError(
                f"rule {table.source!r}: {value!r} has no value",
                hint=f"put it under [values], or read the map with values={{{value!r}: ...}}",
            )
        return values[value] if isinstance(value, str) else value

    return Rule(
        source=Pattern(table.source),
        parts=tuple(
            Part(
                to=None if part.to is None else Pattern(part.to),
                size=None if part.size is None else number(part.size),
            )
            for part in parts
        ),
        axis=table.axis,
        groups=number(table.groups),
        stack=None if table.stack is None else Stack(**table.stack.model_dump()),
        local=table.local,
        transpose=None if table.transpose is None else tuple(table.transpose),
        cut=table.cut,
        optional=table.optional,
    )
