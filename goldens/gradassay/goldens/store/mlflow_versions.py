"""Rows of MLflow's model registry: the versions of goldens, and the entries of their approval ledgers.

The registry numbers the versions of a model one after the other, in the order in which they were committed. That makes
a registered model an append-only list that any number of writers on any machine can share: what a golden's versions
and its ledger need.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gradassay.goldens.errors import StoreError
from gradassay.goldens.store import names
from gradassay.goldens.store.approval import Approval
from gradassay.goldens.store.mlflow_client import Connection, ignoring

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

GOLDEN = "gradassay."
LEDGER = "gradassay-approvals."
_ATTEMPTS = 5


def append_version(connection: Connection, model: str, run: Run, tags: Mapping[str, str]) -> ModelVersion:
    """The next version of the registered model, made where it is missing; its source is the run's artifacts."""
    from mlflow.exceptions import MlflowException

    with connection.calling() as client:
        for attempt in range(_ATTEMPTS):
            try:
                return client.create_model_version(
                    model, source=run.info.artifact_uri, run_id=run.info.run_id, tags=dict(tags), await_creation_for=0
                )
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST" and attempt == 0:
                    with ignoring("RESOURCE_ALREADY_EXISTS"):
                        client.create_registered_model(model)
                elif "Giving up after" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
    raise StoreError(f"{connection}: no version of {model} could be made in {_ATTEMPTS} attempts")


def search_versions(connection: Connection, name: str | None) -> tuple[list[ModelVersion], list[ModelVersion]]:
    """The registry's rows of one golden or of all, in order: those of versions, and those of ledgers."""
    condition = "name LIKE 'gradassay%'"
    if name is not None:
        encoded = names.encode(name)
        condition = f"name IN ('{GOLDEN}{encoded}', '{LEDGER}{encoded}')"
    found: list[ModelVersion] = []
    with connection.calling() as client:
        token = None
        while True:
            page = client.search_model_versions(condition, max_results=1000, page_token=token)
            found += page
            token = page.token
            if not token:
                break
    found.sort(key=lambda row: (row.name, int(row.version)))
    return [row for row in found if row.name.startswith(GOLDEN)], [row for row in found if row.name.startswith(LEDGER)]


def search_aliases(connection: Connection) -> dict[str, dict[str, int]]:
    """By golden, the versions that MLflow's aliases name."""
    found: dict[str, dict[str, int]] = {}
    with connection.calling() as client:
        token = None
        while True:
            page = client.search_registered_models(f"name LIKE '{GOLDEN}%'", max_results=1000, page_token=token)
            for model in page:
                named = {alias: int(version) for alias, version in model.aliases.items()}
                found[names.decode(model.name.removeprefix(GOLDEN))] = named
            token = page.token
            if not token:
                return found


def ledger_tags(entry: Approval) -> dict[str, str]:
    """The entry as tags of a version of the ledger's registered model."""
    tags = {
        "channel": entry.channel,
        "version": str(entry.version),
        "previous": "" if entry.previous is None else str(entry.previous),
        "who": entry.who,
        "why": entry.why,
        "when": entry.when,
    }
    return {f"gradassay.{key}": value for key, value in tags.items()}


def ledger_entry(row: ModelVersion) -> Approval:
    """The entry that a version of the ledger's registered model holds."""
    tags = row.tags
    previous = tags["gradassay.previous"]
    return Approval(
        name=names.decode(row.name.removeprefix(LEDGER)),
        channel=tags["gradassay.channel"],
        version=int(tags["gradassay.version"]),
        previous=int(previous) if previous else None,
        who=tags["gradassay.who"],
        why=tags["gradassay.why"],
        when=tags["gradassay.when"],
    )


def utc(milliseconds: int) -> str:
    """MLflow's time stamp as UTC, ISO 8601."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
