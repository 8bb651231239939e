"""Names of projects."""

from __future__ import annotations

import re

from gradassay.goldens.errors import UsageError

EVERY_PROJECT = "*"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def check_project(name: str) -> str:
    """The name; raises UsageError where it cannot name a project."""
    if not re.fullmatch(NAME, name) or name.endswith("\n"):
        raise UsageError(
            f"{name[:80]!r} cannot name a project", hint="write up to 64 letters, digits, dots, hyphens and underscores"
        )
    return name
