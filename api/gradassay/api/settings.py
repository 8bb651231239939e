"""Settings of the service, beside those that every room reads."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gradassay.api.auth.issuer import OidcIssuer
from gradassay.api.auth.project import NAME
from gradassay.goldens.errors import UsageError
from gradassay.goldens.settings import Settings
from gradassay.goldens.store.open import folder_of_store

DATABASE = "service.db"


def _database_beside(known: dict[str, Any]) -> str:
    """The SQLite file beside the store; raises UsageError for a store that is in no folder of this machine."""
    folder = folder_of_store(known["store"])
    if folder is None:
        raise UsageError(
            "the store is not in a folder of this machine, so the service's database has no place",
            hint="set GRADASSAY_DATABASE_URL to postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH",
        )
    return f"sqlite:///{folder}/{DATABASE}"


class ServiceSettings(Settings):
    """What the service reads; each is the environment variable GRADASSAY_ and its name in capitals."""

    host: str = Field(
        default="127.0.0.1",
        description="address that the service listens on; beyond this machine it belongs behind TLS",
    )
    port: int = Field(default=8321, ge=0, le=65535, description="port that the service listens on")
    max_upload_bytes: int = Field(
        default=2**30, ge=1, description="largest record that is accepted; a larger one is refused with 413"
    )
    database_url: str = Field(
        default_factory=_database_beside,
        description="the service's own database: postgresql+psycopg://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH; "
        "by default service.db in the folder of the store",
    )
    reviewers: int = Field(
        default=1, ge=1, le=2, description="people who must approve a golden version before a channel points to it"
    )
    project: str = Field(
        default="default", pattern=NAME, description="project of those who come by a login link of this machine"
    )
    session_idle_s: int = Field(
        default=43_200, ge=60, description="a browser's session ends after so many seconds without a request"
    )
    session_longest_s: int = Field(
        default=604_800, ge=60, description="a browser's session ends so many seconds after it began, however busy"
    )
    oidc_issuers: tuple[OidcIssuer, ...] = Field(
        default=(),
        description="who vouches for CI jobs that exchange their identity for a token, as a JSON list of objects with "
        "issuer, audience, jwks_uri, claim and projects",
    )
    sweep_s: float = Field(
        default=60.0,
        gt=0,
        description="seconds between two looks for what the command line made in the store, or a crash left undone",
    )
    shutdown_s: float = Field(
        default=20.0,
        ge=0,
        description="seconds that requests in flight are given to finish when the service is stopped",
    )
