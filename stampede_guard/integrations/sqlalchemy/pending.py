"""What a session invalidates when it commits: one layer per transaction and savepoint.

A savepoint that is released hands its layer to the transaction around it. One that is rolled back forgets it.

The end of a transaction delivers the layer, not the commit: then its connection is back in the pool, and does not wait
for Redis. If a COMMIT was sent and its answer was lost, nobody knows whether it happened. Then the layer is delivered,
because an entry that is computed once more does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakKeyDictionary, ref

from sqlalchemy import Connection

from stampede_guard.integrations.sqlalchemy.delivery import Change, deliver

if TYPE_CHECKING:
    from sqlalchemy.orm import Mapper, Session, SessionTransaction, UOWTransaction

    from stampede_guard.integrations.sqlalchemy.mapping import TagMapping
    from stampede_guard.integrations.sqlalchemy.outbox import Outbox

__all__ = ["PendingChanges", "Touched", "pending_on"]

Layer = dict[Any, Change]
Touched = tuple[Any, "Mapper[Any]", Connection, bool, bool]
"""A row that a flush writes: the object, its mapper, the connection, whether it is new, and whether it is changed."""


class PendingChanges:
    """Of one session. Like the session, it belongs to one thread or task at a time."""

    def __init__(self, session: Session) -> None:
        self.own: list[TagMapping] = []
        """Of this session alone, and not of all of its class."""
        self.mappings: list[TagMapping] = []
        self._session = ref(session)
        self.touched: list[Touched] = []
        self._flush: UOWTransaction | None = None
        self._layers: dict[SessionTransaction, Layer] = {}
        self._before: Layer = {}
        """What was added before the transaction began."""
        self._connections: list[Connection] = []
        self._commits = 0
        self._committed = False
        self._written: list[tuple[Outbox, UUID]] = []

    def add(self, changes: Iterable[Change]) -> None:
        session = self._session()
        transaction = None
        if session is not None:
            transaction = session.get_nested_transaction() or session.get_transaction()
        layer = self._before if transaction is None else self._layers.setdefault(transaction, {})
        for change in changes:
            layer[change.identity] = change

    def begun(self, transaction: SessionTransaction) -> None:
        self._layers[transaction] = {**self._before, **self._layers.get(transaction, {})}
        self._before = {}

    def uses(self, connection: Connection) -> None:
        if connection not in self._connections:
            self._connections.append(connection)
            _OF_CONNECTION[connection] = ref(self)
            self._committed |= _commits_each_statement(connection)

    def commit_is_sent(self) -> None:
        self._commits += 1

    def write_outboxes(self, connection: Connection) -> None:
        """The tags of this transaction, beside its data. Its savepoints have ended by now."""
        session = self._session()
        transaction = session.get_transaction() if session is not None else None
        layer = self._layers.get(transaction) if transaction is not None else None
        if not layer:
            return
        outboxes = {id(mapping.guard): mapping for mapping in self.mappings if mapping.outbox is not None}
        for identity, mapping in outboxes.items():
            tags = [
                change.text for change in layer.values() if change.is_tag and id(change.guard) == identity
            ]
            if tags and mapping.outbox is not None:
                self._written.append((mapping.outbox, mapping.outbox.write(connection, mapping.guard, tags)))

    def committed(self, session: Session) -> None:
        """Also called for a savepoint, whose layer is not delivered."""
        if session.get_nested_transaction() is None:
            self._committed = True

    def rolled_back(self, session: Session) -> None:
        self.flushed()
        nested = session.get_nested_transaction()
        if nested is not None:
            self._layers.pop(nested, None)
            return
        transaction = session.get_transaction()
        if transaction is not None and not self._may_be_durable():
            self._commits = 0
            self._layers.pop(transaction, None)

    def _may_be_durable(self) -> bool:
        """The first of two databases has committed, or the answer of the only one was lost, or each statement did."""
        lost = any(connection.closed or connection.invalidated for connection in self._connections)
        return self._committed or self._commits > 1 or (self._commits == 1 and lost)

    def flushes(self, context: UOWTransaction) -> None:
        self.touched.clear()
        self._flush = context

    @property
    def is_flushing(self) -> bool:
        """Whether a flush sends statements. One without work has begun, and tells nothing of its end."""
        return self._flush is not None and self._flush.has_work

    def flushed(self) -> None:
        self.touched.clear()
        self._flush = None

    def ended(self, transaction: SessionTransaction) -> None:
        layer = self._layers.pop(transaction, None)
        if transaction.nested:
            around = transaction.parent
            while around is not None and around.parent is not None and not around.nested:
                around = around.parent
            if layer and around is not None:
                self._layers.setdefault(around, {}).update(layer)
        elif transaction.parent is None:
            is_durable = self._committed or self._commits > 0
            # If its answer is lost, a COMMIT may happen later than the invalidation. Then a relay invalidates again.
            written = list(self._written) if self._committed else []
            for connection in self._connections:
                _OF_CONNECTION.pop(connection, None)
            self._connections.clear()
            self._written.clear()
            self._commits, self._committed = 0, False
            self.flushed()
            if layer and is_durable:
                deliver(list(layer.values()), lambda: _settle(written))


_OF_CONNECTION: WeakKeyDictionary[Connection, ref[PendingChanges]] = WeakKeyDictionary()
"""What belongs to the session that uses a connection now. Weak, because it knows the connection."""


def pending_on(connection: Connection) -> PendingChanges | None:
    found = _OF_CONNECTION.get(connection)
    return None if found is None else found()


def _settle(written: Iterable[tuple[Outbox, UUID]]) -> None:
    for outbox, row in written:
        outbox.settle([row])


def _commits_each_statement(connection: Connection) -> bool:
    level = connection.get_execution_options().get("isolation_level")
    # `create_engine(isolation_level="AUTOCOMMIT")`
    return "AUTOCOMMIT" in (level, getattr(connection.dialect, "_on_connect_isolation_level", None))
