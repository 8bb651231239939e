"""What the ranks of `gradassay doctor` run."""

from __future__ import annotations

from pathlib import Path

from gradassay.harness.cell import Cell


def add_up(cell: Cell, out: Path) -> None:
    """Adds one from every rank over gloo; rank 0 writes the sum. Raises RuntimeError where it is not their number."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        total = torch.ones(1)
        dist.all_reduce(total)
        if int(total.item()) != cell.layout.world:
            raise RuntimeError(f"{cell.layout.world} ranks added up to {total.item()}")
        if dist.get_rank() == 0:
            out.write_text(f"{int(total.item())}\n")
    finally:
        dist.destroy_process_group()
