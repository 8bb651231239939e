"""Text that every database keeps."""

from __future__ import annotations


def is_text(*values: str) -> bool:
    """Whether every database can keep these, and be asked for them: without NULs, and without halves of characters."""
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for value in values for sign in value)
