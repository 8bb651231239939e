"""Builds a golden for the commands, and keeps it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.cli.session import Session
from gradassay.cli.stores import configured_store
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.goldens.store.protocol import GoldenVersion
    from gradassay.harness.cell import Cell


def reference_cells(problem: str, dtype: str, matrix: Path | None) -> Sequence[Cell]:
    """The cells of the matrix file, its problem and dtype filled in where it leaves them out, or those of the package."""
    from gradassay.harness.cell import DTYPES
    from gradassay.harness.matrix import golden_matrix, read_matrix
    from gradassay.harness.problems import load_problem

    if dtype not in DTYPES:
        raise UsageError(f"no dtype profile is called {dtype!r}", hint=f"choose from {', '.join(DTYPES)}")
    load_problem(problem)
    if matrix is None:
        return golden_matrix(problem, dtype).cells
    return read_matrix(matrix, defaults={"problems": problem, "dtypes": dtype}).cells


def build_and_keep(
    session: Session,
    problem: str,
    *,
    dtype: str,
    matrix: Path | None,
    out: Path | None,
    learning_rate: float = 0.0,
    second_units: int = 0,
) -> GoldenVersion | Path:
    """The golden's file, or its version in the store, where the records of its references are kept as well."""
    from gradassay.harness.build import Following, build_golden
    from gradassay.harness.launch import Pool

    cells = reference_cells(problem, dtype, matrix)
    with tempfile.TemporaryDirectory(prefix="gradassay-references-") as name, Pool() as pool:
        folder = Path(name)
        golden = build_golden(
            problem,
            dtype,
            cells,
            pool=pool,
            folder=folder,
            progress=session.progress(),
            following=Following(units=second_units, learning_rate=learning_rate) if learning_rate else None,
        )
        if out is not None:
            golden.write(out)
            return out
        store = configured_store(session)
        for path in sorted(folder.glob("*.safetensors")):
            store.put_record(path)
        path = folder / "golden"
        golden.write(path)
        return store.put_golden(path)
