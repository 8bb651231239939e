"""What a file's header may say before the service keeps it: names and sizes that nothing behind it trips over."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradassay.goldens.assay.convention import declared_scales
from gradassay.goldens.container import invalid
from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import GoldenHeader, RecordHeader

MOST_UNITS = 2**20
LONGEST_NAME = 128
LONGEST_PARAMETER = 1024
LONGEST_FACTS = 2**18
DEEPEST_FACTS = 16
_DIGEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,79}")
_LEADS_AWAY = re.compile(r"(^|/)\.{0,2}(/|$)|\\")


def inspect_record(header: RecordHeader, path: Path) -> None:
    """Raises InvalidFile for what a stranger may write into a record's header and a service had better not keep.

    That is names that are too long, lead out of a folder (`../`) or hold control characters, layouts of more units than
    any run has, facts that are no finite JSON of modest size, and conventions that cannot be read.
    """
    _inspect(header, path)
    named = {
        "framework": header.framework.name,
        "framework version": header.framework.version,
        "strategy": header.strategy,
        "commit": header.source.commit,
        **{f"stages: {number}": where.stage for number, where in enumerate(header.stages)},
    }
    for item, text in named.items():
        _check_text(text, item, path)
    if header.layout.units > MOST_UNITS or header.layout.world > MOST_UNITS:
        invalid(path, "layout", f"at most {MOST_UNITS} units and ranks", header.layout)
    _check_facts(header.convention, "convention", path)
    try:
        declared_scales(header, header.parameters)
    except UsageError as error:
        invalid(path, "convention", "scales that can be read", error.message[:200], hint=error.hint)


def inspect_golden(header: GoldenHeader, path: Path) -> None:
    """Raises InvalidFile as `inspect_record` does, for what goldens and records have in common."""
    _inspect(header, path)
    for term in header.terms:
        _check_text(term, "terms", path)
    if len(header.units) > MOST_UNITS:
        invalid(path, "units", f"at most {MOST_UNITS}", len(header.units))


def _inspect(header: RecordHeader | GoldenHeader, path: Path) -> None:
    _check_name(header.problem.name, "problem: name", path, LONGEST_NAME)
    if _DIGEST.fullmatch(header.problem.digest) is None:
        invalid(path, "problem: digest", "a digest, as in sha256:…", repr(header.problem.digest)[:LONGEST_NAME])
    for dtype in (header.dtype.parameter, header.dtype.gradient, header.dtype.reduce):
        _check_name(dtype, "dtype", path, 32)
    for parameter in header.parameters:
        _check_name(parameter.name, "parameters: name", path, LONGEST_PARAMETER)
        _check_name(parameter.family, f"parameters: {parameter.name!r}: family", path, LONGEST_NAME)
    _check_facts(header.environment, "environment", path)
    _check_text(header.created, "created", path)


def _check_name(text: str, item: str, path: Path, longest: int) -> None:
    _check_text(text, item, path, longest=longest)
    if not text.strip() or _LEADS_AWAY.search(text):
        invalid(path, item, "a name that is no path out of its folder", repr(text))


def _check_text(text: str, item: str, path: Path, *, longest: int = LONGEST_NAME) -> None:
    if len(text) > longest:
        invalid(path, item, f"at most {longest} characters", f"{len(text)}: {text[:60]!r}…")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
        invalid(path, item, "text without control characters", repr(text))


def _check_facts(facts: dict[str, Any], item: str, path: Path) -> None:
    try:
        text = json.dumps(facts, allow_nan=False)
    except (ValueError, RecursionError) as error:
        invalid(path, item, "finite JSON values", f"{type(error).__name__}: {error}"[:200])
    if len(text) > LONGEST_FACTS:
        invalid(path, item, f"at most {LONGEST_FACTS} characters of JSON", len(text))
    for depth, value in _values(facts, 0):
        if depth > DEEPEST_FACTS:
            invalid(path, item, f"at most {DEEPEST_FACTS} levels", "more")
        if isinstance(value, str) and "\0" in value:
            invalid(path, item, "text without control characters", repr(value)[:LONGEST_NAME])


def _values(value: Any, depth: int) -> Iterator[tuple[int, Any]]:
    yield depth, value
    if depth > DEEPEST_FACTS:
        return
    if isinstance(value, dict):
        for key, held in value.items():
            yield depth, key
            yield from _values(held, depth + 1)
    elif isinstance(value, list):
        for held in value:
            yield from _values(held, depth + 1)
