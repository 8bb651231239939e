"""Settings of faults, from text: formulas of the layout's sizes, sets of numbers, relative sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gradassay.goldens.assay.convention import evaluate
from gradassay.goldens.assay.scale import Scale, scales, sizes
from gradassay.goldens.errors import UsageError
from gradassay.goldens.layout import Layout

Readers = Mapping[str, Callable[[str], Any]]
"""Key of a setting -> what reads its text."""

# Distinct primes in the place of sizes above 1: formulas with the same number are the same formula.
_PRIMES = {"ep": 11.0, "edp": 7.0, "tp": 13.0, "pp": 17.0, "cp": 19.0, "replicate": 23.0, "accum": 29.0}
_PLAIN = re.compile(r"[\d.e+-]+")


def formula(text: str) -> str:
    """The text, proved to be a scale above zero such as "1/ep" or "dp*accum**2"; raises UsageError otherwise."""
    if evaluate(text, sizes(Layout())) <= 0:
        raise UsageError(f"scale {text!r} is not above zero", hint="inject zero or sign instead")
    return text


def value(text: str, layout: Layout) -> float:
    """The number behind a formula in this layout."""
    return evaluate(text, sizes(layout))


def spellings(text: str, layout: Layout) -> tuple[str, ...]:
    """The ways in which an assay may write this very formula, shortest first: `dp/ep` is `edp`, `0.25` is `1/4`.

    A plain number is also whatever happens to have its value in this layout.
    """
    plain = _PLAIN.fullmatch(text) is not None
    values = sizes(layout) if plain else _general(layout)
    number = evaluate(text, values)
    found = [str(scale) for scale in scales(values) if abs(scale.value(values) / number - 1) < 1e-9]
    own = str(Scale(constant=number)) if plain else text
    return tuple(found) if own in found or (found and not plain) else (*found, own)


def _general(layout: Layout) -> dict[str, float]:
    given = sizes(layout)
    values = {name: prime if given[name] > 1 else 1.0 for name, prime in _PRIMES.items()}
    values["dp"] = values["ep"] * values["edp"]
    values["world"] = values["dp"] * values["tp"] * values["pp"] * values["cp"]
    values["units"] = values["dp"] * values["accum"]
    return values


def numbers(text: str) -> tuple[int, ...]:
    """The whole numbers of a set such as "0+2", sorted; () for an empty text."""
    if not text:
        return ()
    if not re.fullmatch(r"\d+(\+\d+)*", text):
        raise UsageError(f"cannot read {text!r} as a set of numbers", hint="write it as in 0+2")
    return tuple(sorted({int(part) for part in text.split("+")}))


def listed(members: tuple[int, ...]) -> str:
    """A set of numbers as text; the reverse of `numbers`."""
    return "+".join(map(str, members))


def below(members: tuple[int, ...], size: int, what: str) -> None:
    """Raises UsageError where a member is not below `size` (of "dp", say), or where they are all there are."""
    if members and members[-1] >= size:
        raise UsageError(f"{members[-1]} is not below {what} = {size}", hint=f"choose from 0 to {size - 1}")
    if len(members) == size:
        raise UsageError(f"{listed(members)} are all of {what} = {size}", hint="leave at least one out")


def positive(text: str) -> str:
    """The text, proved to be a number above zero; raises UsageError otherwise."""
    try:
        accepted = float(text) > 0
    except ValueError:
        accepted = False
    if not accepted:
        raise UsageError(f"{text!r} is not a number above zero", hint="write it as in 0.1")
    return text


def one_of(*choices: str) -> Callable[[str], str]:
    """What reads a setting that may take these values only."""

    def read(text: str) -> str:
        if text not in choices:
            raise UsageError(f"{text!r} is none of its values", hint=f"choose from {', '.join(choices)}")
        return text

    return read
