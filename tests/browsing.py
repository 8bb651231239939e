"""How tests and screenshots start Chromium: Debian's, headless, without a word to the outside."""

from __future__ import annotations

import os

EXECUTABLE = os.environ.get("GRADASSAY_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE = (1280, 900), (390, 844)
"""(width, height) of the windows that every page has to fit into."""
