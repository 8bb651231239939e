"""The identity of a law: what findings of different runs have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_DIGITS = 32


def law_id(families: Iterable[str], pattern: str, formula: str) -> str:
    """The same text for the same families, pattern and formula, whatever the run."""
    text = "|".join((",".join(sorted(families)), pattern, formula))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def verdict_law(verdict: str) -> str:
    """What stands for a law where a run neither agrees nor diverges, and so has no finding."""
    return f"verdict:{verdict}"
