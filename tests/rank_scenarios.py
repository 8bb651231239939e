"""Changes to a step, made on the ranks themselves: negative controls for the harness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradassay.harness.interference import Interference


def one_unit_three_times() -> Interference:
    """The local gradient of rank 1 at micro step 0 counts three times, for every parameter."""

    def gradient(_name: str, rank: int, micro: int, values: Any) -> Any:
        return values * 3 if (rank, micro) == (1, 0) else None

    return Interference(gradient=gradient)


def counted_hooks() -> Interference:
    """Every local gradient is multiplied by the number of calls for it so far in its micro step: 1 if called once."""
    calls: dict[tuple[str, int], int] = {}

    def gradient(name: str, _rank: int, micro: int, values: Any) -> Any:
        calls[name, micro] = calls.get((name, micro), 0) + 1
        return values * calls[name, micro]

    return Interference(gradient=gradient)


def auxiliary_five_times() -> Interference:
    """The auxiliary loss counts five times."""

    def terms(losses: dict[str, Any], _rank: int, _micro: int) -> dict[str, Any]:
        return {**losses, "aux": losses["aux"] * 5}

    return Interference(terms=terms)


def another_copy() -> Interference:
    """Copies other than the first of the head's gradient are twice as large."""

    def pieces(found: list[Any]) -> list[Any]:
        return [
            replace(piece, values=piece.values * 2) if piece.replica and piece.name == "head.weight" else piece
            for piece in found
        ]

    return Interference(pieces=pieces)


def lost_piece() -> Interference:
    """The rank that owns the end of the final norm does not hand it over."""

    def pieces(found: list[Any]) -> list[Any]:
        return [piece for piece in found if piece.name != "norm.weight" or int(piece.runs.sum()) < 60]

    return Interference(pieces=pieces)


def one_infinity() -> Interference:
    """One element of one parameter is infinite."""

    def pieces(found: list[Any]) -> list[Any]:
        for piece in found:
            if piece.name == "layers.0.mlp.up.weight" and len(piece.runs) and piece.runs[0, 0] == 0:
                piece.values[5] = float("inf")
        return found

    return Interference(pieces=pieces)


def divide_factor_unset() -> Interference:
    """FSDP2 averages experts over their edp group, which is what it does when nobody sets the divide factor."""
    from torch.distributed.fsdp import FSDPModule

    FSDPModule.set_gradient_divide_factor = lambda _module, _factor: None  # type: ignore[method-assign]
    return Interference()
