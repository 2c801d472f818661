"""A process that is killed between its commit and its invalidation: `python -m ... DATABASE REDIS NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import Outbox, invalidate_on_commit
from tests.integrations.sqlalchemy.models import TAGS, Project


async def never(tag: str) -> Any:
    print("committed", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    database, redis, namespace = sys.argv[1:]
    guard = StampedeGuard.from_url(redis, namespace=namespace)
    guard.invalidate_tag = never  # type: ignore[method-assign]
    sessions = sessionmaker(create_engine(database))
    invalidate_on_commit(sessions, guard, TAGS, outbox=Outbox())
    with sessions.begin() as session:
        session.get_one(Project, 1).name = "new"
