"""The verdict that pages show for a run: against what is approved now, else the newest that is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session, load_only

from gradassay.api.database.tables import AssayRow, ChannelRow
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

AT_ONCE = 500


def verdicts(session: Session, runs: Collection[str], *, documents: bool = False) -> Mapping[str, AssayRow]:
    """By run id, its assay against the approved version, else its newest against any; runs without one are left out.

    documents: whether the compressed documents are read as well.
    """
    wanted = list(runs)
    chosen: dict[str, AssayRow] = {}
    ranks: dict[str, tuple[bool, float]] = {}
    for first in range(0, len(wanted), AT_ONCE):
        question = (
            select(AssayRow, ChannelRow.version)
            .outerjoin(ChannelRow, (ChannelRow.golden == AssayRow.golden) & (ChannelRow.channel == DEFAULT_CHANNEL))
            .where(AssayRow.run.in_(wanted[first : first + AT_ONCE]), AssayRow.golden.is_not(None))
        )
        if not documents:
            question = question.options(
                load_only(
                    AssayRow.run,
                    AssayRow.golden,
                    AssayRow.version,
                    AssayRow.verdict,
                    AssayRow.sentence,
                    AssayRow.computed_at,
                )
            )
        for assay, approved in session.execute(question):
            rank = (assay.version == approved, assay.computed_at.timestamp())
            if rank >= ranks.get(assay.run, (False, 0.0)):
                chosen[assay.run], ranks[assay.run] = assay, rank
    return chosen
