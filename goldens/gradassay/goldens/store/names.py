"""Names of goldens as names of folders and registered models."""

from __future__ import annotations

from urllib.parse import quote, unquote

from gradassay.goldens.errors import UsageError

MAX_LENGTH = 200


def encode(name: str) -> str:
    """The name with everything but letters, digits and `_.-~` percent-encoded, safe as a file or model name.

    Raises UsageError for an empty name and for one longer than 200 characters when encoded.
    """
    encoded = quote(name, safe="")
    if encoded.startswith("."):
        encoded = f"%2E{encoded[1:]}"
    if not encoded or len(encoded) > MAX_LENGTH:
        raise UsageError(
            f"golden name {name[:80]!r} has {len(encoded)} characters when encoded, allowed are 1 to {MAX_LENGTH}",
            hint="shorten the problem's name",
            golden=name[:MAX_LENGTH],
        )
    return encoded


def decode(encoded: str) -> str:
    """The name that `encode` was given."""
    return unquote(encoded)
