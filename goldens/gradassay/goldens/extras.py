"""Which extra of the package brings a module, so that every door names the one installation that helps."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from gradassay.goldens.errors import MissingExtra

EXTRAS: Mapping[str, str] = {
    "torch": "torch",
    "filelock": "torch",
    "psutil": "torch",
    "mlflow": "mlflow",
    "requests": "mlflow",
    "alembic": "server",
    "fastapi": "server",
    "jwt": "server",
    "prometheus_client": "server",
    "psycopg": "server",
    "python_multipart": "server",
    "sqlalchemy": "server",
    "starlette": "server",
    "structlog": "server",
    "uvicorn": "server",
    "deepspeed": "deepspeed",
    "triton": "gpu",
}
"""Modules that the package imports and a bare installation does not bring, and the extra of each."""


def require(*modules: str, otherwise: str = "") -> None:
    """Raises MissingExtra, before any work is done, where one of these modules is not installed; imports none of them.

    otherwise: another way out than to install it.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        extras = dict.fromkeys(EXTRAS[module] for module in missing)
        raise MissingExtra(" and ".join(missing), ",".join(extras), otherwise=otherwise)


def missing_extra(error: ImportError, *, otherwise: str = "") -> MissingExtra | None:
    """What to install for the module that could not be found; None where no extra brings it."""
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRAS:
        return None
    return MissingExtra(module, EXTRAS[module], otherwise=otherwise)
