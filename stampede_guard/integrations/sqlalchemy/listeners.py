"""What SQLAlchemy tells: sessions, flushes and statements. Only marked sessions do more than one look-up here.

The listeners are on the base classes, once, when this module is imported. To add a listener later, while another thread
is in the middle of an event of the same object, is not safe.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.event import listen, listens_for
from sqlalchemy.orm import InstanceState, Mapper, Session, SessionTransaction, UOWTransaction, object_session

from stampede_guard.integrations.sqlalchemy.bulk import changes_of_statement
from stampede_guard.integrations.sqlalchemy.flushes import FlushRecorder
from stampede_guard.integrations.sqlalchemy.pending import pending_on
from stampede_guard.integrations.sqlalchemy.targets import mappings_of, pending_of

__all__: list[str] = []


@listens_for(Session, "after_transaction_create")
def _transaction_begins(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None and (pending := pending_of(session)) is not None:
        pending.mappings = [*mappings_of(session), *pending.own]
        pending.begun(transaction)


@listens_for(Session, "after_begin")
def _connection_is_used(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    if (pending := pending_of(session)) is not None:
        pending.uses(connection)


@listens_for(Session, "before_flush")
def _flush_begins(session: Session, context: UOWTransaction, instances: Any) -> None:
    if (pending := pending_of(session)) is not None:
        pending.flushes(context)


@listens_for(Session, "after_flush")
def _flush_ends(session: Session, context: UOWTransaction) -> None:
    if (pending := pending_of(session)) is not None:
        FlushRecorder(session, pending).after_flush()


@listens_for(Session, "after_commit")
def _committed(session: Session) -> None:
    if (pending := pending_of(session)) is not None:
        pending.committed(session)


@listens_for(Session, "after_rollback")
def _rolled_back(session: Session) -> None:
    if (pending := pending_of(session)) is not None:
        pending.rolled_back(session)


@listens_for(Session, "after_transaction_end")
def _transaction_ends(session: Session, transaction: SessionTransaction) -> None:
    if (pending := pending_of(session)) is not None:
        pending.ended(transaction)


def _listen_to_rows(name: str) -> None:
    def tell(mapper: Mapper[Any], connection: Connection, state: InstanceState[Any]) -> None:
        session = object_session(state.obj())
        if session is not None and (pending := pending_of(session)) is not None and pending.mappings:
            getattr(FlushRecorder(session, pending), name)(mapper, connection, state)

    listen(Mapper, name, tell, raw=True)


for _name in ("before_insert", "before_update", "before_delete"):
    _listen_to_rows(_name)


@listens_for(Engine, "before_cursor_execute")
def _statement_is_sent(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> None:
    pending = pending_on(connection)
    if pending is not None and pending.mappings:
        pending.add(changes_of_statement(pending, context))


@listens_for(Engine, "commit")
def _commit_is_sent(connection: Connection) -> None:
    if (pending := pending_on(connection)) is not None:
        pending.write_outboxes(connection)
        pending.commit_is_sent()


@listens_for(Engine, "prepare_twophase")
def _first_phase_is_sent(connection: Connection, xid: Any) -> None:
    if (pending := pending_on(connection)) is not None:
        pending.write_outboxes(connection)


@listens_for(Engine, "commit_twophase")
def _second_phase_is_sent(connection: Connection, xid: Any, is_prepared: bool) -> None:
    if (pending := pending_on(connection)) is not None:
        pending.commit_is_sent()
