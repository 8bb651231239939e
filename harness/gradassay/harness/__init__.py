"""Runs one well-defined training step and captures its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradassay.goldens.layout import Layout

if TYPE_CHECKING:
    from gradassay.harness.problems import load_problem
    from gradassay.harness.problems.module import ModuleProblem
    from gradassay.harness.recorder import Recorder

__all__ = ["Layout", "ModuleProblem", "Recorder", "load_problem"]


def __getattr__(name: str) -> Any:
    """Recorder needs torch and is imported when asked for."""
    if name == "Recorder":
        from gradassay.harness.recorder import Recorder

        return Recorder
    if name == "ModuleProblem":
        from gradassay.harness.problems.module import ModuleProblem

        return ModuleProblem
    if name == "load_problem":
        from gradassay.harness.problems import load_problem

        return load_problem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
