"""The connection to MLflow: imported late, kept quiet, and its failures told apart."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from gradassay.goldens.errors import MissingExtra, StoreError, Unreachable, UsageError
from gradassay.goldens.extras import missing_extra
from gradassay.goldens.store.lock import locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# Only where the user has not chosen otherwise. Retries wait 1, 2 and 4 s, not MLflow's own 4 minutes.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}


class Connection:
    """One MLflow tracking URI; the client is made on first use, which takes seconds (imports, a new database's tables).

    artifacts: root of new experiments' artifacts, "" where a server decides. cache: folder for what is fetched.
    database: the SQLite file, None for other addresses.
    """

    def __init__(self, uri: str, *, artifacts: str, cache: Path) -> None:
        self.uri = uri
        self.artifacts = artifacts
        self.cache = cache
        self.database: Path | None = None
        if uri.startswith("sqlite:"):
            path = uri.removeprefix("sqlite:///")
            if path in (uri, "", ":memory:"):
                raise UsageError(f"store {uri!r} names no database file", hint="write sqlite:///PATH/mlflow.db")
            self.database = Path(path).absolute()
            self.uri = f"sqlite:///{self.database}"
            self.artifacts = artifacts or str(self.database.parent / "artifacts")
        self._client: MlflowClient | None = None
        self._experiments: dict[str, str] = {}
        self._guard = threading.Lock()

    def __str__(self) -> str:
        return without_secrets(self.uri)

    @property
    def client(self) -> MlflowClient:
        """MLflow's client; to be used within `calling()`."""
        with self._guard:
            if self._client is None:
                make = _import_client()
                if self.database is not None:
                    self.database.parent.mkdir(parents=True, exist_ok=True)
                elif not self.uri.startswith("http"):
                    _try_database(self.uri)
                self._client = make(tracking_uri=self.uri, registry_uri=self.uri)
            return self._client

    def writing(self) -> AbstractContextManager[None]:
        """Lets one writer of a SQLite file pass at a time; databases and servers order their writers themselves."""
        return nullcontext() if self.database is None else locked(self.database.with_name(f"{self.database.name}.lock"))

    @contextmanager
    def calling(self) -> Iterator[MlflowClient]:
        """The client; failures leave as StoreError, and as Unreachable where nothing answered."""
        client = self._open()
        from mlflow.exceptions import MlflowException
        from requests import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield client
        except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
            raise self._failure(error) from error

    def _open(self) -> MlflowClient:
        try:
            return self.client
        except MissingExtra:
            raise
        except ModuleNotFoundError as error:
            raise missing_extra(error) or StoreError(
                f"{self}: its driver {error.name} is not installed", hint=f"pip install {error.name}", store=str(self)
            ) from error
        except Exception as error:  # whatever a driver, a migration or a URI raises, the store cannot be opened
            raise self._failure(error) from error

    def experiment(self, name: str) -> str:
        """The id of the experiment `name`, made where it is missing. Within `calling()`."""
        if name not in self._experiments:
            known = self.client.get_experiment_by_name(name)
            if known is None:
                with ignoring("RESOURCE_ALREADY_EXISTS"):
                    location = f"{self.artifacts.rstrip('/')}/{name}" if self.artifacts else None
                    self.client.create_experiment(name, artifact_location=location)
                known = self.client.get_experiment_by_name(name)
            if known is None:
                raise StoreError(f"{self}: the experiment {name!r} was made, and cannot be found")
            if known.lifecycle_stage != "active":
                raise StoreError(
                    f"{self}: the experiment {name!r} was deleted",
                    hint=f"restore it: mlflow experiments restore --experiment-id {known.experiment_id}",
                )
            self._experiments[name] = known.experiment_id
        return self._experiments[name]

    def _failure(self, error: Exception) -> StoreError:
        from requests import RequestException
        from sqlalchemy.exc import DBAPIError

        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(cause)
        silent = any(isinstance(one, RequestException) for one in chain)
        if silent or (self.database is None and isinstance(error, DBAPIError)):
            return Unreachable(
                f"{self}: MLflow could not be reached ({self._line(chain[-1])})",
                hint="check the address (--store, GRADASSAY_STORE) and that the server or database is running",
                store=str(self),
            )
        status = error.get_http_status_code() if hasattr(error, "get_http_status_code") else None
        hint = "look into the server's log" if self.database is None else f"check {self.database} and free space"
        if status in (401, 403):
            hint = (
                "the server refused this client: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or start "
                "the server with --allowed-hosts naming the host of this address"
            )
        return StoreError(f"{self}: MLflow failed ({self._line(error)})", hint=hint, store=str(self))

    def _line(self, error: BaseException) -> str:
        text = f"{type(error).__name__}: {error}".replace(self.uri, str(self))
        return text.strip().splitlines()[0][:400]


@contextmanager
def ignoring(error_code: str) -> Iterator[None]:
    """Passes over MLflow's refusal with this error code, and over nothing else."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != error_code:
            raise


def without_secrets(uri: str) -> str:
    """The URI without user name and password, for messages."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=f"***@{parts.netloc.rpartition('@')[2]}"))


def _try_database(uri: str) -> None:
    """One connection, made and closed: MLflow itself would try for almost two minutes before it gave up."""
    from sqlalchemy import NullPool, create_engine

    create_engine(uri, poolclass=NullPool).connect().close()


def _import_client() -> type[MlflowClient]:
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    import mlflow

    for logger in ("mlflow", "alembic"):
        if logging.getLogger(logger).level < logging.WARNING:
            logging.getLogger(logger).setLevel(logging.WARNING)
    return mlflow.MlflowClient
