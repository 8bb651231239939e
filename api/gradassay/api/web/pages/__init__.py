"""One page a file."""

from __future__ import annotations

from fastapi import APIRouter

from gradassay.api.web.pages import diff, faults, goldens, history, inbox, ledger, matrix, run, runs, settings, version

router = APIRouter(include_in_schema=False)
for one in (inbox, runs, run, matrix, diff, version, goldens, history, faults, ledger, settings):
    router.include_router(one.router)
