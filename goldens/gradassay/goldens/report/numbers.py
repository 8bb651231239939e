"""Numbers as people read them: enough digits to decide by, and no more."""

from __future__ import annotations

import math

ABSENT = "—"


def factor(value: float | None) -> str:
    """A weight or ratio with four significant digits; `—` where it is unknown."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return scientific(value)
    text = f"{value:.4g}"
    return "0" if text == "-0" else f"{float(text):.10f}".rstrip("0").rstrip(".")


def scientific(value: float | None) -> str:
    """A small error with two significant digits, as in 2.1e-7; `—` where it is unknown."""
    if value is None:
        return ABSENT
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def error(value: float | None) -> str:
    """A relative error: plain from one in a thousand upwards, scientific below; `—` where it is unknown."""
    if value is None or not math.isfinite(value) or abs(value) < 1e-3 or abs(value) >= 1e4:
        return scientific(value)
    return f"{value:.2g}"


def power(value: float) -> str:
    """The smallest factor that would have been flagged, with two digits of what it exceeds 1 by."""
    excess = value - 1.0
    if not math.isfinite(value) or excess <= 0 or excess >= 1:
        return f"{value:.3g}"
    digits = max(2, 1 - math.floor(math.log10(excess)))
    return f"{value:.{min(digits, 15)}f}"
