"""The parameters of an assay, searched, sorted and a page at a time: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import inf, log
from typing import Any

Parameter = Mapping[str, Any]


class Order(StrEnum):
    """What parameters are sorted by: as the model has them, or what is worst first."""

    MODEL = "model"
    NAME = "name"
    FAMILY = "family"
    VERDICT = "verdict"
    RATIO = "ratio"
    RESIDUAL = "residual"


def searched(
    parameters: Sequence[Parameter], *, text: str = "", family: str = "", verdict: str = ""
) -> list[Parameter]:
    """Those whose name holds the text, whatever its case, of this family and verdict; empty: of any."""
    wanted = text.casefold()
    return [
        parameter
        for parameter in parameters
        if wanted in parameter["name"].casefold()
        and family in ("", parameter["family"])
        and verdict in ("", parameter["verdict"])
    ]


def in_order(parameters: Sequence[Parameter], order: Order, *, descending: bool = False) -> list[Parameter]:
    """The parameters sorted; the order is total, so that pages never overlap.

    ratio: by distance from 1 as a factor, so that 1/2 and 2 are alike. residual, ratio: unknown ones last either way.
    """
    if order is Order.MODEL:
        return list(parameters)[:: -1 if descending else 1]
    if order in (Order.RATIO, Order.RESIDUAL):
        measure = _from_one if order is Order.RATIO else _residual
        known = [parameter for parameter in parameters if measure(parameter) is not None]
        unknown = [parameter for parameter in parameters if measure(parameter) is None]
        known.sort(key=lambda parameter: (measure(parameter) or 0.0, parameter["name"]), reverse=descending)
        return known + sorted(unknown, key=lambda parameter: str(parameter["name"]))
    return sorted(parameters, key=lambda parameter: (parameter[order], parameter["name"]), reverse=descending)


def _from_one(parameter: Parameter) -> float | None:
    ratio = parameter["ratio"]
    if ratio is None:
        return None
    return abs(log(ratio)) if ratio > 0 else inf


def _residual(parameter: Parameter) -> float | None:
    return parameter["residual"]  # type: ignore[no-any-return]
