"""The store of a session, and the golden that a test means."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.errors import InvalidFile
from gradassay.goldens.reference import GoldenReference, Referred, resolve
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

if TYPE_CHECKING:
    from gradassay.goldens.store.keeper import Keeper

_VERSION = re.compile(r"v[1-9]\d*")


def open_golden_store(address: str, *, say: Callable[[str], None] = lambda _text: None) -> Keeper:
    """The store at this address: a folder, `dir:`, `sqlite:///`, an MLflow URI, or the URL of the service.

    An http address is asked what it is. say: told about tries of a service that does not answer. Raises UsageError for an
    address of no known kind, Unreachable where nobody answers.
    """
    if address.startswith(("http://", "https://")):
        from gradassay.client.probe import is_service
        from gradassay.client.settings import ClientSettings

        settings = ClientSettings.load()
        if is_service(address, retry_s=settings.retry_s):
            from gradassay.client.client import ServiceClient
            from gradassay.client.store import ServiceStore

            token = settings.token.get_secret_value()
            return ServiceStore(ServiceClient(address, token=token, retry_s=settings.retry_s, say=say))
    from gradassay.goldens.store.open import open_store

    return open_store(address)


class Goldens:
    """The goldens of one session; the store is opened when the first of them is asked for, and each is fetched once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._store: Keeper | None = None
        self._found: dict[str, Referred] = {}

    @property
    def store(self) -> Keeper:
        """The store, open."""
        if self._store is None:
            self._store = open_golden_store(self._address)
        return self._store

    @property
    def is_service(self) -> bool:
        """Whether the store is the service's."""
        if not self._address.startswith("http"):
            return False
        from gradassay.client.store import ServiceStore

        return isinstance(self.store, ServiceStore)

    def find(self, name: str, golden: str, folder: Path) -> Referred:
        """The file of the golden that `golden` means where a record of golden `name` is judged.

        golden: a channel, "vN", "NAME@vN" or a file, which is looked for in `folder`. Raises NoGolden, NotFound, InvalidFile
        and what the store raises.
        """
        if is_file(golden):
            path = folder / golden
            if not path.is_file():
                raise InvalidFile(f"{path}: there is no such golden", hint="it is named in the test", path=str(path))
            return resolve(str(path), lambda: self.store)[0]
        ref = reference(name, golden)
        if ref not in self._found:
            self._found[ref] = resolve(ref, lambda: self.store)[0]
        return self._found[ref]


def reference(name: str, golden: str) -> str:
    """The golden as the command line writes it: `golden:NAME@approved`."""
    text = golden.removeprefix("golden:")
    if "@" not in text:
        text = f"{name}@{text}" if text else f"{name}@{DEFAULT_CHANNEL}"
    GoldenReference.parse(text)
    return f"golden:{text}"


def is_file(golden: str) -> bool:
    """Whether the text names a file rather than a channel or version."""
    return "@" not in golden and not _VERSION.fullmatch(golden) and (golden.endswith(".safetensors") or "/" in golden)
