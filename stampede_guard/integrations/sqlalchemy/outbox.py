"""Invalidations in the database: a row beside the data, in the same transaction, so that nothing is lost.

1. Just before COMMIT, the session writes a row with the tags. Data and row are durable together. 2. After the commit,
the session invalidates the tags, as without an outbox. 3. The relay of its process deletes the row. If the process
dies before that, or Redis is away, the relay of any process finds the row `after` some seconds: see
`integrations.outboxes`. It invalidates the tags, and deletes the row when that is done. So each row is delivered at
least once.

To invalidate a tag twice does no harm, but costs computations. That is why relays wait: the process that wrote a row
usually comes first.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    MetaData,
    Table,
    Text,
    TwoPhaseTransaction,
    Uuid,
    delete,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from stampede_guard.errors import Misuse
from stampede_guard.integrations.outboxes import CHANNEL
from stampede_guard.integrations.sqlalchemy.delivery import Change
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from stampede_guard.api.guard import StampedeGuard

__all__ = ["Outbox", "changes_of"]

MOST_SETTLED = 10_000
"""Rows that this process has delivered, and that are not deleted yet. A forgotten row is delivered once more."""


class Outbox:
    """A table in PostgreSQL for invalidations that are not done yet. Give it to `invalidate_on_commit`.

    `metadata`: that of your models, so that `create_all` and Alembic make the table. Otherwise run `outbox.ddl`.
    `notify=False`: a commit sends no NOTIFY, and relays only look from time to time. PostgreSQL commits transactions
    with a NOTIFY one after the other, which counts at thousands per second.
    """

    @takes_options("Outbox")
    def __init__(
        self,
        *,
        name: str = "stampede_guard_outbox",
        schema: str | None = None,
        metadata: MetaData | None = None,
        notify: bool = True,
    ) -> None:
        if metadata is not None and not isinstance(metadata, MetaData):
            raise Misuse(f"metadata= is a MetaData, not a {type(metadata).__name__}: write Base.metadata")
        self.table = Table(
            name,
            MetaData() if metadata is None else metadata,
            Column("id", Uuid, primary_key=True),
            Column("namespace", Text, nullable=False),
            Column("tags", postgresql.ARRAY(Text), nullable=False),
            Column("written_at", DateTime(timezone=True), nullable=False, index=True),
            schema=schema,
        )
        self.notify = notify
        self._settled: deque[uuid.UUID] = deque(maxlen=MOST_SETTLED)
        self._rings: list[Callable[[], None]] = []

    @property
    def ddl(self) -> str:
        """The statement that creates the table, without its index."""
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        return str(CreateTable(self.table).compile(dialect=dialect)).strip()

    def write(self, connection: Connection, guard: StampedeGuard, tags: Sequence[str]) -> uuid.UUID:
        """In the transaction that commits next. Raises `Misuse` for another database than PostgreSQL."""
        if connection.dialect.name != "postgresql":
            raise Misuse(
                f"an outbox needs PostgreSQL, and this session uses {connection.dialect.name}: remove outbox="
            )
        row = uuid.uuid4()
        values = {"id": row, "namespace": guard.namespace, "tags": list(tags)}
        # The clock of the statement: `now()` is the beginning of the transaction.
        statement = insert(self.table).values(**values, written_at=func.clock_timestamp())
        # PostgreSQL refuses a NOTIFY in a transaction of two phases.
        if self.notify and not isinstance(connection.get_transaction(), TwoPhaseTransaction):
            connection.execute(statement.returning(func.pg_notify(CHANNEL, guard.namespace)))
        else:
            connection.execute(statement)
        return row

    def settle(self, rows: Iterable[uuid.UUID]) -> None:
        """Their tags are invalidated. The relay deletes the rows. Called from any thread."""
        self._settled.extend(rows)
        for ring in [*self._rings]:
            ring()

    @property
    def has_settled(self) -> bool:
        """Whether there are rows to delete."""
        return bool(self._settled)

    def rings(self, ring: Callable[[], None]) -> None:
        """Call it whenever there are rows to delete."""
        self._rings.append(ring)

    def rings_no_more(self, ring: Callable[[], None]) -> None:
        """The end of a `rings`."""
        self._rings.remove(ring)

    def clean(self, connection: Connection) -> None:
        """Delete the rows that this process has delivered itself."""
        settled = []
        while self._settled:
            settled.append(self._settled.popleft())
        try:
            self.delete(connection, settled)
        except BaseException:
            self._settled.extend(settled)
            raise

    def claim(
        self,
        connection: Connection,
        guard: StampedeGuard,
        *,
        older_than: float,
        most: int,
        but: Sequence[uuid.UUID] = (),
    ) -> Sequence[RowMapping]:
        """Rows of this guard and its tenants, locked. Skipped are `but`, and those that another relay has locked."""
        table, namespace = self.table.c, guard.namespace
        mine = or_(table.namespace == namespace, func.starts_with(table.namespace, f"{namespace}:"))
        old = table.written_at <= func.clock_timestamp() - timedelta(seconds=older_than)
        # Without the time: Python has no text for PostgreSQL's "-infinity".
        wanted = select(table.id, table.namespace, table.tags).where(mine, old)
        if but:
            wanted = wanted.where(table.id.not_in(but))
        statement = wanted.order_by(table.written_at).limit(most)
        return connection.execute(statement.with_for_update(skip_locked=True)).mappings().all()

    def delete(self, connection: Connection, rows: Sequence[uuid.UUID]) -> None:
        if rows:
            connection.execute(delete(self.table).where(self.table.c.id.in_(rows)))


def changes_of(row: RowMapping, guard: StampedeGuard) -> list[Change]:
    """The tags of a row, on the guard or on the guard of its tenant."""
    namespace: str = row["namespace"]
    if namespace != guard.namespace:
        guard = guard.within(namespace.removeprefix(f"{guard.namespace}:"))
    tags: list[Any] = row["tags"]
    return [Change(guard, tag) for tag in tags]
