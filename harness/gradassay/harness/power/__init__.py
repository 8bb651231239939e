"""Detection power: the smallest errors that are flagged, measured by injection, beside what published checks flag."""

from __future__ import annotations

from gradassay.harness.power.honest import Honest, run_honest
from gradassay.harness.power.measure import Smallest, measure
from gradassay.harness.power.published import RULES, Rule

__all__ = ["RULES", "Honest", "Rule", "Smallest", "measure", "run_honest"]
