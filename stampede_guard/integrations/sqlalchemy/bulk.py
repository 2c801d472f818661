"""Statements that change rows which the session does not know: `update(Task)`, `bulk_save_objects`, Core.

They are seen where they are sent, so none goes past: `session.execute`, the legacy `Query`, the legacy bulk methods,
statements on `session.connection()`, and a change within a `WITH`. A text of SQL has no tables that could be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import FromClause
from sqlalchemy.sql.expression import UpdateBase
from sqlalchemy.sql.util import find_tables

from stampede_guard.engine.tags.templates import checked_tags
from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy.delivery import Change
from stampede_guard.integrations.sqlalchemy.mapping import TagMapping
from stampede_guard.integrations.sqlalchemy.pending import PendingChanges
from stampede_guard.integrations.sqlalchemy.tags import ModelTags

__all__ = ["OPTION", "changes_of_statement"]

OPTION = "stampede_guard_tags"
"""`session.execute(update(Task)..., execution_options={"stampede_guard_tags": ("project:7",)})`."""


def changes_of_statement(pending: PendingChanges, context: Any) -> list[Change]:
    """What the statement invalidates. Raises `Misuse` if the tags of its rows are unknown."""
    compiled = getattr(context, "compiled", None)
    if compiled is None or not (
        context.isinsert or context.isupdate or context.isdelete or getattr(compiled, "ctes", None)
    ):
        return []
    # A flush sends its own statements in this way. Code of the user that it calls does not.
    of_a_flush = pending.is_flushing and "compiled_cache" in context.execution_options
    found: list[Change] = []
    for statement in _changing(compiled):
        for table in _tables(statement):
            for mapping in pending.mappings:
                if of_a_flush or (pending.is_flushing and mapping.links(table)):
                    continue
                found += _changes(mapping, statement, table, context.execution_options)
    return found


def _changing(compiled: Any) -> Iterator[UpdateBase]:
    elements = [compiled.statement, *(cte.element for cte in getattr(compiled, "ctes", None) or ())]
    return (element for element in elements if isinstance(element, UpdateBase))


def _tables(statement: Any) -> list[FromClause]:
    """Usually one. The target of an UPDATE may be an alias, or a join in MySQL."""
    return list(find_tables(statement.table, include_joins=False, include_aliases=False))


def _changes(mapping: TagMapping, statement: Any, table: FromClause, options: Any) -> Iterator[Change]:
    own = mapping.within(table)
    given = options.get(OPTION)
    if own and given is not None:
        yield from (Change(mapping.guard, tag) for tag in checked_tags(given))
        return
    for tags in own:
        if tags.has_unknown:
            raise Misuse(_unknown(tags, statement, table))
        yield from (Change(mapping.guard, tag) for tag in tags.coarse)
    if statement.is_delete:
        for tags in mapping.after_deletion_in(table):
            yield from (Change(mapping.guard, tag) for tag in tags.coarse)


def _unknown(tags: ModelTags, statement: Any, table: Any) -> str:
    name = tags.model.__name__
    verb = "INSERT into" if statement.is_insert else "UPDATE of" if statement.is_update else "DELETE from"
    return (
        f"{verb} {table.name} changes rows of {name} that the session does not know, so the tag {tags.first!r} cannot "
        f"be filled in. Nothing was sent. Write {name}: Tags({tags.first!r}, bulk='{table.name}'), and give the tag "
        f"'{table.name}' to the cached functions, too. Or name the tags of this statement: "
        f"execution_options={{'{OPTION}': ('...',)}}"
    )
