"""Files as MLflow runs: one file a run, whose digest tag is written after the file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from gradassay.goldens.errors import InvalidFile, StoreError, Unreachable
from gradassay.goldens.store.mlflow_client import Connection, ignoring
from gradassay.goldens.store.mlflow_limits import Summary
from gradassay.goldens.store.staging import verified

if TYPE_CHECKING:
    from mlflow.entities import Run

DIGEST = "gradassay.digest"
SIZE = "gradassay.bytes"
_MAX_RUN_NAME = 250


def publish_run(
    connection: Connection, experiment: str, name: str, file: Path, file_name: str, digest: str, summary: Summary
) -> Run:
    """A finished run that holds `file`; it carries its digest, and so becomes visible, once the file is there."""
    with connection.calling() as client:
        from mlflow.entities import Metric, RunTag

        run = client.create_run(
            connection.experiment(experiment), run_name=name if len(name) <= _MAX_RUN_NAME else digest
        )
        run_id, started = run.info.run_id, run.info.start_time
        tags = {**summary.tags, SIZE: str(file.stat().st_size), DIGEST: digest}
        with _named(file, file_name) as path:
            client.log_artifact(run_id, str(path))
        client.log_batch(
            run_id,
            metrics=[Metric(key, value, started, 0) for key, value in summary.metrics.items()],
            tags=[RunTag(key, value) for key, value in tags.items()],
        )
        client.set_terminated(run_id)
        return run


def visible_runs(connection: Connection, experiment: str, digest: str | None = None) -> list[Run]:
    """The runs of an experiment that hold a whole file, or this one, oldest first."""
    condition = f"tags.`{DIGEST}` LIKE 'sha256:%'" if digest is None else f"tags.`{DIGEST}` = '{digest}'"
    found: list[Run] = []
    with connection.calling() as client:
        token = None
        while True:
            page = client.search_runs(
                [connection.experiment(experiment)],
                filter_string=condition,
                max_results=1000,
                order_by=["attributes.start_time ASC", "attributes.run_id ASC"],
                page_token=token,
            )
            found += page
            token = page.token
            if not token:
                return found


def visible_run(connection: Connection, experiment: str, run_id: str) -> Run | None:
    """The run of this id where it belongs to the experiment, holds a whole file and was not deleted."""
    with connection.calling() as client, ignoring("RESOURCE_DOES_NOT_EXIST"):
        run = client.get_run(run_id)
        known = run.info.experiment_id == connection.experiment(experiment) and run.info.lifecycle_stage == "active"
        return run if known and DIGEST in run.data.tags else None
    return None


def delete_run(connection: Connection, run_id: str, file_name: str) -> None:
    """Deletes a run and its file; what MLflow keeps of it besides is a row that `mlflow gc` removes."""
    with connection.calling() as client:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with ignoring("RESOURCE_DOES_NOT_EXIST"):
            artifacts = client.get_run(run_id).info.artifact_uri
            client.delete_run(run_id)
            get_artifact_repository(artifacts, tracking_uri=connection.uri).delete_artifacts(file_name)  # type: ignore[no-untyped-call]


def fetch(connection: Connection, run_ids: Sequence[str], file_name: str, digest: str) -> Path:
    """A local file with the content `digest`, from the first of these runs that still has it.

    Artifacts in a folder are used in place; others are kept in the cache folder by digest.
    """
    cached = connection.cache / f"{digest.removeprefix('sha256:')}.safetensors"
    if cached.exists():
        try:
            return verified(cached, digest)
        except InvalidFile:
            cached.unlink(missing_ok=True)
    failures: list[InvalidFile | StoreError] = []
    for run_id in run_ids:
        try:
            return _fetch_one(connection, run_id, file_name, digest, cached)
        except Unreachable:
            raise
        except (InvalidFile, StoreError) as error:
            failures.append(error)
    raise failures[0]


def _fetch_one(connection: Connection, run_id: str, file_name: str, digest: str, cached: Path) -> Path:
    with connection.calling() as client:
        folder_here = _local(client.get_run(run_id).info.artifact_uri)
        if folder_here is not None:
            return verified(folder_here / file_name, digest)
        connection.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=connection.cache, prefix=".fetching.") as folder:
            client.download_artifacts(run_id, file_name, folder)
            verified(Path(folder) / file_name, digest)
            os.replace(Path(folder) / file_name, cached)
    return cached


@contextmanager
def _named(file: Path, name: str) -> Iterator[Path]:
    """A hard link to a file under another name, since MLflow names an artifact after its local file."""
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".naming.") as folder:
        path = Path(folder) / name
        os.link(file, path)
        yield path


def _local(artifact_uri: str) -> Path | None:
    if artifact_uri.startswith("file:"):
        return Path(url2pathname(urlsplit(artifact_uri).path))
    return None if "://" in artifact_uri or artifact_uri.startswith("mlflow-artifacts:") else Path(artifact_uri)
