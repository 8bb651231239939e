"""What `@pytest.mark.gradassay(...)` asks for: cells, and the golden that each is to agree with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gradassay.goldens.errors import UsageError
from gradassay.harness.cell import Cell
from gradassay.harness.environments import FAMILIES, parse
from gradassay.harness.launch.outcome import DEADLINE_S
from gradassay.harness.matrix import read_matrix
from gradassay.harness.matrix.file import cells_of
from gradassay.harness.matrix.table import NAMES, Where, check_table, nearest

if TYPE_CHECKING:
    import pytest

NAME = "gradassay"
SINGULAR: Mapping[str, str] = {
    "problem": "problems",
    "strategy": "strategies",
    "framework": "frameworks",
    "dtype": "dtypes",
    "fault": "faults",
    "layout": "layouts",
}
"""Keywords that hold one name or a list of names, and the keys of a matrix file that mean the same; both are understood."""
OF_A_CELL = (*SINGULAR, *SINGULAR.values(), "options", "full", "capture")
KEYWORDS = (*OF_A_CELL, "golden", "matrix", "deadline_s")
GOLDEN = "approved"
"""What a marker that names no golden means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One cell that a test is to run. golden: as written in the marker. folder: of the test's file, where paths begin."""

    id: str
    cell: Cell
    golden: str
    folder: Path
    deadline_s: float


@dataclass(frozen=True, slots=True)
class _Place(Where):
    """A marker in a test's file. written: the keyword that stands there, by the key of a matrix file."""

    written: Mapping[str, str] = field(default_factory=dict)

    def refuse(self, key: str, expected: str, found: object, *, hint: str = "") -> NoReturn:
        """Raises UsageError naming file, line, keyword and both values."""
        key = self.written.get(key, key)
        raise self.error(f"{key}: expected {expected}, found {found}", hint)

    def error(self, message: str, hint: str) -> UsageError:
        """The error that says so of this marker."""
        return UsageError(f"{self.path}:{self.number}: @pytest.mark.{NAME}: {message}", hint=hint)


def plans(definition: pytest.Item, *, root: Path) -> tuple[tuple[Plan, ...], Counter[str]]:
    """The cells of the test's markers, nearest first, and how many combinations of a matrix were left out, by reason.

    A marker of a class or module gives what nearer ones leave out. root: file names in messages are relative to it. Raises
    UsageError for what cannot be understood or cannot run, InvalidFile for a matrix file that cannot be read.
    """
    place = _Place(_shown(definition.path, root), "", _line(definition))
    given = _merged(definition, place)
    golden, deadline_s = _golden(given, place), _deadline(given, place)
    left_out: Counter[str] = Counter()
    cells = _matrix(given, definition.path, place, left_out) if "matrix" in given else cells_asked(given, place)
    several = {key: len({getattr(cell, key) for cell in cells}) > 1 for key in ("problem", "dtype")}
    found = tuple(
        Plan(
            id=_id(cell, problem=several["problem"], dtype=several["dtype"]),
            cell=cell,
            golden=golden,
            folder=definition.path.parent,
            deadline_s=deadline_s,
        )
        for cell in cells
    )
    return found, left_out


def one_cell(given: Mapping[str, Any], path: Path, line: int) -> Cell:
    """The cell of keywords as of a marker, written at this line; raises UsageError where they mean none or several."""
    place = _Place(path, "", line)
    for key in given:
        if key not in OF_A_CELL:
            raise place.error(f"{key!r} is no part of a cell", nearest(key, OF_A_CELL))
    cells = cells_asked(given, place)
    if len(cells) != 1:
        raise place.error(f"{len(cells)} cells are meant", "run them one by one")
    return cells[0]


def cells_asked(given: Mapping[str, Any], place: _Place) -> tuple[Cell, ...]:
    """The cells of keywords, each once, in their order."""
    content: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in given.items():
        if key not in OF_A_CELL:
            continue
        name = SINGULAR.get(key, key)
        if name in content:
            raise place.error(f"both {written[name]} and {key}", "write one or the other")
        content[name] = _listed(name, value)
        written[name] = key
    written = {plural: written.get(plural, singular) for singular, plural in SINGULAR.items()}
    place = _Place(place.path, "", place.number, written)
    if "layouts" not in content:
        place.refuse("layouts", 'a layout or a list as in ["dp4.ep2.accum3"]', "nothing")
    cells: dict[str, Cell] = {}
    for table in _with_strategies(content, place):
        for cell in cells_of(check_table(place, table), Counter()):
            cells.setdefault(str(cell), cell)
    return tuple(cells.values())


def _with_strategies(content: Mapping[str, Any], place: _Place) -> Iterable[Mapping[str, Any]]:
    """The content, or where it names frameworks only, one a framework with the strategy that this runs first."""
    frameworks = content.get("frameworks", [])
    for framework in frameworks if isinstance(frameworks, list) else [frameworks]:
        _check_framework(framework, place)
    if "strategies" in content or not frameworks:
        return [content]
    tables = []
    for framework in frameworks:
        strategies = FAMILIES[parse(framework)[0]].strategies
        if not strategies:
            raise place.error(f"no strategy runs {framework} by itself", "capture a script of your own by a Recorder")
        tables.append({**content, "strategies": [strategies[0]], "frameworks": [framework]})
    return tables


def _check_framework(framework: object, place: _Place) -> None:
    if not isinstance(framework, str) or not framework:
        return
    name, equals, _ = framework.partition("==")
    if equals and name not in FAMILIES:
        place.refuse("frameworks", "a framework that can be run", repr(name), hint=nearest(name, FAMILIES))
    try:
        parse(framework)
    except UsageError as error:
        place.refuse("frameworks", "a release as in deepspeed==0.15.3", repr(framework), hint=error.hint)


def _listed(name: str, value: Any) -> Any:
    if name not in (*NAMES, "layouts"):
        return value
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, tuple) else value


def _merged(definition: pytest.Item, place: _Place) -> dict[str, Any]:
    """All keywords of the test's markers; what a nearer node says goes before what a farther one says."""
    merged: dict[str, Any] = {}
    owners: dict[str, object] = {}
    for node, mark in definition.iter_markers_with_node(NAME):
        if mark.args:
            raise place.error(f"takes keywords only, found {mark.args[0]!r}", f"known: {', '.join(sorted(KEYWORDS))}")
        for key, value in mark.kwargs.items():
            if key not in KEYWORDS:
                raise place.error(f"no keyword is called {key!r}", nearest(key, KEYWORDS))
            name = SINGULAR.get(key, key)
            if owners.setdefault(name, node) is not node:
                continue
            if any(SINGULAR.get(known, known) == name for known in merged):
                raise place.error(f"{key} is given twice", "write one marker with a list, or two tests")
            merged[key] = value
    return merged


def _matrix(given: Mapping[str, Any], test: Path, place: _Place, left_out: Counter[str]) -> tuple[Cell, ...]:
    more = [key for key in given if key in OF_A_CELL]
    if more:
        raise place.error(f"both a matrix and {', '.join(more)}", "the matrix file says which cells run")
    name = given["matrix"]
    if not isinstance(name, str | Path):
        place.refuse("matrix", "the path of a TOML file", repr(name))
    matrix = read_matrix(test.parent / name)
    left_out.update({f"{name}: {reason}": count for reason, count in matrix.skipped.items()})
    return matrix.cells


def _golden(given: Mapping[str, Any], place: _Place) -> str:
    golden = given.get("golden", GOLDEN)
    if not isinstance(golden, str | Path) or not str(golden):
        place.refuse("golden", 'a channel, "vN", "NAME@vN" or a file', repr(golden))
    return str(golden)


def _deadline(given: Mapping[str, Any], place: _Place) -> float:
    deadline_s = given.get("deadline_s", DEADLINE_S)
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, int | float) or not deadline_s > 0:
        place.refuse("deadline_s", "a number of seconds above 0", repr(deadline_s))
    return float(deadline_s)


def _id(cell: Cell, *, problem: bool, dtype: bool) -> str:
    """What stands in the test's brackets, as in `fsdp2-dp4.ep2.accum3`. problem, dtype: whether others have another one."""
    parts = [cell.problem.replace(":", ".")] if problem else []
    parts += [cell.strategy, cell.framework, str(cell.layout)]
    parts += [cell.dtype] if dtype else []
    parts += [f"{key}={value}" for key, value in cell.options.items()]
    return "-".join(filter(None, [*parts, cell.fault.replace("/", "over").replace("*", "x")]))


def _line(definition: pytest.Item) -> int:
    function: Any = getattr(definition, "function", None)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None else 1


def _shown(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
