"""Invalidations in the database: written with the data, and delivered whatever becomes of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, create_engine, func, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.integrations.outboxes import CHANNEL, Stuck
from stampede_guard.integrations.sqlalchemy import Outbox, OutboxRelay, invalidate_on_commit
from stampede_guard.integrations.sqlalchemy.listening import AsyncBell
from tests.integrations.sqlalchemy.conftest import Watch, names
from tests.integrations.sqlalchemy.models import TAGS, Project
from tests.support.gate import until


@pytest.fixture
def outbox(tables: Engine) -> Iterator[Outbox]:
    outbox = Outbox()
    outbox.table.create(tables)
    yield outbox
    outbox.table.drop(tables)


@pytest.fixture
def boxed(tables: Engine, guard: StampedeGuard, outbox: Outbox) -> sessionmaker[Session]:
    sessions = sessionmaker(tables)
    invalidate_on_commit(sessions, guard, TAGS, outbox=outbox)
    return sessions


def rows(engine: Engine, outbox: Outbox) -> list[set[str]]:
    with engine.connect() as connection:
        return [set(tags) for tags in connection.scalars(select(outbox.table.c.tags))]


def test_a_row_is_durable_with_the_data_and_deleted_after_the_invalidation(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, boxed: sessionmaker[Session], watch: Watch
) -> None:
    relay = OutboxRelay(outbox, guard, tables, after=0)
    with boxed() as session:
        session.add(Project(id=1))
        with session.begin_nested() as savepoint:
            session.add(Project(id=2))
            session.flush()
            savepoint.rollback()
        invalidate_on_commit(session, guard, "menu", key="report:7")
        session.commit()
        assert rows(tables, outbox) == [{"project:1", "names", "menu"}]
        watch.changed()
        assert relay.deliver() == 0
        assert rows(tables, outbox) == []
        assert watch.changed() == set(), "the process has delivered it itself"
        session.add(Project(id=3))
        session.flush()
        session.rollback()
        session.execute(text("SELECT 1"))
        session.commit()
    with boxed(twophase=True) as session:
        session.add(Project(id=4))
        session.prepare()
        assert rows(tables, outbox) == []
        session.commit()
    assert rows(tables, outbox) == [{"project:4", "names"}]


def test_what_a_killed_process_leaves_behind_is_delivered_by_another_one(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, valkey_url: str, namespace: str
) -> None:
    @guard.locked_cache(ttl=300, tags=("project:{project}",))
    def name(project: int) -> str | None:
        with tables.connect() as connection:
            return connection.scalar(select(Project.name).where(Project.id == project))

    with Session(tables) as session:
        session.add(Project(id=1, name="old"))
        session.commit()
    assert name(1) == "old"
    url = tables.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "tests.integrations.sqlalchemy.killed", url, valkey_url, namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "committed\n"
        process.kill()
    assert name(1) == "old"
    assert OutboxRelay(outbox, guard, tables, after=3600).deliver() == 0, "its process may still come"
    assert OutboxRelay(outbox, guard, tables, after=0).deliver() == 1
    assert name(1) == "new"
    assert rows(tables, outbox) == []


async def test_a_relay_of_an_event_loop_delivers_rows_of_its_guard_and_tenants_only(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch
) -> None:
    engine = create_async_engine(tables.url.set(drivername="postgresql+asyncpg"))
    tenant, other = (
        guard.within("tenant"),
        StampedeGuard.from_url("memory://", namespace=f"{guard.namespace}x"),
    )
    seen: asyncio.Queue[str] = asyncio.Queue()
    guard.add_hook(lambda event: seen.put_nowait(getattr(event, "entry", "")))
    with tables.begin() as connection:
        for one, tag in ((guard, "a"), (tenant, "b"), (other, "c")):
            outbox.write(connection, one, [tag])
    sessions = async_sessionmaker(engine)
    invalidate_on_commit(sessions, guard, TAGS, outbox=outbox)
    async with sessions.begin() as session:
        session.add(Project(id=1))
    async with OutboxRelay(outbox, guard, engine, every=0.01, after=0):
        await until(lambda: len(rows(tables, outbox)) == 1)
    assert rows(tables, outbox) == [{"c"}]
    assert watch.changed() >= names("a", "project:1")
    found = {seen.get_nowait() for _ in range(seen.qsize())}
    assert f"{tenant.prefix}#b" in found
    with pytest.raises(Misuse, match=r"await relay\.adeliver"):
        OutboxRelay(outbox, guard, engine).deliver()
    await guard.aclose()
    await engine.dispose()


def test_two_relays_do_not_take_the_same_row(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch
) -> None:
    with tables.begin() as connection:
        outbox.write(connection, guard, ["a"])
    relay = OutboxRelay(outbox, guard, tables, after=0)
    with tables.begin() as connection:
        assert len(outbox.claim(connection, guard, older_than=0, most=10)) == 1
        assert relay.deliver() == 0
    assert relay.deliver() == 1
    assert watch.changed() == names("a")


def test_rows_stay_while_redis_is_away_and_a_thread_delivers_them_afterwards(
    tables: Engine, outbox: Outbox, own_valkey: ValkeyServer, namespace: str
) -> None:
    guard = StampedeGuard.from_url(own_valkey.url, namespace=namespace)
    own_valkey.stop()
    with Session(tables) as session:
        invalidate_on_commit(session, guard, TAGS, outbox=outbox)
        session.add(Project(id=1))
        session.commit()
    relay = OutboxRelay(outbox, guard, tables, every=0.01, after=0)
    assert relay.deliver() == 0
    assert len(rows(tables, outbox)) == 1
    own_valkey.start()
    empty = threading.Event()
    with relay:
        for _ in range(6_000):
            if not rows(tables, outbox):
                empty.set()
                break
            empty.wait(0.01)
    assert empty.is_set()
    guard.close()


def test_a_commit_without_its_row_is_no_commit(tables: Engine, guard: StampedeGuard, watch: Watch) -> None:
    with Session(tables) as session:
        invalidate_on_commit(session, guard, TAGS, outbox=Outbox(name="missing"))
        session.add(Project(id=1))
        with pytest.raises(ProgrammingError, match="missing"):
            session.commit()
        session.rollback()
        assert session.get(Project, 1) is None
    assert watch.changed() == set()
    with Session(create_engine("sqlite://")) as session:
        invalidate_on_commit(session, guard, TAGS, outbox=Outbox())
        invalidate_on_commit(session, guard, "menu")
        session.execute(text("SELECT 1"))
        with pytest.raises(Misuse, match="needs PostgreSQL"):
            session.commit()


def test_mistakes_with_an_outbox(tables: Engine, guard: StampedeGuard) -> None:
    outbox = Outbox()
    assert outbox.ddl.startswith("CREATE TABLE stampede_guard_outbox")
    with Session(tables) as session, pytest.raises(Misuse, match="the call that maps models"):
        invalidate_on_commit(session, guard, "menu", outbox=outbox)  # type: ignore[call-overload]
    with pytest.raises(Misuse, match="every=0 must be above"):
        OutboxRelay(outbox, guard, tables, every=0)


NEVER = 3600.0


def by_sql(tables: Engine, guard: StampedeGuard, outbox: Outbox, *tags: str) -> None:
    """A row that no process of ours will deliver by itself."""
    with tables.begin() as connection:
        outbox.write(connection, guard, tags)


def test_a_thread_hears_of_a_commit_and_deletes_what_its_process_has_delivered(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, boxed: sessionmaker[Session], watch: Watch
) -> None:
    with OutboxRelay(outbox, guard, tables, every=NEVER, after=0) as relay:
        eventually(lambda: relay._bell is not None and relay._bell.is_listening)
        by_sql(tables, guard, outbox, "a")
        eventually(lambda: rows(tables, outbox) == [])
        assert watch.changed() == names("a")
    with OutboxRelay(outbox, guard, tables, every=NEVER, after=NEVER):
        with boxed() as session:
            session.add(Project(id=1))
            session.commit()
        eventually(lambda: rows(tables, outbox) == [])


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_task_hears_of_a_commit_and_listens_again_when_its_connection_is_lost(
    driver: str, tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch
) -> None:
    engine = create_async_engine(tables.url.set(drivername=f"postgresql+{driver}"))
    lost: set[int] = set()  # they end when they notice

    async with OutboxRelay(outbox, guard, engine, every=0.5, after=0):
        for tag in ("a", "b"):
            await until(lambda: len(listeners(tables) - lost) == 1)
            by_sql(tables, guard, outbox, tag)
            await until(lambda: rows(tables, outbox) == [])
            assert watch.changed() == names(tag)
            (listening,) = listeners(tables) - lost
            with tables.begin() as connection:
                connection.execute(select(func.pg_terminate_backend(listening)))
            lost.add(listening)
        async with async_sessionmaker(engine)() as session:
            invalidate_on_commit(session, guard, TAGS, outbox=outbox)
            session.add(Project(id=1))
            await session.commit()
        await until(lambda: rows(tables, outbox) == [])
    await until(lambda: listeners(tables) == set())  # the server ends a closed connection when it notices
    await guard.aclose()
    await engine.dispose()


@pytest.mark.parametrize("turns", range(6))
async def test_an_end_in_the_moment_of_a_ring_is_not_lost(turns: int) -> None:
    bell = AsyncBell(create_async_engine("postgresql+asyncpg://nobody@localhost/none"))
    waiting = asyncio.create_task(bell.wait(60))
    for _ in range(3):
        await asyncio.sleep(0)
    bell._hear()
    for _ in range(turns):
        await asyncio.sleep(0)
    if waiting.cancel():
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_relay_ends_even_if_a_driver_loses_the_cancellation(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, lost = asyncio.Event(), []

    async def deliver(relay: OutboxRelay) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.append(relay)
        return 0

    monkeypatch.setattr(OutboxRelay, "adeliver", deliver)
    monkeypatch.setattr("stampede_guard.integrations.sqlalchemy.relay.ENDS_WITHIN", 0.01)
    engine = create_async_engine("postgresql+asyncpg://nobody@localhost/none")
    async with asyncio.timeout(60):
        async with OutboxRelay(Outbox(name="quiet_outbox", notify=False), guard, engine) as relay:
            await begun.wait()
    assert lost == [relay]


async def test_a_notify_that_nobody_reads_yet_does_not_keep_the_event_loop_busy(
    tables: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, hear = [], AsyncBell._hear
    monkeypatch.setattr(AsyncBell, "_hear", lambda bell: called.append(None) or hear(bell))
    engine = create_async_engine(tables.url.set(drivername="postgresql+psycopg"))
    bell = AsyncBell(engine)
    await bell.listen()
    for _ in range(2):
        called.clear()
        notify(tables)
        await until(lambda: bool(called))
        await asyncio.sleep(0.05)
        assert len(called) == 1
        assert await bell.wait(5.0)
        assert not await bell.wait(0.01)
    await bell.close()
    await engine.dispose()


async def test_a_lost_connection_leaves_nothing_in_the_event_loop(tables: Engine) -> None:
    engine = create_async_engine(tables.url.set(drivername="postgresql+psycopg"))
    bell = AsyncBell(engine)
    await bell.listen()
    number = bell._driver.fileno()
    with tables.begin() as connection:
        connection.execute(select(func.pg_terminate_backend(listeners(tables).pop())))
    while bell.is_listening:
        assert await bell.wait(5.0)
    # The next connection of the program gets the number, perhaps one to Redis. It would never hear anything.
    assert not asyncio.get_running_loop().remove_reader(number)
    await bell.close()
    await engine.dispose()


def test_a_thread_listens_again_when_its_connection_is_lost(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch
) -> None:
    with OutboxRelay(outbox, guard, tables, every=0.5, after=0):
        eventually(lambda: listeners(tables))
        (first,) = listeners(tables)
        with tables.begin() as connection:
            connection.execute(select(func.pg_terminate_backend(first)))
        eventually(lambda: listeners(tables) - {first})
        by_sql(tables, guard, outbox, "a")
        eventually(lambda: rows(tables, outbox) == [])
    assert watch.changed() == names("a")
    eventually(lambda: listeners(tables) == set())


def test_without_notify_a_relay_looks_from_time_to_time(
    tables: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    quiet = Outbox(name="quiet_outbox", notify=False)
    quiet.table.create(tables)
    try:
        with OutboxRelay(quiet, guard, tables, every=0.01, after=0):
            by_sql(tables, guard, quiet, "a")
            eventually(lambda: rows(tables, quiet) == [])
            assert listeners(tables) == set()
    finally:
        quiet.table.drop(tables)
    assert watch.changed() == names("a")


def test_a_row_that_cannot_be_delivered_stays_and_stops_no_other(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    relay = OutboxRelay(outbox, guard, tables, after=0)
    for tag in ("", "a", ""):
        by_sql(tables, guard, outbox, tag)
    assert [relay.deliver() for _ in range(3)] == [1, 0, 0]
    assert (watch.changed(), len(rows(tables, outbox))) == (names("a"), 2)
    assert len([record for record in caplog.records if "cannot be delivered" in record.message]) == 2
    relay._stuck = Stuck(clock=lambda: 0.0)
    by_sql(tables, guard, outbox, "b")
    assert relay.deliver() == 1


def test_a_look_takes_a_hundred_rows_whatever_has_come_together(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch
) -> None:
    for number in range(150):
        by_sql(tables, guard, outbox, f"t{number}")
    relay, second = (OutboxRelay(outbox, guard, tables, after=0) for _ in range(2))
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(one.deliver) for one in (relay, second)]
        assert sorted(one.result() for one in both) in ([50, 100], [0, 100])
    assert relay.deliver() + len(rows(tables, outbox)) in (0, 50)
    assert watch.times == 150, "each row was delivered once"


def test_a_relay_that_is_killed_between_delivery_and_deletion_leaves_its_row_to_another_one(
    tables: Engine, guard: StampedeGuard, outbox: Outbox, watch: Watch, valkey_url: str, namespace: str
) -> None:
    by_sql(tables, guard, outbox, "a")
    url = tables.url.render_as_string(hide_password=False)
    command = [
        sys.executable,
        "-m",
        "tests.integrations.sqlalchemy.killed",
        url,
        valkey_url,
        namespace,
        "relay",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said, relay = process.stdout.readline(), OutboxRelay(outbox, guard, tables, after=0)
        delivered = relay.deliver()
        process.kill()
        assert (said, delivered) == ("delivered\n", 0), "the other one has locked the row"
    eventually(lambda: relay.deliver() == 1)
    assert (watch.changed(), rows(tables, outbox)) == (names("a"), [])


def notify(tables: Engine) -> None:
    with tables.begin() as connection:
        connection.execute(select(func.pg_notify(CHANNEL, "")))


def listeners(tables: Engine) -> set[int]:
    """The server's processes that wait for a NOTIFY of our channel."""
    with tables.connect() as connection:
        found = text("SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN %stampede%'")
        return set(connection.scalars(found))


def eventually(condition: Callable[[], object]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never was")
