"""A token as JSON, for the API and for the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel

from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Token


class KnownToken(BaseModel):
    """What is known of a token; times in UTC."""

    id: str
    name: str
    project: str
    scopes: list[Scope]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None

    @classmethod
    def of(cls, token: Token) -> Self:
        """The JSON form of a token."""
        return cls.model_validate(token, from_attributes=True)


class CreatedToken(KnownToken):
    """A token that was made just now. token: its secret, which is told this once."""

    token: str

    @classmethod
    def showing(cls, token: Token, secret: str) -> Self:
        """The JSON form of a new token, with its secret."""
        return cls(**KnownToken.of(token).model_dump(), token=secret)
