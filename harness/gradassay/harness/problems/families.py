"""Families of parameters guessed from their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

RULES: Mapping[str, str] = {
    "expert": r"(^|\.)(?!shared_)\w*experts\.",
    "router": r"(^|[._])(router|gate\.wg|gating)\.",
    "norm": r"(norm|(^|[._])ln(_?[0-9a-z]*)?)\.(weight|bias|scale)$",
    "embedding": r"(embed|(^|[._])wte\.|(^|[._])wpe\.|position)",
    "bias": r"bias$",
}
"""Family -> pattern found in the lower-case name, the first that fits; what fits none is `dense`, or `norm` where it is a
weight of one axis.
"""


def guess_family(name: str, shape: tuple[int, ...], *, expert: bool = False) -> str:
    """The family of a parameter. expert: it says so itself."""
    if expert:
        return "expert"
    lower = name.lower()
    for family, pattern in RULES.items():
        if re.search(pattern, lower):
            return family
    return "norm" if len(shape) == 1 else "dense"
