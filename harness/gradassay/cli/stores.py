"""Where goldens and records are, as the global options and the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gradassay.cli.session import Session
from gradassay.goldens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gradassay.client.client import ServiceClient
    from gradassay.goldens.reference import Referred
    from gradassay.goldens.store.approval import Approval
    from gradassay.goldens.store.protocol import GoldenVersion, StoredRecord


class Keeper(Protocol):
    """What commands ask of a store, and what a service does as well; see gradassay.goldens.store.protocol.GoldenStore."""

    def put_golden(self, path: Path) -> GoldenVersion:
        """Keeps the golden as the next version of its name."""
        ...

    def put_record(self, path: Path) -> StoredRecord:
        """Keeps the record."""
        ...

    def goldens(self, name: str | None = None) -> Sequence[GoldenVersion]:
        """All versions, of all names or of one."""
        ...

    def approvals(self, name: str) -> Sequence[Approval]:
        """The history of all channels of `name`, oldest first."""
        ...

    def golden_path(self, name: str, version: int | None = None, *, channel: str = ...) -> Path:
        """A local file with the given version, or with the one that `channel` points to."""
        ...

    def record_path(self, reference: str) -> Path:
        """A local file with the record of this id or digest."""
        ...


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


def resolve_reference(session: Session, text: str) -> Sequence[Referred]:
    """The files that a reference means; run: and golden: are of the service where a URL is set, mlflow: never is."""
    from gradassay.goldens.reference import resolve
    from gradassay.goldens.store.open import open_store

    return resolve(text, open_store if text.startswith("mlflow:") else lambda: configured_store(session))
