"""Goldens and entries that a caller may see; what is another project's is as unknown as what there is not."""

from __future__ import annotations

from gradassay.api.auth.caller import Caller
from gradassay.api.ledger.entry import Entry
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.ledger.version import Golden, Version
from gradassay.goldens.errors import NotFound


def visible_golden(ledger: Ledger, caller: Caller, name: str) -> Golden:
    """The golden of this name; raises NotFound, in the same words for what is another project's."""
    try:
        golden = ledger.golden(name)
    except NotFound:
        golden = None
    if golden is None or not caller.sees(golden.project):
        raise NotFound(f"golden {name[:200]!r} is not known", hint="/goldens lists those of your project")
    return golden


def visible_version(ledger: Ledger, caller: Caller, name: str, number: int) -> Version:
    """The version; raises NotFound, and names the other versions only to those who may see them."""
    visible_golden(ledger, caller, name)
    return ledger.version(name, number)


def visible_entry(ledger: Ledger, caller: Caller, number: int) -> Entry:
    """The entry of this number; raises NotFound."""
    try:
        entry = ledger.entry(number)
    except NotFound:
        entry = None
    if entry is None or not caller.sees(entry.project):
        raise NotFound(f"ledger entry {number} is not known", hint="/ledger lists those of your project")
    return entry
