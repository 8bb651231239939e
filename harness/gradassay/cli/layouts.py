"""The parallel sizes of a run, from options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.goldens.layout import Layout

LayoutText = Annotated[str, typer.Option("--layout", help="All sizes at once, as in dp4.ep2.accum3.")]
Dp = Annotated[int | None, typer.Option("--dp", min=1, help="Data-parallel ranks.")]
Ep = Annotated[int | None, typer.Option("--ep", min=1, help="Expert-parallel ranks; divides dp.")]
Tp = Annotated[int | None, typer.Option("--tp", min=1, help="Tensor-parallel ranks.")]
Pp = Annotated[int | None, typer.Option("--pp", min=1, help="Pipeline stages.")]
Cp = Annotated[int | None, typer.Option("--cp", min=1, help="Context-parallel ranks.")]
Replicate = Annotated[
    int | None, typer.Option("--replicate", min=1, help="Ranks with copies of the same shard (HSDP).")
]
Accum = Annotated[int | None, typer.Option("--accum", min=1, help="Micro-batches that are accumulated.")]


def layout_of(text: str, **sizes: int | None) -> Layout:
    """The layout of `--layout`, or of single sizes; raises UsageError where both are given or sizes do not divide."""
    from gradassay.goldens.layout import Layout

    given = {name: size for name, size in sizes.items() if size is not None}
    if text and given:
        raise UsageError(
            f"--layout {text} and {', '.join(f'--{name}' for name in given)} both say what the layout is",
            hint="give one or the other",
        )
    return Layout.parse(text) if text else Layout(**given)
