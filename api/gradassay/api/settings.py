"""Settings of the service, beside those that every room reads."""

from __future__ import annotations

from pydantic import Field

from gradassay.goldens.settings import Settings


class ServiceSettings(Settings):
    """What the service reads; each is the environment variable GRADASSAY_ and its name in capitals."""

    host: str = Field(
        default="127.0.0.1",
        description="address that the service listens on; it knows no authentication, so leave it on this machine",
    )
    port: int = Field(default=8321, ge=0, le=65535, description="port that the service listens on")
    max_upload_bytes: int = Field(
        default=2**30, ge=1, description="largest record that is accepted; a larger one is refused with 413"
    )
