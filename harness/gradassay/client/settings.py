"""Settings of whoever calls the service; never options, so that a token is in no list of processes."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_state_path
from pydantic import Field, SecretStr

from gradassay.goldens.settings import Settings


class ClientSettings(Settings):
    """What a call of the service reads, beside GRADASSAY_URL; each is GRADASSAY_ and its name in capitals."""

    token: SecretStr = Field(default=SecretStr(""), description="token that the service knows; never printed")
    id_token: SecretStr = Field(
        default=SecretStr(""),
        description="identity that a CI system signed for the job, exchanged where no token is set",
    )
    audience: str = Field(default="gradassay", description="audience of the identity that GitHub is asked for")
    retry_s: float = Field(
        default=60.0, ge=0, description="how long a service that does not answer is tried again, in seconds"
    )
    spool: Path = Field(
        default_factory=lambda: user_state_path("gradassay") / "spool",
        description="folder for what could not be sent because the service did not answer; the next post sends it",
    )
