"""Names and layouts: a framework's parameters -> a problem's, on index ranges; reading a map imports no torch."""

from __future__ import annotations

from gradassay.harness.names.map import SHIPPED, NameMap

__all__ = ["SHIPPED", "NameMap"]
