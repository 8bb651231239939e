"""Builds goldens: basis, truth and noise floor of a problem in one dtype profile, from runs on this machine."""

from __future__ import annotations

from gradassay.harness.build.assembly import assemble
from gradassay.harness.build.basis import Following
from gradassay.harness.build.golden import build_golden
from gradassay.harness.build.references import Built, build_in, keep, reference_cells

__all__ = ["Built", "Following", "assemble", "build_golden", "build_in", "keep", "reference_cells"]
