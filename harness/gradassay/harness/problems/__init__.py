"""Deterministic training steps, by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.harness.problems.catalogue import dense_tiny, moe_small, moe_tiny, ragged_tiny
from gradassay.harness.problems.protocol import Problem

GROUP = "gradassay.problems"
"""Entry point group: name -> a function without arguments that returns a Problem."""

_OWN: Mapping[str, Callable[[], Problem]] = {
    "dense-tiny": dense_tiny,
    "moe-small": moe_small,
    "moe-tiny": moe_tiny,
    "ragged-tiny": ragged_tiny,
}
_REFERENCE = re.compile(r"[\w.]+:[\w.]+")


def known_problems() -> tuple[str, ...]:
    """Names of the package's problems and of those that installed packages add, sorted."""
    return tuple(sorted({*_OWN, *(point.name for point in entry_points(group=GROUP))}))


@lru_cache(maxsize=16)
def load_problem(name: str) -> Problem:
    """The problem of this name, or what `module:function` returns. Raises UsageError listing the names known."""
    if name in _OWN:
        return _OWN[name]()
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _made(name, point)
    if _REFERENCE.fullmatch(name):
        # As for a script that is run from here: the command itself lies elsewhere.
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return _made(name, EntryPoint(name=name, value=name, group=GROUP))
    raise UsageError(
        f"no problem is called {name!r}",
        hint=f"known: {', '.join(known_problems())}; or write module:function for one of your own",
    )


def _made(name: str, point: EntryPoint) -> Problem:
    try:
        import_module(point.module)
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"problem {name!r}: {point.value} cannot be imported ({error})",
            hint="write module:function with a module that Python finds from here",
        ) from error
    problem: Problem = found() if callable(found) else found
    missing = [part for part in ("name", "digest", "parameters", "build", "losses") if not hasattr(problem, part)]
    if missing:
        raise UsageError(
            f"problem {name!r}: {point.value} gives a {type(problem).__name__} without {', '.join(missing)}",
            hint="return an object with the parts of gradassay.harness.problems.protocol.Problem",
        )
    return problem
