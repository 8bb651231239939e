"""What a token may do beside reading its project."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """One permission; none of them implies another, and each token lists its own."""

    POST = "post"
    REVIEW = "review"
    ADMIN = "admin"
