"""Reads the text of a law as a stranger would, into the weights that it claims."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from foreign import Sizes

_WORDS = [
    (r"\[r = owner\]", "(r == o)"),
    (r"\[r in owner's ep group\]", "(r // ep == o // ep)"),
    (r"\[r in owner's replica\]", "(r // (dp // replicate) == o // (dp // replicate))"),
    (r"mean\(n\)/n\[r,m\]", "(tokens / units / n[m, r])"),
    (r"n\[r,m\]/mean\(n\)", "(n[m, r] / (tokens / units))"),
    (r"mean\(n\)/n\[r\]", "(tokens / dp / n[:, r].sum())"),
    (r"mean\(n\)/n\[m\]", "(tokens / accum / n[m].sum())"),
    (r"n\[r\]/mean\(n\)", "(n[:, r].sum() / (tokens / dp))"),
    (r"n\[m\]/mean\(n\)", "(n[m].sum() / (tokens / accum))"),
    (r"\[m = M-1\]", "(m == M-1)"),
    (r"\[m = 0\]", "(m == 0)"),
    (r"\b(m|r|owner) = (\d+)", r"\1 == \2"),
    (r"in \{([\d,]+)\}", r"in (\1,)"),
    (r"\[((?:m|r) in [^\]]*)\]", r"(1 if \1 else 0)"),
]


def claimed(law: str, sizes: Sizes, tokens: list[int], stage: int = 0) -> NDArray[np.float64]:
    """[owner, dp, accum] that the right-hand side of a law claims, given the tokens of every unit."""
    text = law.removeprefix("w[r,m] = ")
    for pattern, plain in _WORDS:
        text = re.sub(pattern, plain, text)
    counts = np.array(tokens[: sizes.units], dtype=np.float64).reshape(sizes.accum, sizes.dp)
    known = vars(sizes) | {
        "M": sizes.accum,
        "n": counts,
        "tokens": counts.sum(),
        "units": sizes.units,
        "edp": sizes.dp / sizes.ep,
        "world": sizes.dp * sizes.tp * sizes.pp * sizes.cp,
        "stage": stage,
    }
    code = compile(text, "law", "eval")
    owners = range(sizes.dp) if re.search(r"\bo\b|owner", text) else [0]
    one_each = [
        [
            [eval(code, {}, known | {"o": owner, "owner": owner, "r": rank, "m": step}) for step in range(sizes.accum)]
            for rank in range(sizes.dp)
        ]
        for owner in owners
    ]
    return np.broadcast_to(np.array(one_each, dtype=np.float64), (sizes.dp, sizes.dp, sizes.accum))
