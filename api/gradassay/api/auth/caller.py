"""Who calls."""

from __future__ import annotations

from dataclasses import dataclass

from gradassay.api.auth.project import EVERY_PROJECT as EVERY_PROJECT
from gradassay.api.auth.scope import Scope
from gradassay.goldens.errors import Forbidden, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The holder of a token, or the person at a browser.

    who: the token's name, or the person's. project: what is seen, "*" for all. csrf: of a browser session, None for a
    bearer token. operator: came by a login link of the service's own machine, and so may create tokens.
    """

    who: str
    project: str
    scopes: frozenset[Scope]
    csrf: str | None = None
    operator: bool = False

    @property
    def administered(self) -> str:
        """The project whose tokens the caller may see and revoke; the operator is above projects."""
        return EVERY_PROJECT if self.operator else self.project

    def sees(self, project: str) -> bool:
        """Whether what belongs to this project may be read."""
        return self.project in (EVERY_PROJECT, project)

    def require(self, scope: Scope) -> None:
        """Raises Forbidden where the scope is not among the caller's."""
        if scope not in self.scopes:
            held = ", ".join(sorted(self.scopes)) or "none"
            raise Forbidden(
                f"this needs the scope {scope}; {self.who} has: {held}",
                hint=f"use a token with the scope {scope}; scopes of a token never change",
                scope=str(scope),
            )

    def require_operator(self) -> None:
        """Raises Forbidden for whoever came by a token, itself or in a session: no token creates tokens."""
        if not self.operator:
            raise Forbidden(
                f"a token cannot create tokens; {self.who} came by one",
                hint="use the session of a login link, or gradassay token create on the service's machine",
            )

    def within(self, project: str, what: str) -> None:
        """Raises NotFound where the caller does not see the project: what another project has is not told."""
        if not self.sees(project):
            raise NotFound(f"{what} is not known", hint="is it of another project? a token sees its own only")
