"""Tables as every command prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """A table without lines; long cells are folded, never cut. right: titles whose columns are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    from gradassay.goldens.report.printable import printable

    made = Table(box=None, pad_edge=False, show_header=any(titles), header_style="dim", padding=(0, 3, 0, 0))
    for title in titles:
        made.add_column(title, overflow="fold", justify="right" if title in right else "left")
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made
