"""Negative controls: faults put into real records by arithmetic, to prove that a golden would show them."""

from __future__ import annotations

from gradassay.harness.controls.alter import altered
from gradassay.harness.controls.score import control_score
from gradassay.harness.controls.trials import FAULTS, Trial, trials

__all__ = ["FAULTS", "Trial", "altered", "control_score", "trials"]
