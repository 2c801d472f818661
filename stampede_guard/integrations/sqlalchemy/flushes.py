"""Which tags a flush changes: those of each row before it, after it, and of rows that are linked to it.

SQLAlchemy calls `before_update` for each row, also for those that it finds during the flush: orphans, and children of
a deleted row. Values that the flush itself sets (foreign keys, defaults) are seen in `after_flush`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.orm import InstanceState, Mapper, Session

from stampede_guard.integrations.sqlalchemy.delivery import Change
from stampede_guard.integrations.sqlalchemy.mapping import TagMapping, many_to_many
from stampede_guard.integrations.sqlalchemy.pending import PendingChanges
from stampede_guard.integrations.sqlalchemy.rows import Row, known_now, known_old, read, read_locked
from stampede_guard.integrations.sqlalchemy.tags import ModelTags

__all__ = ["FlushRecorder"]


class FlushRecorder:
    """What one session's flush writes."""

    def __init__(self, session: Session, pending: PendingChanges) -> None:
        self._session, self._pending = session, pending

    def before_insert(self, mapper: Mapper[Any], connection: Connection, state: InstanceState[Any]) -> None:
        self._pending.touched.append((state.obj(), mapper, connection, True, True))
        # A new object may take the place of a deleted one with the same primary key. Then there is no DELETE.
        replaced = self._session.identity_map.get(mapper.identity_key_from_instance(state.obj()))
        if replaced is not None:
            self._add_old(mapper, connection, inspect(replaced, raiseerr=True))

    def before_update(self, mapper: Mapper[Any], connection: Connection, state: InstanceState[Any]) -> None:
        # An SQL expression counts as a change before the flush only, and a late foreign key after it only.
        is_modified = self._session.is_modified(state.obj())
        self._pending.touched.append((state.obj(), mapper, connection, False, is_modified))
        if is_modified or known_old(state, self._names(mapper)) is None:
            self._add_old(mapper, connection, state)

    def before_delete(self, mapper: Mapper[Any], connection: Connection, state: InstanceState[Any]) -> None:
        self._add_old(mapper, connection, state, always=True)
        self._add_linked(mapper, connection, state, is_deleted=True)
        for mapping in self._pending.mappings:
            for table in mapper.tables:
                for tags in mapping.after_deletion_in(table):
                    self._add(mapping, tags.coarse)

    def after_flush(self) -> None:
        touched = list(self._pending.touched)
        self._pending.flushed()
        changed = [one for one in touched if one[4] or self._session.is_modified(one[0])]
        for instance, mapper, connection, *_ in changed:
            self._add_linked(mapper, connection, inspect(instance), is_deleted=False)
        for (mapper, connection), group in groupby(changed, key=lambda one: one[1:3]):
            self._add_new(mapper, connection, [(one[0], one[3]) for one in group])

    def _add_old(
        self, mapper: Mapper[Any], connection: Connection, state: InstanceState[Any], *, always: bool = False
    ) -> None:
        for mapping, tags in self._of(mapper):
            row = known_old(state, tags.names)
            if row is not None and not (always and tags.beside_key):
                self._add_rows(mapping, tags, [row])
            elif state.identity is not None:
                self._add_rows(mapping, tags, read_locked(connection, mapper, state.identity, tags.names))

    def _add_new(self, mapper: Mapper[Any], connection: Connection, rows: list[tuple[Any, bool]]) -> None:
        for mapping, tags in self._of(mapper):
            unknown = []
            for instance, is_new in rows:
                row = known_now(inspect(instance), tags.names)
                if row is not None and (is_new or not tags.beside_key):
                    self._add_rows(mapping, tags, [row])
                else:
                    unknown.append(mapper.primary_key_from_instance(instance))
            self._add_rows(mapping, tags, read(connection, mapper, unknown, tags.names))

    def _add_linked(
        self, mapper: Mapper[Any], connection: Connection, state: InstanceState[Any], *, is_deleted: bool
    ) -> None:
        """The other ends of the links that come or go, in secondary tables."""
        for relation in many_to_many(mapper):
            related = list(self._of(relation.mapper))
            if not related:
                continue
            if is_deleted and relation.passive_deletes and relation.key not in state.dict:
                for mapping, tags in related:
                    self._add(mapping, tags.coarse)
            history = state.attrs[relation.key].history
            ends = [*history.added, *history.deleted, *(history.unchanged if is_deleted else ())]
            for end in ends:
                if end is not None and (found := inspect(end)).identity is not None:
                    self._add_old(found.mapper, connection, found)

    def _of(self, mapper: Mapper[Any]) -> Iterator[tuple[TagMapping, ModelTags]]:
        for mapping in self._pending.mappings:
            for tags in mapping.of(mapper.class_):
                yield mapping, tags

    def _names(self, mapper: Mapper[Any]) -> list[str]:
        return [name for _, tags in self._of(mapper) for name in tags.names]

    def _add_rows(self, mapping: TagMapping, tags: ModelTags, rows: Iterable[Row]) -> None:
        for row in rows:
            self._add(mapping, tags.texts(row))

    def _add(self, mapping: TagMapping, texts: Iterable[str]) -> None:
        self._pending.add(Change(mapping.guard, text) for text in texts)
