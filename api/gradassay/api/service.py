"""Everything that a request needs, opened once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Self

from fastapi import Depends, Request

from gradassay.api.auth.exchange import Exchange
from gradassay.api.auth.logins import Logins
from gradassay.api.auth.tokens import Tokens
from gradassay.api.database.database import Database
from gradassay.api.database.migrate import upgrade
from gradassay.api.judging.assays import Assays
from gradassay.api.ledger.ledger import Ledger
from gradassay.api.reviews.reviews import Reviews
from gradassay.api.runs.runs import Runs
from gradassay.api.settings import ServiceSettings
from gradassay.goldens.store.open import open_store
from gradassay.goldens.store.protocol import GoldenStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of one service. The store keeps files, the database what is known and decided about them."""

    settings: ServiceSettings
    store: GoldenStore
    database: Database
    tokens: Tokens
    logins: Logins
    exchange: Exchange
    runs: Runs
    ledger: Ledger
    assays: Assays
    reviews: Reviews

    @classmethod
    def open(cls, settings: ServiceSettings) -> Self:
        """The service of these settings, its database at the newest revision; the store opens on first use."""
        store, database = open_store(settings.store), Database(settings.database_url)
        upgrade(database)
        tokens = Tokens(database)
        runs, ledger = Runs(database, store), Ledger(database, store, reviewers=settings.reviewers)
        return cls(
            settings=settings,
            store=store,
            database=database,
            tokens=tokens,
            logins=Logins(
                database,
                idle=timedelta(seconds=settings.session_idle_s),
                longest=timedelta(seconds=settings.session_longest_s),
            ),
            exchange=Exchange(settings.oidc_issuers, tokens),
            runs=runs,
            ledger=ledger,
            assays=Assays(database, store, runs=runs, ledger=ledger),
            reviews=Reviews(database),
        )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDependency = Annotated[Service, Depends(_service)]
"""The service, as an argument of a route."""
