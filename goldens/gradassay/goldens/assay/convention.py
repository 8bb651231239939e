"""Scales that a candidate declares of itself: legitimate conventions, checked exactly like the objective."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from gradassay.goldens.assay.scale import sizes
from gradassay.goldens.errors import UsageError
from gradassay.goldens.header import Parameter, RecordHeader

_OPERATIONS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """The number behind a scale such as "1/ep" or "dp*accum**2"; raises UsageError for anything else."""

    def walk(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.Name(id=name) if name in values:
                return values[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return float(_OPERATIONS[type(op)](walk(left), walk(right)))
        raise UsageError(
            f"scale {formula!r}: cannot read {ast.unparse(node)!r}",
            hint=f"use products and powers of {', '.join(sorted(values))} and numbers",
        )

    try:
        return walk(ast.parse(formula, mode="eval").body)
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        raise UsageError(f"scale {formula!r} is not a formula: {error}") from error


def declared(convention: Mapping[str, Any]) -> dict[str, str]:
    """Scale by family ("all" for every one), from {"expert": "1/ep"} or {"families": ["expert"], "scale": "1/ep"}."""
    if "scale" in convention:
        families = convention.get("families", "all")
        named = families if isinstance(families, list) else [families]
        return dict.fromkeys(map(str, named), str(convention["scale"]))
    unreadable = {key: value for key, value in convention.items() if not isinstance(value, str | int | float)}
    if unreadable:
        raise UsageError(
            f"convention: cannot read {unreadable!r}",
            hint='declare a scale a family, as in {"expert": "1/ep"}',
        )
    return {family: str(scale) for family, scale in convention.items()}


def declared_scales(header: RecordHeader, parameters: Sequence[Parameter]) -> list[float]:
    """The declared factor of each parameter, 1 where nothing is declared; raises UsageError for what cannot be used."""
    values = sizes(header.layout)
    by_family = {family: evaluate(scale, values) for family, scale in declared(header.convention).items()}
    families = {"all"} | {parameter.family for parameter in (*header.parameters, *parameters)}
    unknown = sorted(by_family.keys() - families)
    if unknown:
        raise UsageError(
            f"convention: no parameter is of family {', '.join(unknown)}",
            hint=f"families are {', '.join(sorted(families))}",
        )
    for family, scale in by_family.items():
        if not scale or not isfinite(scale):
            raise UsageError(f"convention: the scale of {family!r} is {scale}, which nothing can be divided by")
    everywhere = by_family.get("all", 1.0)
    return [by_family.get(parameter.family, everywhere) for parameter in parameters]
