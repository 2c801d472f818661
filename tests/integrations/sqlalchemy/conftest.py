"""Sessions on a real PostgreSQL with empty tables, and a guard on a real Valkey that tells what it invalidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, sessionmaker

from stampede_guard import StampedeGuard
from stampede_guard.engine.tags.templates import tag_key
from stampede_guard.integrations.sqlalchemy import invalidate_on_commit
from tests.integrations.sqlalchemy.models import TAGS, Base
from tests.support.sessions import patient


class Watch:
    """Which tags and keys a guard has invalidated since the last look."""

    def __init__(self, guard: StampedeGuard) -> None:
        self.guard = guard
        self.times = 0
        self._names: set[str] = set()
        guard.add_hook(self._hear)

    def _hear(self, event: Any) -> None:
        if type(event).__name__ == "Invalidated":
            self._names.add(event.entry.removeprefix(self.guard.prefix).removeprefix("#"))
            self.times += 1

    def changed(self) -> set[str]:
        found, self._names = self._names, set()
        return found


@pytest.fixture(scope="session")
def engine(postgres_url: str) -> Iterator[Engine]:
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def tables(engine: Engine) -> Engine:
    """Empty. A TRUNCATE would take ten times as long."""
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        for table in Base.metadata.tables.values():
            connection.execute(table.delete())
        for name in ("labels", "things"):
            connection.execute(text(f"SELECT setval('commit_{name}_id_seq', 1, false)"))
    return engine


@pytest.fixture
def guard(valkey_url: str, namespace: str) -> Iterator[StampedeGuard]:
    guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)
    yield guard
    guard.close()


@pytest.fixture
def watch(guard: StampedeGuard) -> Watch:
    return Watch(guard)


@pytest.fixture
def sessions(tables: Engine, guard: StampedeGuard) -> sessionmaker[Session]:
    made = sessionmaker(tables)
    invalidate_on_commit(made, guard, TAGS)
    return made


def names(*tags: str) -> set[str]:
    """Their names in the store, without the namespace."""
    return {tag_key(tag).removeprefix("#") for tag in tags}
