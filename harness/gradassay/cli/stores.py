"""Where goldens and records are, as the global options and the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradassay.cli.session import Session
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradassay.client.client import ServiceClient
    from gradassay.client.spool import Spool
    from gradassay.goldens.reference import Referred
    from gradassay.goldens.store.keeper import Keeper


def configured_store(session: Session) -> Keeper:
    """The service where a URL is set, else the store of --store or GRADASSAY_STORE; opened when first used."""
    if session.remote:
        from gradassay.client.store import ServiceStore

        return ServiceStore(configured_service(session))
    from gradassay.goldens.store.open import open_store

    return open_store()


def configured_service(session: Session) -> ServiceClient:
    """The service of --url or GRADASSAY_URL; raises UsageError where none is set."""
    if not session.url:
        raise UsageError("this needs a service", hint="name it by --url or GRADASSAY_URL, as in http://127.0.0.1:8321")
    from gradassay.client.client import ServiceClient
    from gradassay.client.settings import ClientSettings

    settings = ClientSettings.load()
    return ServiceClient(
        session.url, token=settings.token.get_secret_value(), retry_s=settings.retry_s, say=session.say
    )


def configured_spool(client: ServiceClient) -> Spool:
    """What waits for this service in the folder of GRADASSAY_SPOOL; nothing is made before its first use."""
    from gradassay.client.settings import ClientSettings
    from gradassay.client.spool import Spool

    return Spool(ClientSettings.load().spool, client.url)


def resolve_reference(session: Session, text: str) -> Sequence[Referred]:
    """The files that a reference means; run: and golden: are of the service where a URL is set, mlflow: never is."""
    from gradassay.goldens.reference import resolve
    from gradassay.goldens.store.open import open_store

    return resolve(text, open_store if text.startswith("mlflow:") else lambda: configured_store(session))
