"""The ledger: every entry, and the way to take one back."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from gradassay.api.auth.caller import Caller
from gradassay.api.auth.guard import Reader, Reviewer
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.entry import Action, Entry
from gradassay.api.ledger.visible import visible_entry
from gradassay.api.paging import from_cursor, to_cursor
from gradassay.api.service import ServiceDependency
from gradassay.api.web.number import NUMBER
from gradassay.api.web.page import Crumb, go, page
from gradassay.goldens.errors import Conflict, UsageError

router = APIRouter()
SHOWN = 50


@router.get("/ledger")
def show_ledger(
    request: Request,
    service: ServiceDependency,
    caller: Reader,
    golden: str = "",
    action: str = "",
    who: str = "",
    cursor: str = "",
) -> Response:
    """The entries, newest first, of one golden, one action or one person where that is asked."""
    wanted = None
    with suppress(ValueError):
        wanted = Action(action)
    found = service.ledger.entries(
        caller.project,
        golden=golden or None,
        action=wanted,
        who=who or None,
        before=from_cursor(cursor),
        limit=SHOWN,
    )
    return page(
        request,
        "ledger.html",
        title="Ledger",
        caller=caller,
        crumbs=(Crumb(text="Ledger"),),
        entries=found.items,
        next=to_cursor(found.next),
        cursor=cursor,
        goldens=tuple(known.name for known in service.ledger.goldens(caller.project)),
        actions=tuple(Action),
        golden=golden,
        action=wanted or "",
        who=who,
        undoable=undoable,
        reviews=Scope.REVIEW in caller.scopes,
    )


@router.get("/ledger/" + NUMBER)
def show_entry(request: Request, service: ServiceDependency, caller: Reader, number: int) -> Response:
    """One entry, and the form that takes it back."""
    return _page(request, caller, visible_entry(service.ledger, caller, number))


@router.post("/ledger/" + NUMBER + "/undo")
def undo(
    request: Request,
    service: ServiceDependency,
    caller: Reviewer,
    number: int,
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Takes the entry back, and shows the golden as it is then."""
    entry = visible_entry(service.ledger, caller, number)
    if not reason.strip():
        refused = UsageError("an undo must say why", hint="the reason stays in the ledger for those who come later")
        return _page(request, caller, entry, refused=refused)
    try:
        undone = service.ledger.undo(number, who=caller.who, why=reason.strip())
    except (Conflict, UsageError) as error:
        return _page(request, caller, entry, refused=error, reason=reason)
    service.assays.nudge()
    return go(f"/ledger/{undone.number}", f"Entry {number} is undone.")


def undoable(entry: Entry) -> bool:
    """Whether an entry of this kind can be taken back; whether it still counts, the ledger says when it is tried."""
    return entry.moves or entry.action in (Action.REJECTED, Action.ENDORSED)


def _page(
    request: Request,
    caller: Caller,
    entry: Entry,
    *,
    refused: Conflict | UsageError | None = None,
    reason: str = "",
) -> Response:
    return page(
        request,
        "entry.html",
        title=f"Ledger entry {entry.number}",
        caller=caller,
        crumbs=(Crumb(text="Ledger", url="/ledger"), Crumb(text=f"Entry {entry.number}")),
        status=refused.kind.http_status if refused else 200,
        entry=entry,
        undoable=undoable(entry),
        reviews=Scope.REVIEW in caller.scopes,
        refused=refused,
        reason=reason,
    )
