"""Secrets that are shown once and kept as hashes."""

from __future__ import annotations

import hashlib
import secrets

ENTROPY_BYTES = 32


def new_secret(prefix: str = "") -> str:
    """A secret that cannot be guessed, url-safe."""
    return prefix + secrets.token_urlsafe(ENTROPY_BYTES)


def hashed(secret: str) -> str:
    """What is kept of a secret.

    A plain hash suffices where 256 bits are random: there is no dictionary to try. Being looked up by their hashes, the
    secrets themselves are never compared, and the time that a look-up takes says nothing about them.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
