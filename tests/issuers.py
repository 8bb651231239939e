"""A real issuer of identities on loopback, as CI systems run one: keys it publishes, identities it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gradassay.api.auth.issuer import OidcIssuer

AUDIENCE = "gradassay"


class Issuer:
    """Signs with the keys `rsa` and `ec`. published: the key set that it serves; None: nothing but 404."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, PrivateKeyTypes] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
        }
        self.published: Any = {"keys": [public_key(name, key) for name, key in self.keys.items()]}
        self.asked = 0

    @property
    def settings(self) -> OidcIssuer:
        """How the service's settings describe it."""
        return OidcIssuer(
            issuer=self.url,
            audience=AUDIENCE,
            jwks_uri=f"{self.url}/keys",
            claim="repository",
            projects={"team/training": "training", "team/research": "research"},
        )

    def claims(self, **changed: Any) -> dict[str, Any]:
        """What a job's identity says; None takes a claim away."""
        at = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "repo:team/training:ref:refs/heads/main",
            "repository": "team/training",
            "iat": at,
            "nbf": at,
            "exp": at + 300,
        }
        return {name: value for name, value in (claims | changed).items() if value is not None}

    def identity(self, *, key: str = "rsa", kid: str = "", **changed: Any) -> str:
        """A job's identity, signed."""
        algorithm = "RS256" if key == "rsa" else "ES256"
        return jwt.encode(self.claims(**changed), self.keys[key], algorithm=algorithm, headers={"kid": kid or key})


def public_key(name: str, key: PrivateKeyTypes) -> dict[str, Any]:
    """The public half of a key, as an issuer publishes it."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig"}
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig"}


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            found = self.path == "/keys" and issuer.published is not None
            body = (issuer.published if isinstance(issuer.published, str) else json.dumps(issuer.published)).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: tests print enough."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
