"""`gradassay plan`: layouts that keep all laws apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradassay.cli.session import session_of
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from gradassay.goldens.layout import Layout


def plan(
    context: typer.Context,
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Most ranks that a layout may have.")] = 8,
    units: Annotated[int, typer.Option("--units", min=1, help="Most units: dp * accum.")] = 24,
    dp: Annotated[str, typer.Option("--dp", metavar="N,N", help="Only these numbers of data-parallel ranks.")] = "",
    experts: Annotated[
        int, typer.Option("--experts", min=0, help="Experts of the problem, which ep must divide; 0: none.")
    ] = 12,
) -> None:
    """Propose the fewest layouts that keep all laws apart, so that one matrix names any fault without a tie."""
    from gradassay.cli.tables import table
    from gradassay.goldens.assay.plan import plan_layouts

    session = session_of(context)
    sizes = _sizes(dp) or set(range(1, ranks + 1))

    def allowed(layout: Layout) -> bool:
        return layout.dp in sizes and (experts % layout.ep == 0 if experts else layout.ep == 1)

    if not any(size <= min(ranks, units) for size in sizes):
        raise UsageError(
            f"no layout has dp in {dp}, at most {ranks} ranks and at most {units} units",
            hint="raise --ranks and --units, or name smaller sizes",
        )
    found = plan_layouts(max_ranks=ranks, max_units=units, allowed=allowed)
    if session.json:
        layouts = [str(layout) for layout in found.layouts]
        session.emit_json({"layouts": layouts, "laws": found.laws, "ties": [list(group) for group in found.ties]})
        return
    rows = ((str(layout), str(layout.world), str(layout.units)) for layout in found.layouts)
    session.show(table(("layout", "ranks", "units"), rows, right=("ranks", "units")))
    together = f"{len(found.layouts)} layouts keep {found.laws} laws apart"
    session.say(f"{together}, except {len(found.ties)} groups" if found.ties else together)
    for group in found.ties:
        session.say(f"  the same in all of them: {', '.join(group)}")


def _sizes(text: str) -> set[int]:
    try:
        return {int(part) for part in text.split(",") if part.strip()}
    except ValueError:
        raise UsageError(f"--dp {text!r} is no list of whole numbers", hint="write it as in 4,6,8") from None
