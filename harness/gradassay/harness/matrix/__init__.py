"""Cells = problem x strategy x layout x dtype, read from a TOML file; reading imports no torch."""

from __future__ import annotations

from gradassay.harness.matrix.file import Matrix, parse_matrix, read_matrix
from gradassay.harness.matrix.fit import misfit
from gradassay.harness.matrix.shipped import demo_matrix, golden_matrix

__all__ = ["Matrix", "demo_matrix", "golden_matrix", "misfit", "parse_matrix", "read_matrix"]
