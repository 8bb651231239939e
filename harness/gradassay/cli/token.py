"""`gradassay token`: tokens and login links of the service, made on its own machine in its own database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradassay.cli.machine import Folder, person, places
from gradassay.cli.session import session_of

if TYPE_CHECKING:
    from gradassay.api.auth.tokens import Token
    from gradassay.api.database.database import Database
    from gradassay.api.settings import ServiceSettings

app = typer.Typer(
    help="Make, list and revoke tokens of the service. Works on its database, so on its own machine.",
    no_args_is_help=True,
)


class ScopeName(StrEnum):
    """What a token may do beside reading."""

    POST = "post"
    REVIEW = "review"
    ADMIN = "admin"


Project = Annotated[str, typer.Option("--project", help='The project that it sees; "*" for all.')]


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for, as the ledger will name it.")],
    scopes: Annotated[
        list[ScopeName] | None, typer.Option("--scope", help="What it may do beside reading; may be repeated.")
    ] = None,
    project: Project = "default",
    days: Annotated[float | None, typer.Option("--days", min=0.001, max=3660, help="Days until it expires.")] = None,
    folder: Folder = None,
) -> None:
    """Make a token and print it, this once."""
    session = session_of(context)
    with _database(context, folder) as (database, _settings):
        from gradassay.api.auth.scope import Scope
        from gradassay.api.auth.tokens import Tokens

        token, secret = Tokens(database).create(
            name=name,
            scopes=[Scope(scope) for scope in scopes or []],
            by=person(),
            project=project,
            lifetime=None if days is None else timedelta(days=days),
        )
    if session.json:
        from gradassay.api.auth.known import CreatedToken

        session.emit_json(CreatedToken.showing(token, secret).model_dump(mode="json"))
        return
    session.emit(f"{secret}\n")
    may = ", ".join(["read", *token.scopes])
    until = f"until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else "until it is revoked"
    session.say(f"token {token.id} ({token.name}): may {may} in project {token.project} {until}; it is not shown again")


@app.command("list")
def list_tokens(context: typer.Context, project: Project = "*", folder: Folder = None) -> None:
    """List tokens, newest first; what they are, never their secrets."""
    session = session_of(context)
    with _database(context, folder) as (database, _settings):
        from gradassay.api.auth.tokens import Tokens

        tokens = Tokens(database).of_project(project)
    if session.json:
        session.emit_json([_document(token) for token in tokens])
        return
    session.say(f"{len(tokens)} tokens")
    if tokens:
        from gradassay.cli.tables import table

        titles = ("id", "name", "project", "scopes", "state", "last used")
        session.show(table(titles, (_row(token) for token in tokens)))


@app.command("revoke")
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as the list shows it.")],
    folder: Folder = None,
) -> None:
    """Make a token worthless, and the browser sessions that it opened."""
    session = session_of(context)
    with _database(context, folder) as (database, _settings):
        from gradassay.api.auth.tokens import Tokens

        revoked = Tokens(database).revoke(token)
    if session.json:
        session.emit_json(_document(revoked))
    session.say(f"token {revoked.id} ({revoked.name}) is revoked")


@app.command("link")
def link(context: typer.Context, folder: Folder = None) -> None:
    """Print a link that logs a browser in with every scope, once, within ten minutes; --url: where people reach the service."""
    session = session_of(context)
    with _database(context, folder) as (database, settings):
        from gradassay.api.auth.logins import Logins

        path = Logins(database).link(who=person(), project=settings.project)
        url = (session.url or f"http://{settings.host}:{settings.port}").rstrip("/") + path
    if session.json:
        session.emit_json({"url": url})
    else:
        session.emit(f"{url}\n")


@contextmanager
def _database(context: typer.Context, folder: Path | None) -> Iterator[tuple[Database, ServiceSettings]]:
    """The service's database at the newest revision, and its settings."""
    from gradassay.api.database.database import Database
    from gradassay.api.database.migrate import upgrade
    from gradassay.api.settings import ServiceSettings

    settings = ServiceSettings.load(**places(context, folder))
    database = Database(settings.database_url)
    try:
        upgrade(database)
        yield database, settings
    finally:
        database.close()


def _document(token: Token) -> dict[str, Any]:
    """As the service's API gives it."""
    from gradassay.api.auth.known import KnownToken

    return KnownToken.of(token).model_dump(mode="json")


def _row(token: Token) -> tuple[str, ...]:
    from datetime import UTC, datetime

    if token.revoked_at:
        state = f"revoked {token.revoked_at:%Y-%m-%d}"
    elif token.expires_at is None:
        state = "valid"
    else:
        expired = token.expires_at <= datetime.now(UTC)
        state = f"{'expired' if expired else 'valid until'} {token.expires_at:%Y-%m-%d %H:%M}"
    used = f"{token.used_at:%Y-%m-%d %H:%M}" if token.used_at else "never"
    return (token.id, token.name, token.project, ", ".join(token.scopes) or "read", state, used)
