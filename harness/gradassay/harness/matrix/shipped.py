"""Matrices that come with the package."""

from __future__ import annotations

from pathlib import Path

from gradassay.harness.matrix.file import Matrix, read_matrix

_FOLDER = Path(__file__).parent


def demo_matrix() -> Matrix:
    """The reference cells of `gradassay demo`: moe-tiny by every plain PyTorch strategy."""
    return read_matrix(_FOLDER / "demo.toml")


def golden_matrix(problem: str, dtype: str) -> Matrix:
    """The reference cells behind a golden where no matrix is given."""
    return read_matrix(_FOLDER / "golden.toml", defaults={"problems": problem, "dtypes": dtype})
