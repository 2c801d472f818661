"""The columns of a row that its tags name: before a flush, and as the database has them.

A loaded object may be older than its row. 1. Session A loads a task of project 1. 2. Session B moves it to project 2
and commits. 3. Session A renames the task. Project 2 has changed, and session A does not know it. So the values are
read from the database, under the lock of the row, where a row can move from one tag to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ClauseElement, ColumnElement, Connection, Select, and_, or_, select
from sqlalchemy.orm import InstanceState, Mapper

__all__ = ["Row", "known_now", "known_old", "read", "read_locked"]

Row = dict[str, Any]
_AT_ONCE = 200


def known_old(state: InstanceState[Any], names: Iterable[str]) -> Row | None:
    """The values before the changes of the session. None: one of them was not loaded, or is changed now."""
    row = {}
    for name in names:
        if name in state.committed_state or name not in state.dict:
            return None
        row[name] = state.dict[name]
    return row


def known_now(state: InstanceState[Any], names: Iterable[str]) -> Row | None:
    """The values after a flush. None: the database has computed one of them."""
    row = {name: state.dict[name] for name in names if name in state.dict}
    complete = all(name in row and not _is_sql(row[name]) for name in names)
    return row if complete else None


def _is_sql(value: Any) -> bool:
    return isinstance(value, ClauseElement) or hasattr(value, "__clause_element__")


def read_locked(
    connection: Connection, mapper: Mapper[Any], identity: Sequence[Any], names: Sequence[str]
) -> list[Row]:
    """The row with this primary key, locked. The statement that follows would lock it, too."""
    return _rows(connection, names, _select(mapper, [identity], names).with_for_update())


def read(
    connection: Connection, mapper: Mapper[Any], identities: Sequence[Sequence[Any]], names: Sequence[str]
) -> list[Row]:
    """The rows with these primary keys, which this transaction has written."""
    found: list[Row] = []
    for start in range(0, len(identities), _AT_ONCE):
        found += _rows(connection, names, _select(mapper, identities[start : start + _AT_ONCE], names))
    return found


def _select(mapper: Mapper[Any], identities: Sequence[Sequence[Any]], names: Sequence[str]) -> Select[Any]:
    keys = mapper.primary_key
    where: ColumnElement[bool]
    if len(keys) == 1:
        where = keys[0].in_([identity[0] for identity in identities])
    else:
        where = or_(
            *(
                and_(*(key == value for key, value in zip(keys, identity, strict=True)))
                for identity in identities
            )
        )
    columns = [mapper.columns[name].label(f"stampede_guard_{place}") for place, name in enumerate(names)]
    return select(*columns).select_from(mapper.persist_selectable).where(where)


def _rows(connection: Connection, names: Sequence[str], statement: Select[Any]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in connection.execute(statement)]
