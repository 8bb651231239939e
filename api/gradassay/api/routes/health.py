"""Whether the service runs, and which release it is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from gradassay.goldens.container import FORMAT

router = APIRouter(tags=["service"])


class Health(BaseModel):
    """The process answers; says nothing about the store."""

    status: Literal["ok"] = "ok"


class Version(BaseModel):
    """The release, and the newest file format that it reads."""

    version: str
    format: int


@router.get("/healthz")
def healthz() -> Health:
    """The service answers requests."""
    return Health()


@router.get("/version")
def show_version() -> Version:
    """The service's release."""
    return Version(version=version("gradassay"), format=FORMAT)
