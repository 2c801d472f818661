"""A process that is killed between its commit and its invalidation: `python -m ... DATABASE REDIS NAMESPACE`.

With `relay`, it is a relay that is killed between its delivery and the deletion of the row.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import Outbox, OutboxRelay, invalidate_on_commit
from tests.integrations.sqlalchemy.models import TAGS, Project


async def never(tag: str) -> Any:
    print("committed", flush=True)
    await asyncio.Event().wait()


def deliver(outbox: Outbox, guard: StampedeGuard, database: str) -> None:
    def delete(connection: object, rows: Sequence[object]) -> None:
        if rows:
            print("delivered", flush=True)
            signal.pause()

    outbox.delete = delete  # type: ignore[method-assign]
    OutboxRelay(outbox, guard, create_engine(database), after=0).deliver()


if __name__ == "__main__":
    database, redis, namespace, *role = sys.argv[1:]
    guard = StampedeGuard.from_url(redis, namespace=namespace)
    if role == ["relay"]:
        deliver(Outbox(), guard, database)
    guard.invalidate_tag = never  # type: ignore[method-assign]
    sessions = sessionmaker(create_engine(database))
    invalidate_on_commit(sessions, guard, TAGS, outbox=Outbox())
    with sessions.begin() as session:
        session.get_one(Project, 1).name = "new"
