"""Builds a golden for the commands, and keeps it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.cli.session import Session
from gradassay.cli.stores import configured_store
from gradassay.goldens.atomic import write_atomically

if TYPE_CHECKING:
    from gradassay.goldens.store.protocol import GoldenVersion


def build_and_keep(
    session: Session,
    problem: str,
    *,
    dtype: str,
    matrix: Path | None,
    out: Path | None,
    learning_rate: float = 0.0,
    second_units: int = 0,
) -> GoldenVersion | Path:
    """The golden's file, or its version in the store, where the records of its references are kept as well."""
    from gradassay.harness.build import Following, build_in, keep
    from gradassay.harness.launch import Pool

    # A store that cannot be opened is said now, not after the minutes that the references take.
    store = configured_store(session) if out is None else None
    progress = session.progress()
    with tempfile.TemporaryDirectory(prefix="gradassay-references-") as name, Pool(say=progress.say) as pool:
        built = build_in(
            Path(name),
            problem,
            dtype,
            matrix=matrix,
            pool=pool,
            progress=progress,
            following=Following(units=second_units, learning_rate=learning_rate) if learning_rate else None,
        )
        if store is not None:
            return keep(built, store)
        assert out is not None
        write_atomically(out, built.golden.read_bytes())
        return out
