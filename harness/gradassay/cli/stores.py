"""The store that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradassay.goldens.store.protocol import GoldenStore


def configured_store() -> GoldenStore:
    """The store of GRADASSAY_STORE or --store, opened when first used."""
    from gradassay.goldens.store.open import open_store

    return open_store()
