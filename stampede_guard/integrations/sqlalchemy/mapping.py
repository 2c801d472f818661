"""The mapped classes of one call of `invalidate_on_commit`, and the tables whose rows they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import FromClause, Table, event
from sqlalchemy.exc import NoReferenceError
from sqlalchemy.orm import Mapper, RelationshipDirection, RelationshipProperty

from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy.tags import ModelTags, Tags

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.integrations.sqlalchemy.outbox import Outbox

__all__ = ["TagMapping", "many_to_many"]

_BY_DATABASE = {"CASCADE", "SET NULL", "SET DEFAULT"}


class TagMapping:
    """Which tags of which guard a row has. Raises `Misuse`."""

    def __init__(
        self,
        guard: StampedeGuard,
        models: Mapping[type[Any], Tags | Iterable[str]],
        outbox: Outbox | None = None,
    ) -> None:
        self.guard, self.outbox = guard, outbox
        self._tags = [
            ModelTags(model, given if isinstance(given, Tags) else Tags(*_templates(model, given)))
            for model, given in models.items()
        ]
        if not self._tags:
            raise Misuse("no models: write invalidate_on_commit(sessions, guard, {Task: ('task:{id}',)})")
        self._of_class: dict[type[Any], tuple[ModelTags, ...]] = {}
        self._tables: dict[FromClause, list[ModelTags]] = {}
        self._cascades: dict[FromClause, list[ModelTags]] = {}
        self._links: set[FromClause] = set()
        self._looked_at = -1

    def of(self, model: type[Any]) -> tuple[ModelTags, ...]:
        """The tags of a mapped class, its own and those of the classes that it inherits from."""
        found = self._of_class.get(model)
        if found is None:
            found = tuple(tags for tags in self._tags if issubclass(model, tags.model))
            self._of_class[model] = found
        return found

    def within(self, table: FromClause) -> list[ModelTags]:
        """The tags that rows of this table have."""
        self._look()
        return self._tables.get(table, [])

    def links(self, table: FromClause) -> bool:
        """Whether it is the secondary table of a relationship."""
        self._look()
        return table in self._links

    def after_deletion_in(self, table: FromClause) -> list[ModelTags]:
        """The tags of rows that the database itself changes (`ON DELETE CASCADE`) when rows of this table go."""
        self._look()
        return self._cascades.get(table, [])

    def _look(self) -> None:
        """At the first use, because classes may be mapped later than `invalidate_on_commit` is called."""
        generation = _configured[0]
        if self._looked_at == generation:
            return
        self._tables, self._cascades, self._links = {}, {}, set()
        for tags in self._tags:
            tables: dict[FromClause, None] = {}
            for mapper in tags.mapper.self_and_descendants:
                tables.update(dict.fromkeys(mapper.tables))
            for parent in {parent for table in tables for parent in _parents(table)}:
                self._cascades.setdefault(parent, []).append(tags)
            links = _secondaries(tags.mapper)
            self._links |= links - tables.keys()
            for table in (*tables, *links):
                self._tables.setdefault(table, []).append(tags)
        self._looked_at = generation


_configured = [0]
"""How often SQLAlchemy has configured new classes."""


@event.listens_for(Mapper, "after_configured")
def _count() -> None:
    _configured[0] += 1


def _secondaries(mapper: Mapper[Any]) -> set[FromClause]:
    """The secondary tables of its relationships, on either side."""
    return {
        relation.secondary
        for other in mapper.registry.mappers
        for relation in many_to_many(other)
        if relation.secondary is not None
        and any(side.isa(mapper) or mapper.isa(side) for side in (other, relation.mapper))
    }


def many_to_many(mapper: Mapper[Any]) -> Iterator[RelationshipProperty[Any]]:
    """Its relationships through a secondary table, which no class is mapped to."""
    for relation in mapper.relationships:
        if relation.direction is RelationshipDirection.MANYTOMANY and not relation.viewonly:
            yield relation


def _parents(table: FromClause) -> set[FromClause]:
    """The tables a deletion in which changes rows of this one."""
    found: set[FromClause] = set()
    waiting = [table]
    while waiting:
        child = waiting.pop()
        if not isinstance(child, Table):
            continue
        for key in child.foreign_keys:
            if (key.ondelete or "").upper() not in _BY_DATABASE:
                continue
            try:
                parent = key.column.table
            except NoReferenceError:
                continue
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


def _templates(model: Any, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        name = getattr(model, "__name__", "Task")
        raise Misuse(f"the tags of {name} are {given!r}: write {{{name}: ('task:{{id}}',)}}, or Tags(...)")
    return tuple(given)
