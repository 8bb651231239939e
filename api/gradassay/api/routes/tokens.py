"""Tokens: listed, created, revoked, and given to CI jobs for their own identities."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Response, status
from pydantic import BaseModel, Field

from gradassay.api.auth.guard import Administrator
from gradassay.api.auth.known import CreatedToken, KnownToken
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import Token
from gradassay.api.service import ServiceDependency

LONGEST_S = 10 * 366 * 86400
NO_STORE = {"Cache-Control": "no-store"}

router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"])


class NewToken(BaseModel):
    """The token that is wanted. Without scopes it reads its project; without a lifetime it lasts until it is revoked."""

    name: str = Field(description="what it is for, as the ledger will name it")
    project: str = Field(description='the project that it sees, "*" for all')
    scopes: list[Scope] = Field(default=[], max_length=len(Scope))
    lifetime_s: int | None = Field(default=None, ge=1, le=LONGEST_S, description="seconds until it expires")


class Identity(BaseModel):
    """A CI job's own identity."""

    token: str = Field(max_length=16384, description="the signed identity (JWT) that the job got from its CI system")


@router.get("")
def list_tokens(service: ServiceDependency, caller: Administrator) -> list[KnownToken]:
    """The tokens of the caller's project, newest first; the revoked and expired ones too."""
    return [KnownToken.of(token) for token in service.tokens.of_project(caller.administered)]


@router.post("", status_code=status.HTTP_201_CREATED)
def create_token(
    service: ServiceDependency, caller: Administrator, wanted: NewToken, response: Response
) -> CreatedToken:
    """A new token, whose secret is told this once.

    Only for the session of a login link: no token creates tokens, nor does a session that was opened with one.
    """
    caller.require_operator()
    lifetime = None if wanted.lifetime_s is None else timedelta(seconds=wanted.lifetime_s)
    token, secret = service.tokens.create(
        name=wanted.name, scopes=wanted.scopes, by=caller.who, project=wanted.project, lifetime=lifetime
    )
    return _created(token, secret, response)


@router.delete("/{token}")
def revoke_token(service: ServiceDependency, caller: Administrator, token: str) -> KnownToken:
    """The token, worthless from now on, as are the sessions that it opened."""
    return KnownToken.of(service.tokens.revoke(token, caller.administered))


@router.post("/exchange", status_code=status.HTTP_201_CREATED)
def exchange_identity(service: ServiceDependency, identity: Identity, response: Response) -> CreatedToken:
    """A token of fifteen minutes that posts, for the identity of a CI job; GRADASSAY_OIDC_ISSUERS says whose and where to.

    Needs no token: the identity is signed by its issuer.
    """
    token, secret = service.exchange.token(identity.token)
    return _created(token, secret, response)


def _created(token: Token, secret: str, response: Response) -> CreatedToken:
    response.headers.update(NO_STORE)
    return CreatedToken.showing(token, secret)
