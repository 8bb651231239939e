"""CI jobs' own identities, exchanged for tokens that post and soon expire."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import jwt
from jwt import PyJWK, PyJWKClient, PyJWTError
from jwt.exceptions import PyJWKClientConnectionError, PyJWKSetError

from gradassay.api.auth.issuer import OidcIssuer
from gradassay.api.auth.scope import Scope
from gradassay.api.auth.tokens import NAME_LENGTH, Token, Tokens
from gradassay.goldens.errors import Forbidden, Unauthorised, Unreachable

ALGORITHMS = ("RS256", "ES256")
REQUIRED = ("iss", "aud", "exp", "iat", "sub")
LIFETIME = timedelta(minutes=15)
LEEWAY = timedelta(seconds=30)
TIMEOUT_S = 10


class Exchange:
    """The issuers that the settings trust, with their keys; those are fetched when first needed and kept for minutes."""

    def __init__(self, issuers: Iterable[OidcIssuer], tokens: Tokens) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._keys = {name: PyJWKClient(issuer.jwks_uri, timeout=TIMEOUT_S) for name, issuer in self._issuers.items()}
        self._tokens = tokens

    def token(self, identity: str) -> tuple[Token, str]:
        """A token of fifteen minutes with the scope `post`, for the job that this signed identity (a JWT) names.

        Raises Unauthorised where the identity does not hold, Forbidden where no project belongs to the job, and
        Unreachable where the issuer's keys cannot be had.
        """
        issuer = self._issuer(identity)
        claims = self._verified(identity, issuer)
        value = claims.get(issuer.claim)
        project = issuer.projects.get(value) if isinstance(value, str) else None
        if project is None:
            raise Forbidden(
                f"no project belongs to jobs whose {issuer.claim} is {value!r}",
                hint="add it to `projects` of this issuer in GRADASSAY_OIDC_ISSUERS",
            )
        self._tokens.forget_expired(by=issuer.issuer)
        return self._tokens.create(
            name=_name(claims["sub"]), scopes=[Scope.POST], by=issuer.issuer, project=project, lifetime=LIFETIME
        )

    def _issuer(self, identity: str) -> OidcIssuer:
        try:
            claimed = jwt.decode(identity, options={"verify_signature": False}).get("iss")
        except (PyJWTError, ValueError, RecursionError) as error:
            raise _refused(error) from error
        issuer = self._issuers.get(claimed) if isinstance(claimed, str) else None
        if issuer is None:
            raise Unauthorised(
                f"the identity's issuer {claimed!r} is not trusted here",
                hint="GRADASSAY_OIDC_ISSUERS lists those that are",
            )
        return issuer

    def _verified(self, identity: str, issuer: OidcIssuer) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                identity,
                self._key(identity, issuer),
                algorithms=ALGORITHMS,
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=LEEWAY,
                options={"require": list(REQUIRED)},
            )
        except PyJWTError as error:
            raise _refused(error) from error
        return claims

    def _key(self, identity: str, issuer: OidcIssuer) -> PyJWK:
        """The published key that the identity names; PyJWTError where none is."""
        client, named = self._keys[issuer.issuer], jwt.get_unverified_header(identity).get("kid")
        try:
            client.get_signing_keys()
        except (PyJWTError, ValueError) as error:
            raise _without_keys(issuer) from error
        try:
            return client.get_signing_key(named or "")
        except (PyJWKClientConnectionError, PyJWKSetError, ValueError) as error:
            raise _without_keys(issuer) from error


def _refused(error: Exception) -> Unauthorised:
    return Unauthorised(
        f"the identity does not hold: {error}",
        hint="request a fresh one for the audience that GRADASSAY_OIDC_ISSUERS names",
    )


def _without_keys(issuer: OidcIssuer) -> Unreachable:
    return Unreachable(
        f"{issuer.jwks_uri} gave no keys to check an identity with", hint="try again; is the address right?"
    )


def _name(subject: str) -> str:
    """The job's own name, and where that is too long or unprintable its beginning and a digest of the whole."""
    if subject.strip() and subject.isprintable() and len(subject) <= NAME_LENGTH:
        return subject
    digest = hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return "".join(sign for sign in subject[:100] if sign.isprintable()) + f"…{digest}"
