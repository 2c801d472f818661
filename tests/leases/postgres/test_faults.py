"""What networks, locks and restarts do to leases in PostgreSQL, on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from bench.herd.postgres import PostgresServer
from bench.herd.valkey import free_port
from stampede_guard.errors import Misuse, StoreRefused, StoreUnavailable, UrlError
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, Renewed
from stampede_guard.leases.postgres import forgetting
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.postgres.connections import Connections
from stampede_guard.leases.postgres.statements import KEPT_AUDITS
from tests.support.gate import until
from tests.support.leases import LONG, ask, granted
from tests.support.plainproxy import PlainProxy

SHORT = 0.5
Open = Callable[..., PostgresBackend]


@pytest.fixture
def name(namespace: str) -> str:
    return f"{namespace}:lease"


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Back ends that are closed at the end."""
    made: list[PostgresBackend] = []

    def open_one(url: str, **settings: Any) -> PostgresBackend:
        made.append(PostgresBackend.from_url(url, **settings))
        return made[-1]

    yield open_one
    for backend in made:
        await backend.aclose()


@pytest.fixture
async def proxy(postgres_url: str, opened: Open) -> AsyncIterator[PlainProxy]:
    await opened(postgres_url).create_schema()
    async with PlainProxy(int(postgres_url.rpartition(":")[2].partition("/")[0])) as listening:
        yield listening


def through(proxy: PlainProxy) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"


@pytest.fixture
async def user(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The user's own connection, past any proxy."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    connection.terminate()


async def waiting_for_a_lock(user: asyncpg.Connection) -> int:
    found: int = await user.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position('leases' in query) > 0"
    )
    return found


class TestNetwork:
    async def test_what_is_not_answered_is_given_up_in_time_and_its_connection_with_it(
        self, proxy: PlainProxy, opened: Open, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        before = proxy.accepted
        proxy.half_open()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="within"):
                await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=SHORT)
            break
        answer = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        assert answer == Renewed() and proxy.accepted > before

    async def test_a_database_that_is_nowhere_costs_the_time_out_and_no_more(
        self, proxy: PlainProxy, opened: Open, name: str
    ) -> None:
        backend = opened(through(proxy))
        proxy.black_hole()
        async with asyncio.timeout(LONG):
            for step in (
                backend.acquire(ask(name, "a"), timeout=SHORT),
                backend.renew(name, holder="a", token=1, lease_ttl=60, timeout=SHORT),
                backend.check(name, holder="a", token=1, timeout=SHORT),
                backend.views(name, limit=1, timeout=SHORT),
            ):
                with pytest.raises(StoreUnavailable):
                    await step
        proxy.heal()
        await granted(backend, name, "a")

    async def test_a_lost_answer_is_asked_for_again_and_is_the_same(
        self, proxy: PlainProxy, opened: Open, postgres_url: str, name: str
    ) -> None:
        backend, other = opened(through(proxy)), opened(postgres_url)
        await granted(backend, f"{name}:warm", "a")
        proxy.deaf()
        with pytest.raises(StoreUnavailable):
            # Each statement is two exchanges, so a deaf connection comes no further than to be prepared.
            await backend.acquire(ask(name, "a"), timeout=SHORT)
        token = await granted(other, name, "a")
        proxy.heal()
        assert await granted(backend, name, "a") == token

    async def test_resets_fail_what_was_asked_and_nothing_else(
        self, proxy: PlainProxy, opened: Open, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        for _ in range(5):
            proxy.black_hole()
            asked = asyncio.ensure_future(backend.check(name, holder="a", token=token, timeout=LONG))
            await asyncio.sleep(0)
            proxy.cut()
            proxy.heal()
            await asyncio.gather(asked, return_exceptions=True)
            assert await backend.check(name, holder="a", token=token, timeout=LONG)

    async def test_who_is_cancelled_takes_his_connection_along_and_nobody_elses(
        self, proxy: PlainProxy, opened: Open, name: str
    ) -> None:
        backend = opened(through(proxy), connections=1)
        token = await granted(backend, name, "a")
        for _ in range(5):
            asked = asyncio.ensure_future(backend.check(name, holder="a", token=token, timeout=LONG))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert await backend.check(name, holder="a", token=token, timeout=LONG)

    async def test_waiting_for_a_connection_counts(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy), connections=1)
        token = await granted(backend, name, "a")
        async with user.transaction():
            await user.execute("SELECT 1 FROM stampede_guard.leases WHERE name = $1 FOR UPDATE", name)
            blocked = asyncio.ensure_future(backend.acquire(ask(name, "b"), timeout=LONG))
            await until_true(lambda: waiting_for_a_lock(user))
            with pytest.raises(StoreUnavailable):
                await backend.check(name, holder="a", token=token, timeout=SHORT)
        assert isinstance(await blocked, LeaseHeld)

    async def test_renewals_go_on_while_all_other_connections_are_busy(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy), connections=1)
        token = await granted(backend, name, "a")
        await granted(backend, f"{name}:2", "x")
        async with user.transaction():
            await user.execute("SELECT 1 FROM stampede_guard.leases WHERE name = $1 FOR UPDATE", f"{name}:2")
            blocked = asyncio.ensure_future(backend.acquire(ask(f"{name}:2", "b"), timeout=LONG))
            await until_true(lambda: waiting_for_a_lock(user))
            answer = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
            assert answer == Renewed()
        await blocked


async def until_true(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(LONG):
        while not await condition():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


async def test_a_connection_that_the_server_left_between_two_questions_is_an_absence_and_is_not_used_again() -> (
    None
):
    class Left:
        """As asyncpg's, between the server's last word and the end of the connection."""

        ended = False

        async def fetch(self, sql: str) -> None:
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation is in progress")

        def terminate(self) -> None:
            self.ended = True

        def is_closed(self) -> bool:
            return self.ended

    made: list[Left] = []

    async def connect() -> Left:
        made.append(Left())
        return made[-1]

    room = Connections(connect, size=1)
    for number in (1, 2):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await room.fetch("SELECT 1", timeout=LONG)
        assert len(made) == number and made[-1].ended
    await room.aclose()


class TestLocks:
    async def test_who_gave_up_waiting_for_a_row_is_granted_nothing_afterwards(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        await granted(backend, name, "a")
        async with user.transaction():
            await user.execute("SELECT 1 FROM stampede_guard.leases WHERE name = $1 FOR UPDATE", name)
            with pytest.raises(StoreUnavailable):
                await backend.acquire(ask(name, "late"), timeout=SHORT)
            await until_true(lambda: nobody_waits(user))
            await user.execute("UPDATE stampede_guard.leases SET holder = '' WHERE name = $1", name)
        view = await backend.show(name, timeout=LONG)
        assert view is not None and not view.held

    async def test_the_clock_is_read_after_the_wait_for_the_row(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        await granted(backend, name, "a", lease_ttl=60)
        async with user.transaction():
            await user.execute("SELECT 1 FROM stampede_guard.leases WHERE name = $1 FOR UPDATE", name)
            asked = asyncio.ensure_future(backend.acquire(ask(name, "b"), timeout=LONG))
            await until_true(lambda: waiting_for_a_lock(user))
            # Over before the row is let go, and after the question was asked.
            await user.execute(
                "UPDATE stampede_guard.leases SET deadline = clock_timestamp() WHERE name = $1", name
            )
        assert isinstance(await asked, LeaseGranted)


async def nobody_waits(user: asyncpg.Connection) -> bool:
    return await waiting_for_a_lock(user) == 0


class TestFence:
    async def test_what_is_written_under_a_lease_is_committed(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        async with user.transaction():
            assert await backend.fence(user, name, holder="a", token=token)

    @pytest.mark.parametrize(("holder", "off"), [("b", 0), ("a", 1), ("", 0)])
    async def test_it_holds_for_the_holder_and_the_token_of_the_grant_only(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str, holder: str, off: int
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        async with user.transaction():
            assert not await backend.fence(user, name, holder=holder, token=token + off)

    async def test_a_lease_of_months_is_longer_than_the_server_can_be_told_to_wait(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a", lease_ttl=60 * 86_400)
        async with user.transaction():
            assert await backend.fence(user, name, holder="a", token=token)

    async def test_it_does_not_hold_after_the_deadline(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        await user.execute(
            "UPDATE stampede_guard.leases SET deadline = clock_timestamp() WHERE name = $1", name
        )
        async with user.transaction():
            assert not await backend.fence(user, name, holder="a", token=token)

    async def test_until_the_commit_nobody_else_gets_it_whatever_an_operator_wants(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, postgres_url: str, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a", lease_ttl=LONG)
        looking = await asyncpg.connect(postgres_url)
        transaction = user.transaction()
        await transaction.start()
        assert await backend.fence(user, name, holder="a", token=token)
        forced = asyncio.ensure_future(backend.force(name, token=token, by="eve", now=True, timeout=LONG))
        await until_true(lambda: one_waits(looking))
        asked = asyncio.ensure_future(backend.acquire(ask(name, "b"), timeout=LONG))
        await until_true(lambda: two_wait(looking))
        assert not asked.done() and not forced.done()
        await transaction.commit()
        answer = await asked
        assert isinstance(answer, LeaseGranted) and answer.token > token
        await forced
        await looking.close()

    @pytest.mark.parametrize("own_limit", ["0", "1h"])
    async def test_who_stands_still_before_the_commit_is_ended_with_his_lease_and_has_written_nothing(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str, own_limit: str
    ) -> None:
        backend = opened(through(proxy))
        await user.execute(f"SET idle_in_transaction_session_timeout = '{own_limit}'")
        token = await granted(backend, name, "a", lease_ttl=1.0)
        transaction = user.transaction()
        await transaction.start()
        await user.execute("CREATE TABLE fenced_in (number int)")
        assert await backend.fence(user, name, holder="a", token=token)
        # 1. it was verified, 2. the process is frozen, 3. its lease ends, 4. it would go on to its COMMIT.
        answer = await backend.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseGranted) and answer.token > token
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
            await transaction.commit()
        assert user.is_closed()

    async def test_the_limit_on_standing_still_is_that_transactions_alone_and_never_longer_than_it_was(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a", lease_ttl=60)

        async def limit() -> int:
            show = "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
            found = await user.fetchval(show)
            assert isinstance(found, int)
            return found

        async with user.transaction():
            assert await backend.fence(user, name, holder="a", token=token)
            assert 0 < await limit() <= 60_000
        assert await limit() == 0
        await user.execute("SET idle_in_transaction_session_timeout = 9000")
        async with user.transaction():
            assert await backend.fence(user, name, holder="a", token=token)
            assert await limit() == 9000

    async def test_a_transaction_of_before_a_takeover_does_not_commit(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        token = await granted(backend, name, "a")
        async with user.transaction():
            await user.fetchval("SELECT 1")
            await backend.force(name, token=token, by="eve", now=True, timeout=LONG)
            await granted(backend, name, "b")
            assert not await backend.fence(user, name, holder="a", token=token)

    async def test_without_a_transaction_it_is_an_error_that_says_what_to_write(
        self, proxy: PlainProxy, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(through(proxy))
        with pytest.raises(Misuse, match="transaction"):
            await backend.fence(user, name, holder="a", token=1)
        with pytest.raises(Misuse, match="asyncpg, psycopg or SQLAlchemy"):
            await backend.fence(object(), name, holder="a", token=1)


async def one_waits(looking: asyncpg.Connection) -> bool:
    return await waiting_for_a_lock(looking) == 1


async def two_wait(looking: asyncpg.Connection) -> bool:
    return await waiting_for_a_lock(looking) == 2


class TestSchema:
    async def test_many_may_create_it_at_once_and_again(self, postgres_url: str, opened: Open) -> None:
        schema = "made_at_once"
        backends = [opened(postgres_url, schema=schema) for _ in range(6)]
        await asyncio.gather(*[backend.create_schema() for backend in backends])
        await granted(backends[0], "n", "a")
        await backends[1].create_schema()
        assert isinstance(await backends[1].acquire(ask("n", "b"), timeout=LONG), LeaseHeld)

    async def test_tables_that_are_missing_are_named_with_what_to_do(
        self, postgres_url: str, opened: Open
    ) -> None:
        backend = opened(postgres_url, schema="never_made")
        with pytest.raises(StoreRefused, match="create_schema"):
            await backend.acquire(ask("n", "a"), timeout=LONG)

    async def test_a_schema_that_is_no_plain_name_and_a_url_of_something_else_are_told_at_once(self) -> None:
        with pytest.raises(Misuse, match="schema="):
            PostgresBackend.from_url("postgresql://localhost", schema='x"; DROP')
        with pytest.raises(UrlError, match="postgresql://"):
            PostgresBackend.from_url("mysql://localhost")

    async def test_rows_that_nobody_uses_are_pruned_and_others_are_not(
        self,
        postgres_url: str,
        opened: Open,
        user: asyncpg.Connection,
        name: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # Not by chance, before they are old.
        monkeypatch.setattr(forgetting, "EACH", 1e9)
        backend = opened(postgres_url)
        await backend.create_schema()
        for title in ("old", "held", "waited", "young"):
            await granted(backend, f"{name}:{title}", "a")
        await backend.acquire(ask(f"{name}:waited", "b", place=60), timeout=LONG)
        for title in ("old", "waited", "young"):
            await backend.release(f"{name}:{title}", holder="a", token=0, at_least_for=0, timeout=LONG)
        await user.execute(
            "UPDATE stampede_guard.leases SET renewed_at = renewed_at - interval '1 day' WHERE name <> $1",
            f"{name}:young",
        )
        assert await backend.prune(f"{name}:", older_than=3600, most=0, timeout=LONG) == 0
        assert await backend.prune(f"{name}:", older_than=2 * 86_400, timeout=LONG) == 0
        assert await backend.prune(f"{name}:", older_than=3600, timeout=LONG) == 1
        titles = [view.name for view in await backend.views(f"{name}:", limit=9, timeout=LONG)]
        assert titles == [f"{name}:held", f"{name}:waited", f"{name}:young"]

    async def test_of_what_operators_did_the_last_thousand_are_kept(
        self, postgres_url: str, opened: Open, user: asyncpg.Connection, name: str
    ) -> None:
        backend = opened(postgres_url)
        await backend.create_schema()
        await user.execute(
            """INSERT INTO stampede_guard.lease_audits (name, token, by_whom, at, overrode, owner)
            SELECT $1, 1, number, now(), false, '{}' FROM generate_series(1, $2::int) AS numbers (number)""",
            f"{name}:old",
            KEPT_AUDITS + 5,
        )
        token = await granted(backend, name, "a")
        await backend.force(name, token=token, by="eve", now=True, timeout=LONG)
        audits = await backend.audits(name, limit=2 * KEPT_AUDITS, timeout=LONG)
        assert len(audits) == KEPT_AUDITS == 1_000
        assert [audits[0].by, audits[1].by, audits[-1].by] == ["eve", f"{KEPT_AUDITS + 5}", "7"]


class TestListening:
    async def test_it_is_begun_again_when_its_connection_is_lost(
        self, proxy: PlainProxy, opened: Open, postgres_url: str, name: str
    ) -> None:
        backend, other = opened(through(proxy)), opened(postgres_url)
        heard: list[str] = []
        backend.on_freed(heard.append)
        assert backend.ear is not None
        await backend.ear.settled()
        for _ in range(3):
            await until(lambda: backend.ear is not None and backend.ear.hearing)
            heard.clear()
            await granted(other, name, "a")
            await other.leave(name, holder="a", timeout=LONG)
            await until(lambda: heard)
            proxy.cut()
            await until(lambda: backend.ear is not None and not backend.ear.hearing)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class TestRestarts:
    @pytest.mark.parametrize("crash", [False, True])
    async def test_what_was_granted_is_still_held(
        self, own_postgres: PostgresServer, opened: Open, name: str, crash: bool
    ) -> None:
        async with PlainProxy(own_postgres.port) as proxy:
            backend = opened(through(proxy))
            await backend.create_schema()
            tokens = [await granted(backend, f"{name}:{number}", "a") for number in range(20)]
            # Asynchronous commits are lost in a crash; the grant, which is the last thing that was done, is not one.
            await asyncio.to_thread(own_postgres.restart, crash=crash)
            proxy.target = own_postgres.port
            async with asyncio.timeout(LONG):
                while True:
                    try:
                        await backend.show(name, timeout=LONG)
                        break
                    except StoreUnavailable:
                        continue
            for number, token in enumerate(tokens):
                answer = await backend.acquire(ask(f"{name}:{number}", "b"), timeout=LONG)
                assert isinstance(answer, LeaseHeld) and answer.token == token
            renewed = await backend.renew(
                f"{name}:0", holder="a", token=tokens[0], lease_ttl=60, timeout=LONG
            )
            assert renewed == Renewed()

    async def test_a_renewal_that_was_answered_is_not_forgotten_in_a_crash(
        self, own_postgres: PostgresServer, opened: Open, name: str
    ) -> None:
        backend = opened(own_postgres.url)
        await backend.create_schema()
        tokens = [await granted(backend, f"{name}:{number}", "a", lease_ttl=60) for number in range(9)]
        for number, token in enumerate(tokens):
            await backend.renew(f"{name}:{number}", holder="a", token=token, lease_ttl=600, timeout=LONG)
        await asyncio.to_thread(own_postgres.restart, crash=True)
        backend = opened(own_postgres.url)
        for number in range(9):
            answer = await backend.acquire(ask(f"{name}:{number}", "b"), timeout=LONG)
            # The holder believes for as long.
            assert isinstance(answer, LeaseHeld) and answer.remaining > 500, number

    # What is durable takes along what was not, if it comes before it.
    @pytest.mark.parametrize("last", ["release", "force"])
    async def test_what_rests_and_who_was_asked_to_leave_is_not_forgotten_in_a_crash(
        self, own_postgres: PostgresServer, opened: Open, name: str, last: str
    ) -> None:
        backend = opened(own_postgres.url)
        await backend.create_schema()
        token = await granted(backend, f"{name}:asked", "a")

        async def asked() -> None:
            await backend.force(f"{name}:asked", token=token, by="eve", now=False, timeout=LONG)

        given_back = [await granted(backend, f"{name}:{number}", "a") for number in range(9)]
        if last == "release":
            await asked()
        for number, each in enumerate(given_back):
            assert await backend.release(
                f"{name}:{number}", holder="a", token=each, at_least_for=600, timeout=LONG
            )
        if last == "force":
            await asked()
        await asyncio.to_thread(own_postgres.restart, crash=True)
        backend = opened(own_postgres.url)
        for number in range(9):
            answer = await backend.acquire(ask(f"{name}:{number}", "b"), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.resting, number
        view = await backend.show(f"{name}:asked", timeout=LONG)
        assert view is not None and view.asked_to_leave == "eve"
        assert [audit.by for audit in await backend.audits(name, limit=9, timeout=LONG)] == ["eve"]

    async def test_nobody_there_is_told_as_such(self, opened: Open, name: str) -> None:
        backend = opened(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await backend.acquire(ask(name, "a"), timeout=LONG)


async def test_what_the_users_own_connect_raises_is_a_database_that_is_away() -> None:
    async def connect() -> Any:
        raise LookupError("secret")

    backend = PostgresBackend(connect, listen=False)
    with pytest.raises(StoreUnavailable, match="LookupError") as raised:
        await backend.acquire(ask("shop:lease", "a"), timeout=5)
    assert "secret" not in str(raised.value)
    await backend.aclose()
