"""The cells behind a golden, and the folder that a golden is built in with their records beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.goldens.store.keeper import Keeper
from gradassay.goldens.store.protocol import GoldenVersion
from gradassay.harness.build.basis import Following
from gradassay.harness.build.golden import build_golden
from gradassay.harness.cell import DTYPES, Cell
from gradassay.harness.launch import Pool
from gradassay.harness.matrix import golden_matrix, read_matrix
from gradassay.harness.problems import load_problem
from gradassay.harness.progress import Progress

GOLDEN = "golden"
"""The golden's file in its folder; the records beside it end with `.safetensors`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A folder that holds a golden's file and the records of its references."""

    folder: Path

    @property
    def golden(self) -> Path:
        """The golden's file."""
        return self.folder / GOLDEN

    @property
    def records(self) -> Sequence[Path]:
        """The records of its references, by name."""
        return sorted(self.folder.glob("*.safetensors"))


def reference_cells(problem: str, dtype: str, matrix: Path | None) -> Sequence[Cell]:
    """The cells of the matrix file, its problem and dtype filled in where it leaves them out, or those of the package.

    Raises UsageError for a problem or dtype profile that is not known.
    """
    if dtype not in DTYPES:
        raise UsageError(f"no dtype profile is called {dtype!r}", hint=f"choose from {', '.join(DTYPES)}")
    load_problem(problem)
    if matrix is None:
        return golden_matrix(problem, dtype).cells
    return read_matrix(matrix, defaults={"problems": problem, "dtypes": dtype}).cells


def build_in(
    folder: Path,
    problem: str,
    dtype: str,
    *,
    pool: Pool,
    matrix: Path | None = None,
    progress: Progress | None = None,
    following: Following | None = None,
) -> Built:
    """The golden, built in `folder`, which is the caller's; otherwise as `build_golden` and `reference_cells`."""
    cells = reference_cells(problem, dtype, matrix)
    golden = build_golden(problem, dtype, cells, pool=pool, folder=folder, progress=progress, following=following)
    built = Built(folder=folder)
    golden.write(built.golden)
    return built


def keep(built: Built, store: Keeper) -> GoldenVersion:
    """The golden's version in the store, where the records of its references are kept as well, before it."""
    for path in built.records:
        store.put_record(path)
    return store.put_golden(built.golden)
