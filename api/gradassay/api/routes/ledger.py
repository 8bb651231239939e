"""The ledger: everything that was decided, and taking a decision back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, status
from pydantic import BaseModel, Field

from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.ledger.known import EntryPage, KnownEntry
from gradassay.api.ledger.visible import visible_entry
from gradassay.api.paging import LARGEST, from_cursor, to_cursor
from gradassay.api.service import ServiceDependency

router = APIRouter(prefix="/api/v1/ledger", tags=["ledger"])


class Undo(BaseModel):
    """Why a decision is taken back."""

    why: str = Field(default="", max_length=4000)


@router.get("")
def list_entries(
    caller: Reader,
    service: ServiceDependency,
    golden: Annotated[str | None, Query(max_length=200, description="only entries of this golden")] = None,
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = 50,
) -> EntryPage:
    """Entries of the caller's project, newest first."""
    page = service.ledger.entries(caller.project, golden=golden, before=from_cursor(cursor), limit=limit)
    return EntryPage(items=[KnownEntry.of(entry) for entry in page.items], next=to_cursor(page.next))


@router.post("/{entry}/undo", status_code=status.HTTP_201_CREATED)
def undo_entry(
    caller: Reviewer, service: ServiceDependency, entry: Annotated[int, Path(ge=1, lt=2**31)], undo: Undo
) -> KnownEntry:
    """Takes an approval, a first approval or a rejection back; a channel points where it did before.

    409 where it was undone already, or something has come after it; `detail` says what.
    """
    visible_entry(service.ledger, caller, entry)
    undone = service.ledger.undo(entry, who=caller.who, why=undo.why)
    service.assays.nudge()
    return KnownEntry.of(undone)
