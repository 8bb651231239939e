"""What Alembic runs for every command: over the transaction that it was given, never one of its own."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from gradassay.api.database.tables import Moment, Table


def _render(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, Moment) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
    render_as_batch=True,
    compare_server_default=True,
    render_item=_render,
)
context.run_migrations()
