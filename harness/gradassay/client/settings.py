"""Settings of whoever calls the service; never options, so that a token is in no list of processes."""

from __future__ import annotations

from pydantic import Field, SecretStr

from gradassay.goldens.settings import Settings


class ClientSettings(Settings):
    """What a call of the service reads, beside GRADASSAY_URL; each is GRADASSAY_ and its name in capitals."""

    token: SecretStr = Field(default=SecretStr(""), description="token that the service knows; never printed")
    retry_s: float = Field(
        default=60.0, ge=0, description="how long a service that does not answer is tried again, in seconds"
    )
