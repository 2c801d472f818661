"""Every kind of session, and every end of a transaction."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine, create_engine, delete, insert, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy import Tags, invalidate_on_commit
from tests.integrations.sqlalchemy.conftest import Watch, names
from tests.integrations.sqlalchemy.models import TAGS, Base, Label, Note, Project
from tests.support.gate import Gate, soon


@pytest.fixture
async def async_engine(tables: Engine) -> AsyncIterator[AsyncEngine]:
    url = tables.url.set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url)
    yield engine
    await engine.dispose()


@pytest.fixture
async def aguard(guard: StampedeGuard) -> AsyncIterator[StampedeGuard]:
    yield guard
    await guard.aclose()


class OwnSession(Session):
    pass


class OwnAsyncSession(AsyncSession):
    pass


def test_makers_classes_and_scoped_sessions(tables: Engine, guard: StampedeGuard, watch: Watch) -> None:
    maker, scoped = sessionmaker(tables), scoped_session(sessionmaker(tables))
    for target in (maker, scoped, OwnSession):
        invalidate_on_commit(target, guard, {Project: ("project:{id}",)})
    for number, made in enumerate((maker(), scoped(), OwnSession(tables))):
        with made as session:
            session.add(Project(id=number))
            session.commit()
        assert watch.changed() == names(f"project:{number}")
    with Session(tables) as session:
        session.add(Project(id=9))
        session.commit()
    assert watch.changed() == set(), "other sessions of the same engine and models"


async def test_sessions_of_coroutines_await_the_invalidation(
    async_engine: AsyncEngine, aguard: StampedeGuard, watch: Watch
) -> None:
    maker = async_sessionmaker(async_engine)
    scoped = async_scoped_session(async_sessionmaker(async_engine), scopefunc=asyncio.current_task)
    for target in (maker, scoped, OwnAsyncSession):
        invalidate_on_commit(target, aguard, {Project: ("project:{id}",), Label: ("labels",)})
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    for number, session in enumerate((maker(), scoped(), OwnAsyncSession(async_engine))):
        before = ticks
        session.add(Project(id=number))
        await session.commit()
        assert watch.changed() == names(f"project:{number}")
        assert ticks > before
        async with session.begin_nested() as savepoint:
            session.add(Project(id=100 + number))
            await session.flush()
            await savepoint.rollback()
        await session.execute(delete(Label))
        await session.commit()
        assert watch.changed() == names("labels")
        session.add(Project(id=200 + number))
        await session.flush()
        await session.close()
        assert watch.changed() == set()
    async with maker.begin() as session:
        invalidate_on_commit(session, aguard, "menu")
    assert watch.changed() == names("menu")
    ticker.cancel()


async def test_a_plain_session_on_an_event_loop_invalidates_too(
    tables: Engine, aguard: StampedeGuard, watch: Watch
) -> None:
    with Session(tables) as session:
        invalidate_on_commit(session, aguard, "menu")
        session.commit()
    assert watch.changed() == names("menu")


def test_tags_and_keys_of_one_transaction(tables: Engine, guard: StampedeGuard, watch: Watch) -> None:
    with Session(tables) as session:
        invalidate_on_commit(session, guard, "menu")  # before the transaction begins
        session.execute(text("SELECT 1"))
        for _ in range(3):
            invalidate_on_commit(session, guard, "menu", "prices", key="report:7")
        assert watch.changed() == set()
        session.commit()
        assert watch.changed() == names("menu", "prices") | {"=report:7"}
        assert watch.times == 3
        session.execute(text("SELECT 1"))
        with session.begin_nested() as savepoint:
            invalidate_on_commit(session, guard, "menu")
            savepoint.rollback()
        invalidate_on_commit(session, guard, "prices")
        session.commit()
        assert watch.changed() == names("prices")
        session.commit()
        session.execute(text("SELECT 1"))
        invalidate_on_commit(session, guard, "menu")
        session.rollback()
        session.commit()
    assert watch.changed() == set()


def test_guards_do_not_mix(tables: Engine, guard: StampedeGuard, watch: Watch) -> None:
    other = guard.within("tenant")
    seen: list[str] = []
    other.add_hook(lambda event: seen.append(getattr(event, "entry", "")))
    with Session(tables) as session:
        invalidate_on_commit(session, guard, {Project: ("project:{id}",)})
        invalidate_on_commit(session, other, {Project: ("row:{id}",)})
        session.add(Project(id=1))
        session.commit()
    assert {name for name in seen if name} == {
        f"{guard.prefix}#{min(names('project:1'))}", f"{other.prefix}#{min(names('row:1'))}",
    }  # fmt: skip


def test_mistakes_say_what_to_write(tables: Engine, guard: StampedeGuard) -> None:
    with Session(tables) as session:
        for given, words in (
            ({}, "no models: write"),
            ({Project: "project:{id}"}, r"write \{Project: \('task:\{id\}',\)\}, or Tags"),
            (
                {Project: ("project:{nam}",)},
                r"\{nam\} names no column of Project.*id, name; do you mean \{name\}",
            ),
            ({Project: ("project:{id.real}",)}, "write the name of a parameter"),
            ({Project: ()}, "Tags takes templates"),
            ({int: ("project:{id}",)}, "is no mapped class"),
        ):
            with pytest.raises(Misuse, match=words):
                invalidate_on_commit(session, guard, given)
        with pytest.raises(Misuse, match="names an attribute, but the rows are not known"):
            Tags("task:{id}", bulk="tasks:{id}")
        with pytest.raises(Misuse, match="nothing to invalidate"):
            invalidate_on_commit(session, guard)
        with pytest.raises(Misuse, match="at least one character"):
            invalidate_on_commit(session, guard, "")
        with pytest.raises(Misuse, match="two calls"):
            invalidate_on_commit(session, guard, {Project: ("project:{id}",)}, "menu")  # type: ignore[call-overload]
    with pytest.raises(Misuse, match="belong to one session"):
        invalidate_on_commit(sessionmaker(tables), guard, "menu")
    with pytest.raises(Misuse, match="takes sessions first"):
        invalidate_on_commit(tables, guard, {Project: ("project:{id}",)})  # type: ignore[call-overload]


def test_a_commit_in_two_phases_invalidates_after_the_second(
    tables: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    with Session(tables, twophase=True) as session:
        invalidate_on_commit(session, guard, TAGS)
        session.add(Project(id=1))
        session.prepare()
        assert watch.changed() == set()
        session.commit()
        assert watch.changed() == names("project:1", "names")
        session.add(Project(id=2))
        session.prepare()
        session.rollback()
    assert watch.changed() == set()


def test_a_commit_whose_answer_is_lost_invalidates_and_one_that_is_refused_does_not(
    tables: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    engine = create_engine(tables.url)
    with Session(engine) as session:
        invalidate_on_commit(session, guard, {**TAGS, Note: ("notes",)})
        session.add(Note(task_id=404))  # the foreign key is checked at the commit
        session.flush()
        with pytest.raises(IntegrityError):
            session.commit()
        session.rollback()
        assert watch.changed() == set()
        session.add(Project(id=1))
        session.flush()
        pid = session.scalar(text("SELECT pg_backend_pid()"))
        with tables.begin() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        with pytest.raises(DBAPIError):
            session.commit()
        session.rollback()
        assert watch.changed() == names("project:1", "names")
    engine.dispose()


def test_statements_that_are_durable_at_once_are_not_forgotten_by_a_rollback(
    tables: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    for engine in (
        tables.execution_options(isolation_level="AUTOCOMMIT"),
        create_engine(tables.url, isolation_level="AUTOCOMMIT"),
    ):
        with Session(engine) as session:
            invalidate_on_commit(session, guard, {Label: ("labels",)})
            session.execute(insert(Label).values(name="a"))
            session.rollback()
            assert watch.changed() == names("labels")
            session.execute(insert(Label).values(name="a"))
        assert watch.changed() == names("labels")
        engine.dispose()


async def test_a_caller_that_is_cancelled_has_its_invalidation_done(
    async_engine: AsyncEngine, aguard: StampedeGuard, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    real = aguard.invalidate_tag

    async def held(tag: str) -> Any:
        await gate.hold()
        return await real(tag)

    monkeypatch.setattr(aguard, "invalidate_tag", held)

    async def change() -> None:
        async with AsyncSession(async_engine) as session:
            invalidate_on_commit(session, aguard, "menu")
            await session.commit()

    task = asyncio.create_task(change())
    await gate.arrival()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    done = asyncio.Event()
    aguard.add_hook(lambda event: done.set() if type(event).__name__ == "Invalidated" else None)
    gate.open()
    await soon(done.wait())
    assert watch.changed() == names("menu")
    assert gate.cancelled == 0


def test_a_commit_raises_nothing_while_the_store_is_away_and_the_invalidation_follows(
    sessions: sessionmaker[Session], tables: Engine, own_valkey: ValkeyServer, namespace: str
) -> None:
    guard = StampedeGuard.from_url(own_valkey.url, namespace=namespace)
    value = 1

    @guard.locked_cache(ttl=300, tags=("project:{project}",))
    def cached(project: int) -> int:
        return value

    assert cached(1) == 1
    own_valkey.stop()
    with Session(tables) as session:
        invalidate_on_commit(session, guard, {Project: ("project:{id}",)})
        session.add(Project(id=1))
        session.commit()
    value = 2
    assert cached(1) == 2, "this process knows at once"
    guard.close()


def test_a_store_that_refuses_is_an_error_in_the_log_and_not_one_of_the_commit(
    tables: Engine, guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(tag: str) -> Any:
        raise LookupError("no rights")

    monkeypatch.setattr(guard, "invalidate_tag", refused)
    with Session(tables) as session:
        invalidate_on_commit(session, guard, "menu", "prices")
        session.commit()
    assert "2 of its 2 invalidations are not done" in caplog.text


def test_the_session_of_flask_sqlalchemy(tables: Engine, guard: StampedeGuard, watch: Watch) -> None:
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = tables.url
    db = SQLAlchemy(app, model_class=Base)
    invalidate_on_commit(db.session, guard, TAGS)
    with app.app_context():
        db.session.add(Project(id=1))
        db.session.commit()
        assert watch.changed() == names("project:1", "names")
        invalidate_on_commit(db.session, guard, "menu")
        db.session.commit()
        assert watch.changed() == names("menu")
        db.engine.dispose()


WITHOUT_GREENLET = """
import sys
sys.modules["greenlet"] = None
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import invalidate_on_commit
guard = StampedeGuard.from_url("memory://", namespace="shop")
guard.add_hook(lambda event: print(event.entry))
async def main():
    with Session(create_engine("sqlite://")) as session:
        invalidate_on_commit(session, guard, "menu")
        session.commit()
import asyncio
import subprocess
import sys
asyncio.run(main())
"""


def test_plain_sessions_need_no_greenlet() -> None:
    command = [sys.executable, "-c", WITHOUT_GREENLET]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("shop:#menu\n", "")
