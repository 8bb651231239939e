"""Who vouches for CI jobs: one issuer of OpenID Connect tokens, as the settings describe it."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gradassay.api.auth.project import NAME

LOOPBACK = ("127.0.0.1", "::1", "localhost")

Text = Annotated[str, Field(min_length=1, max_length=512)]


class OidcIssuer(BaseModel):
    """An issuer, and which project the jobs that it vouches for post to.

    claim: the claim that says whose job it is, as in `repository`; projects: its values, each with its project.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, Field(min_length=1, max_length=120)]
    audience: Text
    jwks_uri: Text
    claim: Text
    projects: dict[Text, Annotated[str, Field(pattern=NAME)]]

    @model_validator(mode="after")
    def _keys_come_safely(self) -> Self:
        url = urlsplit(self.jwks_uri)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
            raise ValueError(f"jwks_uri {self.jwks_uri!r} must be https; http is for this machine only")
        return self
