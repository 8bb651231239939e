"""From the address of a store to the store."""

from __future__ import annotations

import re
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.goldens.extras import require
from gradassay.goldens.store.protocol import GoldenStore

DEFAULT_FOLDER = Path(".gradassay")
_SCHEME = re.compile(r"[a-z][a-z0-9+.]+:", re.IGNORECASE)
_MLFLOW = ("sqlite:", "http:", "https:", "postgresql+psycopg:", "mysql+pymysql:")
_FOLDER = "--store dir:PATH (GRADASSAY_STORE)"
_ADDRESSES = (
    "write dir:PATH or a folder, sqlite:///PATH/mlflow.db, http(s)://HOST of an MLflow server, "
    "or postgresql+psycopg://HOST/DATABASE"
)


def open_store(uri: str | None = None) -> GoldenStore:
    """The store at this address; nothing is contacted or made before its first use.

    None or "": the setting GRADASSAY_STORE, else MLflow on SQLite in `.gradassay` of the working directory. A folder
    that holds an `mlflow.db` is opened as that database. Raises UsageError for an address of no known kind, MissingExtra
    where the store needs a package that is not installed.
    """
    if not uri:
        from gradassay.goldens.settings import Settings

        uri = Settings.load().store or default_store()
    if uri.startswith("dir:"):
        return _directory_store(uri.removeprefix("dir:"))
    scheme = _SCHEME.match(uri)
    if scheme is None:
        database = Path(uri) / "mlflow.db"
        return _mlflow_store(f"sqlite:///{database.absolute()}") if database.is_file() else _directory_store(uri)
    if scheme[0].lower() in _MLFLOW:
        return _mlflow_store(uri)
    hint = "MLflow refuses file stores; " + _ADDRESSES if scheme[0].lower() == "file:" else _ADDRESSES
    raise UsageError(f"store {uri!r}: addresses that begin with {scheme[0]!r} are not known", hint=hint, store=uri)


def default_store() -> str:
    """The address of the store where no setting names one: MLflow on SQLite in `.gradassay` of the working directory."""
    return f"sqlite:///{DEFAULT_FOLDER.absolute()}/mlflow.db"


def folder_of_store(uri: str) -> Path | None:
    """The folder that the store of this address keeps its files in; None where that is on no disk of this machine."""
    uri = uri or default_store()
    if uri.startswith("sqlite:///"):
        return Path(uri.removeprefix("sqlite:///")).expanduser().absolute().parent
    if uri.startswith("dir:") or _SCHEME.match(uri) is None:
        return Path(uri.removeprefix("dir:")).expanduser().absolute()
    return None


def _directory_store(path: str) -> GoldenStore:
    from gradassay.goldens.store.directory import DirectoryStore

    if not path:
        raise UsageError("store 'dir:' names no folder", hint=_ADDRESSES)
    folder = Path(path).expanduser()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"store {path!r} is a file, not a folder", hint=_ADDRESSES, store=path)
    return DirectoryStore(folder)


def _mlflow_store(uri: str) -> GoldenStore:
    from gradassay.goldens.settings import Settings
    from gradassay.goldens.store.mlflow import MlflowStore

    folder = uri.startswith("sqlite:")
    driver = ("psycopg",) if uri.lower().startswith("postgresql") else ()
    require("mlflow", *driver, otherwise=f"or keep goldens in a folder, without MLflow: {_FOLDER}" if folder else "")
    settings = Settings.load()
    if not uri.startswith(("sqlite:", "http")) and not settings.artifacts:
        raise UsageError(
            "a store reached by its database needs to know where artifacts are",
            hint="set GRADASSAY_ARTIFACTS to s3://BUCKET/PATH or a folder, or use the address of an MLflow server",
        )
    artifacts = "" if uri.startswith("http") else settings.artifacts
    return MlflowStore(uri, artifacts=artifacts, cache=settings.cache)
