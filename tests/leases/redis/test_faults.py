"""What networks, restarts and failovers do to leases in Redis, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import Misuse, StoreRefused, StoreUnavailable, UrlError
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRefused, Renewed, Withheld
from stampede_guard.leases.redis.backend import KEPT_AUDITS, RedisBackend
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG, RedisWorld, ask, granted
from tests.support.proxy import FaultProxy

SHORT = 0.3
NAME = "shop:import"
QUICK = {"repl-diskless-sync-delay": "0"}
Open = Callable[..., RedisBackend]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Back ends that are closed at the end, at a URL."""
    made: list[RedisBackend] = []

    def open_one(url: str, *, deadline: float = LONG, **settings: object) -> RedisBackend:
        store = RedisStore.from_url(url, deadline=deadline)
        made.append(RedisBackend(store, namespace="shop", **settings))  # type: ignore[arg-type]
        return made[-1]

    yield open_one
    for backend in made:
        await backend.aclose()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


@pytest.fixture
async def proxy(server: ValkeyServer) -> AsyncIterator[FaultProxy]:
    with server.client() as client:
        client.flushall()
    async with FaultProxy(server.port) as listening:
        yield listening


class TestNetwork:
    async def test_what_is_not_answered_is_given_up_in_time_and_asked_anew_on_another_connection(
        self, proxy: FaultProxy, opened: Open
    ) -> None:
        backend = opened(proxy.url, deadline=SHORT, restart="trust")
        token = await granted(backend, NAME, "a")
        proxy.black_hole()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=SHORT)
        with pytest.raises(StoreUnavailable):
            await backend.check(NAME, holder="a", token=token, timeout=SHORT)
        proxy.heal()
        async with asyncio.timeout(LONG):
            while True:
                try:
                    answer = await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=SHORT)
                    break
                except StoreUnavailable:
                    continue
        assert answer == Renewed()

    async def test_a_lost_answer_is_asked_for_again_and_is_the_same(
        self, proxy: FaultProxy, opened: Open
    ) -> None:
        backend = opened(proxy.url, restart="trust")
        await granted(backend, "shop:warm", "a")
        proxy.lose_replies(b"EVALSHA")
        with pytest.raises(StoreUnavailable):
            await backend.acquire(ask(NAME, "a"), timeout=LONG)
        assert isinstance(await backend.acquire(ask(NAME, "b"), timeout=LONG), LeaseHeld)
        token = await granted(backend, NAME, "a")
        assert await backend.check(NAME, holder="a", token=token, timeout=LONG)

    async def test_who_never_heard_that_it_was_granted_gives_it_back_all_the_same(
        self, proxy: FaultProxy, opened: Open
    ) -> None:
        backend = opened(proxy.url, restart="trust")
        await granted(backend, "shop:warm", "a")
        proxy.lose_replies(b"EVALSHA")
        with pytest.raises(StoreUnavailable):
            await backend.acquire(ask(NAME, "a"), timeout=LONG)
        assert await backend.release(NAME, holder="a", token=0, at_least_for=0, timeout=LONG)
        await granted(backend, NAME, "b")

    async def test_a_reset_fails_what_was_asked_and_nothing_else(
        self, proxy: FaultProxy, opened: Open
    ) -> None:
        backend = opened(proxy.url, restart="trust")
        token = await granted(backend, NAME, "a")
        proxy.black_hole()
        asked = asyncio.ensure_future(backend.check(NAME, holder="a", token=token, timeout=LONG))
        await asyncio.sleep(0)
        proxy.cut()
        proxy.heal()
        await asyncio.gather(asked, return_exceptions=True)
        assert await backend.check(NAME, holder="a", token=token, timeout=LONG)

    async def test_a_renewal_does_not_wait_behind_anything_else(
        self, proxy: FaultProxy, opened: Open
    ) -> None:
        backend = opened(proxy.url, restart="trust")
        token = await granted(backend, NAME, "a")
        await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=LONG)
        commands = {link: len(link.commands) for link in proxy.links}
        await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=LONG)
        (used,) = [link for link in proxy.links if len(link.commands) > commands.get(link, 0)]
        commands = {link: len(link.commands) for link in proxy.links}
        await backend.check(NAME, holder="a", token=token, timeout=LONG)
        assert len(used.commands) == commands[used]

    async def test_what_is_asked_after_closing_is_not_sent(self, proxy: FaultProxy, opened: Open) -> None:
        backend = opened(proxy.url)
        await backend.aclose()
        with pytest.raises(StoreUnavailable):
            await backend.acquire(ask(NAME, "a"), timeout=LONG)
        assert proxy.accepted == 0


async def grown_old(server: ValkeyServer, seconds: float) -> None:
    """As if the server's life had begun, as far as leases know, so much earlier."""
    async with redis.asyncio.Redis.from_url(server.url) as client:
        since = int(await client.hget("{shop.leases}:life", "since"))  # type: ignore[misc]
        await client.hset("{shop.leases}:life", "since", str(since - round(seconds * 1_000_000)))  # type: ignore[misc]


async def failed_over(master: Any, replica: Any, replicas_port: int, masters_port: int) -> None:
    """In good order: the replica has everything, and then the master is its replica."""
    replica.replicaof("127.0.0.1", masters_port)
    await in_step(replica, master)
    replica.replicaof("NO", "ONE")
    master.replicaof("127.0.0.1", replicas_port)
    await in_step(master, replica)


async def in_step(replica: Any, master: Any) -> None:
    async with asyncio.timeout(LONG):
        while replica.role()[0] != b"slave" or replica.role()[3] != b"connected":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert master.wait(1, 10_000) == 1


class TestRestarts:
    async def test_a_server_without_its_data_grants_nothing_while_an_old_holder_may_believe(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url)
        assert isinstance(await backend.acquire(ask(NAME, "a"), timeout=LONG), Withheld)
        await grown_old(own_valkey, 60)
        first = await granted(backend, NAME, "a", lease_ttl=60)
        await asyncio.to_thread(own_valkey.restart, keep_data=False)
        backend = opened(own_valkey.url)
        answer = await backend.acquire(ask(NAME, "b", lease_ttl=60), timeout=LONG)
        assert isinstance(answer, Withheld) and 0 < answer.remaining <= 60
        renewed = await backend.renew(NAME, holder="a", token=first, lease_ttl=60, timeout=LONG)
        assert renewed == LeaseRefused("gone"), "the old holder hears that it is over"
        await grown_old(own_valkey, 59 - 20)
        assert isinstance(await backend.acquire(ask(NAME, "b", lease_ttl=60), timeout=LONG), Withheld)
        await grown_old(own_valkey, 21)
        second = await granted(backend, NAME, "b", lease_ttl=60)
        assert second > first

    async def test_tokens_grow_across_restarts_without_data(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        tokens = []
        for number in range(3):
            backend = opened(own_valkey.url, restart="trust")
            tokens.append(await granted(backend, NAME, str(number)))
            await asyncio.to_thread(own_valkey.restart, keep_data=False)
        assert tokens == sorted(set(tokens))

    async def test_an_older_snapshot_is_not_believed(self, own_valkey: ValkeyServer, opened: Open) -> None:
        backend = opened(own_valkey.url, restart="trust")
        token = await granted(backend, NAME, "a", lease_ttl=60)
        await backend.release(NAME, holder="a", token=token, at_least_for=0, timeout=LONG)
        with own_valkey.client() as client:
            client.save()
        token = await granted(backend, NAME, "b", lease_ttl=60)
        await asyncio.to_thread(own_valkey.kill)
        await asyncio.to_thread(own_valkey.start)
        with own_valkey.client() as client:
            assert client.exists("{shop.leases}:rows"), "the snapshot was loaded"
        backend = opened(own_valkey.url)
        answer = await backend.acquire(ask(NAME, "c", lease_ttl=60), timeout=LONG)
        assert isinstance(answer, Withheld), "b may still believe"

    async def test_with_its_data_the_holder_goes_on_and_hands_over_without_a_wait(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        token = await granted(backend, NAME, "a", lease_ttl=60)
        await asyncio.to_thread(own_valkey.restart, keep_data=True)
        backend = opened(own_valkey.url)
        assert isinstance(await backend.acquire(ask(NAME, "b"), timeout=LONG), LeaseHeld)
        assert await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=LONG) == Renewed()
        await backend.release(NAME, holder="a", token=token, at_least_for=0, timeout=LONG)
        assert await granted(backend, NAME, "b") > token

    async def test_a_promoted_replica_that_lacks_the_last_writes_grants_nothing_at_first(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        with ValkeyServer() as replica:
            backend = opened(own_valkey.url, restart="trust")
            token = await granted(backend, NAME, "a", lease_ttl=60)
            await backend.release(NAME, holder="a", token=token, at_least_for=0, timeout=LONG)
            with replica.client() as client, own_valkey.client() as master:
                client.replicaof("127.0.0.1", own_valkey.port)
                async with asyncio.timeout(LONG):
                    while not client.exists("{shop.leases}:rows") or client.role()[3] != b"connected":  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                assert master.wait(1, 10_000) == 1
                client.replicaof("NO", "ONE")
            await granted(backend, NAME, "b", lease_ttl=1)
            promoted = opened(replica.url)
            with replica.client() as client:
                async with asyncio.timeout(LONG):
                    # A replica has been there for long; it is the data that are of another server.
                    while client.info("server")["uptime_in_seconds"] < 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            answer = await promoted.acquire(ask(NAME, "c", lease_ttl=1), timeout=LONG)
            assert isinstance(answer, Withheld), "b may still believe"
            await grown_old(replica, 1)
            await granted(promoted, NAME, "c", lease_ttl=1)

    async def test_a_clock_that_was_set_back_makes_nobody_wait_longer_than_a_lease(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url)
        await backend.acquire(ask(NAME, "a", lease_ttl=60), timeout=LONG)
        await grown_old(own_valkey, -3_600)
        answer = await backend.acquire(ask(NAME, "a", lease_ttl=60), timeout=LONG)
        assert isinstance(answer, Withheld) and 50 < answer.remaining <= 60
        await grown_old(own_valkey, 60)
        await granted(backend, NAME, "a", lease_ttl=60)

    @pytest.mark.parametrize("lost", ["the last grant", "all of its writes"])
    async def test_a_master_that_was_one_before_and_lacks_the_last_writes_grants_nothing_at_first(
        self, own_valkey: ValkeyServer, opened: Open, lost: str
    ) -> None:
        with ValkeyServer(QUICK) as second, second.client() as there, own_valkey.client() as here:
            backend = opened(own_valkey.url)
            await backend.acquire(ask(NAME, "a", lease_ttl=60), timeout=LONG)
            await grown_old(own_valkey, 60)
            token = await granted(backend, NAME, "a", lease_ttl=60)
            await backend.release(NAME, holder="a", token=token, at_least_for=0, timeout=LONG)
            await failed_over(here, there, second.port, own_valkey.port)
            if lost == "the last grant":
                await opened(second.url).acquire(ask("shop:other", "b", lease_ttl=60), timeout=LONG)
                await grown_old(second, 60)
            assert there.wait(1, 10_000) == 1
            # The second has gone, and what it wrote then has not come over.
            here.replicaof("NO", "ONE")
            await granted(opened(second.url, restart="trust"), NAME, "b", lease_ttl=60)
            answer = await opened(own_valkey.url).acquire(ask(NAME, "c", lease_ttl=60), timeout=LONG)
            assert isinstance(answer, Withheld), "b may still believe"

    async def test_different_ttls_for_one_name_are_covered_where_the_longest_is_told(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, longest_lease=600)
        answer = await backend.acquire(ask(NAME, "a", lease_ttl=1), timeout=LONG)
        assert isinstance(answer, Withheld) and answer.remaining > 500


async def flushed(server: ValkeyServer, *, uptime: int = 2) -> None:
    """All data are deleted, in a server that has been there for longer than the leases of these tests last."""
    with server.client() as client:
        async with asyncio.timeout(LONG):
            while client.info("server")["uptime_in_seconds"] < uptime:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        client.flushall()


class TestDeletedData:
    async def test_who_has_asked_before_is_granted_nothing_while_the_holder_may_believe(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        holder, other = opened(own_valkey.url, restart="trust"), opened(own_valkey.url)
        token = await granted(holder, NAME, "a", lease_ttl=1)
        assert isinstance(await other.acquire(ask(NAME, "b", lease_ttl=1), timeout=LONG), LeaseHeld)
        await flushed(own_valkey)
        answer = await other.acquire(ask(NAME, "b", lease_ttl=1), timeout=LONG)
        assert isinstance(answer, Withheld) and 0 < answer.remaining <= 1
        # So is everybody else from now on, and the holder hears that it is over.
        fresh = await opened(own_valkey.url).acquire(ask(NAME, "c", lease_ttl=1), timeout=LONG)
        assert isinstance(fresh, Withheld)
        renewed = await holder.renew(NAME, holder="a", token=token, lease_ttl=1, timeout=LONG)
        assert renewed == LeaseRefused("gone")
        await grown_old(own_valkey, 1)
        assert await granted(other, NAME, "b", lease_ttl=1) > token

    async def test_from_the_holders_next_renewal_on_nobody_is_granted_anything_at_first(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        holder = opened(own_valkey.url, restart="trust")
        token = await granted(holder, NAME, "a", lease_ttl=1)
        second = await granted(holder, "shop:second", "a", lease_ttl=1)
        await flushed(own_valkey)
        assert await holder.renew(NAME, holder="a", token=token, lease_ttl=1, timeout=LONG) == LeaseRefused(
            "gone"
        )
        with own_valkey.client() as client:
            since = client.hget("{shop.leases}:life", "since")
            # The second one that hears of it does not make the others wait anew.
            await holder.renew("shop:second", holder="a", token=second, lease_ttl=1, timeout=LONG)
            assert client.hget("{shop.leases}:life", "since") == since
        for name in (NAME, "shop:other"):
            answer = await opened(own_valkey.url).acquire(ask(name, "b", lease_ttl=1), timeout=LONG)
            assert isinstance(answer, Withheld), name
        await grown_old(own_valkey, 1)
        assert await granted(opened(own_valkey.url), NAME, "b", lease_ttl=1) > token

    async def test_before_that_a_newcomer_is_granted_what_may_be_believed_in_and_his_token_is_larger(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        """What cannot be seen, as the module says."""
        holder = opened(own_valkey.url, restart="trust")
        token = await granted(holder, NAME, "a", lease_ttl=1)
        await flushed(own_valkey)
        assert await granted(opened(own_valkey.url), NAME, "b", lease_ttl=1) > token
        renewed = await holder.renew(NAME, holder="a", token=token, lease_ttl=1, timeout=LONG)
        assert renewed == LeaseRefused("taken")

    @pytest.mark.parametrize("by_older_version", [False, True])
    async def test_rows_that_are_gone_are_noticed_by_a_process_that_never_asked_before(
        self, own_valkey: ValkeyServer, opened: Open, by_older_version: bool
    ) -> None:
        holder = opened(own_valkey.url, restart="trust")
        token = await granted(holder, NAME, "a", lease_ttl=1)
        with own_valkey.client() as client:
            if by_older_version:
                # It stores no mark. The first renewal of this version does.
                client.hdel("{shop.leases}:life", "rows")
                await holder.renew(NAME, holder="a", token=token, lease_ttl=1, timeout=LONG)
            async with asyncio.timeout(LONG):
                while client.info("server")["uptime_in_seconds"] < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            client.delete("{shop.leases}:rows")
        assert await opened(own_valkey.url).withheld(1, timeout=LONG) is not None
        answer = await opened(own_valkey.url).acquire(ask(NAME, "b", lease_ttl=1), timeout=LONG)
        assert isinstance(answer, Withheld) and 0 < answer.remaining <= 1
        with own_valkey.client() as client:
            since = client.hget("{shop.leases}:life", "since")
            # Later questions do not make the others wait anew.
            for name in (NAME, "shop:other"):
                answer = await opened(own_valkey.url).acquire(ask(name, "b", lease_ttl=1), timeout=LONG)
                assert isinstance(answer, Withheld)
            assert client.hget("{shop.leases}:life", "since") == since
        renewed = await holder.renew(NAME, holder="a", token=token, lease_ttl=1, timeout=LONG)
        assert renewed == LeaseRefused("gone")
        await grown_old(own_valkey, 1)
        assert await granted(opened(own_valkey.url), NAME, "b", lease_ttl=1) > token
        # The rows that are written now are missed in the same way.
        with own_valkey.client() as client:
            client.delete("{shop.leases}:rows")
        answer = await opened(own_valkey.url).acquire(ask(NAME, "c", lease_ttl=1), timeout=LONG)
        assert isinstance(answer, Withheld)

    async def test_rows_that_were_never_written_are_no_sign_of_a_loss(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url)
        assert isinstance(await backend.acquire(ask(NAME, "a", lease_ttl=60), timeout=LONG), Withheld)
        await grown_old(own_valkey, 60)
        await granted(backend, NAME, "a", lease_ttl=60)

    async def test_a_lease_that_was_given_back_or_lapsed_is_no_sign_of_a_loss(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        tokens = [await granted(backend, NAME, "a")]
        await backend.release(NAME, holder="a", token=tokens[0], at_least_for=0, timeout=LONG)
        await grown_old(own_valkey, 600)
        for token in (tokens[0], 0):
            renewed = await backend.renew(NAME, holder="a", token=token, lease_ttl=60, timeout=LONG)
            assert renewed == LeaseRefused("gone")
        await granted(opened(own_valkey.url), "shop:new", "b", lease_ttl=60)


class TestSettings:
    async def test_a_server_that_may_evict_leases_is_refused(
        self, own_valkey: ValkeyServer, opened: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        with own_valkey.client() as client:
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreRefused, match=r"allkeys-lru.*noeviction"):
            await opened(own_valkey.url, restart="trust").acquire(ask(NAME, "a"), timeout=LONG)
        await granted(opened(own_valkey.url, restart="trust", eviction="warn"), NAME, "a")
        assert "allkeys-lru" in caplog.text

    @pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
    async def test_what_evicts_only_what_has_a_ttl_cannot_evict_a_lease(
        self, own_valkey: ValkeyServer, opened: Open, policy: str
    ) -> None:
        with own_valkey.client() as client:
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", policy)
            await granted(opened(own_valkey.url, restart="trust"), NAME, "a")
            assert {client.ttl(key) for key in client.keys("*")} == {-1}

    async def test_bad_settings_are_told_at_once(self) -> None:
        with pytest.raises(Misuse, match="eviction"):
            RedisBackend.from_url("redis://localhost", namespace="shop", eviction="ignore")
        with pytest.raises(Misuse, match="restart"):
            RedisBackend.from_url("redis://localhost", namespace="shop", restart="yes")
        with pytest.raises(Misuse, match="MemoryLeases"):
            RedisBackend.from_url("memory://", namespace="shop")
        with pytest.raises(UrlError):
            RedisBackend.from_url("postgresql://localhost", namespace="shop")

    async def test_everything_of_a_namespace_is_in_one_slot(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        for number in range(20):
            token = await granted(backend, f"shop:{number}", "a")
            await backend.force(f"shop:{number}", token=token, by="eve", now=True, timeout=LONG)
        with own_valkey.client() as client:
            assert {key.partition(b"}")[0] for key in client.keys("*")} == {b"{shop.leases"}


class TestForgetting:
    async def test_a_name_is_kept_for_a_day_longer_than_anything_about_it_lasts(
        self, valkey_url: str, namespace: str
    ) -> None:
        day, outside = 86_400.0, redis.asyncio.Redis.from_url(valkey_url)
        world = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)

        async def kept(name: str) -> float:
            score = await outside.zscore(f"{{{namespace}.leases}}:old", name)
            seconds, microseconds = await outside.time()
            return float(score) / 1e6 - seconds - microseconds / 1e6

        try:
            backend = world.open()
            token = await granted(backend, "n", "a", lease_ttl=3 * day)
            assert 3.9 * day < await kept("n") <= 4 * day
            await backend.acquire(ask("n", "b", lease_ttl=1, place=5 * day), timeout=LONG)
            assert 5.9 * day < await kept("n") <= 6 * day
            await backend.leave("n", holder="b", timeout=LONG)
            await backend.release("n", holder="a", token=token, at_least_for=9 * day, timeout=LONG)
            assert 9.9 * day < await kept("n") <= 10 * day
            await granted(backend, "short", "a", lease_ttl=1)
            await backend.leave("short", holder="a", timeout=LONG)
            assert 0.9 * day < await kept("short") <= day + 1
        finally:
            await world.aclose()

    async def test_of_what_operators_did_the_last_thousand_are_kept(
        self, valkey_url: str, namespace: str
    ) -> None:
        outside = redis.asyncio.Redis.from_url(valkey_url)
        world, key = (
            RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace),
            f"{{{namespace}.leases}}:audits",
        )
        try:
            backend = world.open()
            for by in ("first", "last"):
                token = await granted(backend, "n", by)
                await backend.force("n", token=token, by=by, now=True, timeout=LONG)
                if by == "first":
                    record = await outside.lindex(key, 0)  # type: ignore[misc]
                    await outside.lpush(key, *[record.replace(b"first", b"other")] * (KEPT_AUDITS - 1))  # type: ignore[misc]
            audits = await backend.audits("", limit=2 * KEPT_AUDITS, timeout=LONG)
            assert len(audits) == KEPT_AUDITS == 1_000
            assert (audits[0].by, audits[-1].by) == ("last", "other")
        finally:
            await world.aclose()

    async def test_names_that_nobody_uses_are_forgotten_and_their_tokens_go_on(
        self, valkey_url: str, namespace: str
    ) -> None:
        outside = redis.asyncio.Redis.from_url(valkey_url)
        world = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
        try:
            backend = world.open()
            last = 0
            for number in range(10):
                last = await granted(backend, f"once:{number}", "a")
                await backend.leave(f"once:{number}", holder="a", timeout=LONG)
            old = f"{{{namespace}.leases}}:old"
            for title, score in await outside.zrange(old, 0, -1, withscores=True):
                await outside.zadd(old, {title: score - 2 * 86_400_000_000})
            await granted(backend, "new:1", "a")
            await granted(backend, "new:2", "a")
            assert await outside.hlen(f"{{{namespace}.leases}}:rows") == 2  # type: ignore[misc]
            forgotten = await outside.hget(f"{{{namespace}.leases}}:life", "forgotten")  # type: ignore[misc]
            assert int(forgotten) == last
            assert isinstance(await backend.acquire(ask("once:1", "a"), timeout=LONG), LeaseGranted)
        finally:
            await world.aclose()


class TestForeignMembers:
    """Another program, or a person, wrote into our keys. That stops nobody for good."""

    @pytest.mark.parametrize("member", ["x", "", "shop:other\0holder", "\0"])
    @pytest.mark.parametrize(("key", "score"), [("until", 1), ("since", 9_999_999_999_999_999), ("old", 1)])
    async def test_what_none_of_ours_wrote_is_dropped(
        self, own_valkey: ValkeyServer, opened: Open, key: str, member: str, score: int
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        await granted(backend, NAME, "a", lease_ttl=60)
        with own_valkey.client() as client:
            client.zadd(f"{{shop.leases}}:{key}", {member: score})
            await granted(backend, "shop:second", "b", lease_ttl=60)
            assert client.zscore(f"{{shop.leases}}:{key}", member) is None
        held = await backend.acquire(ask(NAME, "c", place=60), timeout=LONG)
        assert isinstance(held, LeaseHeld) and held.ahead == 0

    async def test_places_that_are_gone_do_not_fill_the_window_of_those_that_lapse(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        await granted(backend, NAME, "a", lease_ttl=60)
        with own_valkey.client() as client:
            client.zadd("{shop.leases}:until", {f"{NAME}\0{number}": number for number in range(100)})
            for number in range(4):
                await granted(backend, f"shop:{number}", "b", lease_ttl=60)
            assert client.zcard("{shop.leases}:until") == 0

    @pytest.mark.parametrize(
        ("key", "write"),
        [
            ("queue", lambda client, key: client.zadd(key, {f"{NAME}\0zz": 0})),
            ("places", lambda client, key: client.hset(key, f"{NAME}\0c", "x")),
        ],
    )
    async def test_a_place_that_none_of_ours_wrote_is_no_place(
        self, own_valkey: ValkeyServer, opened: Open, key: str, write: Callable[[Any, str], object]
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        token = await granted(backend, NAME, "a", lease_ttl=60)
        with own_valkey.client() as client:
            write(client, f"{{shop.leases}}:{key}")
        held = await backend.acquire(ask(NAME, "c", place=60), timeout=LONG)
        assert isinstance(held, LeaseHeld) and held.ahead == 0
        await backend.release(NAME, holder="a", token=token, at_least_for=0, timeout=LONG)
        await granted(backend, NAME, "c")

    async def test_a_damaged_row_stops_its_own_name_only(
        self, own_valkey: ValkeyServer, opened: Open
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        await granted(backend, NAME, "a", lease_ttl=60)
        with own_valkey.client() as client:
            client.hset("{shop.leases}:rows", NAME, "x")
            client.zadd("{shop.leases}:old", {NAME: 1})
        await granted(backend, "shop:second", "b", lease_ttl=60)
        with pytest.raises(StoreRefused):
            await backend.acquire(ask(NAME, "b"), timeout=LONG)

    @pytest.mark.parametrize("row", ["x", "5", "{}", "[]", "null", '{"holder": "z", "token": "7"}'])
    async def test_a_row_that_none_of_ours_wrote_is_an_error_that_says_so_and_hides_no_other_lease(
        self, own_valkey: ValkeyServer, opened: Open, row: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        await granted(backend, "shop:second", "b", lease_ttl=60)
        with own_valkey.client() as client:
            client.hset("{shop.leases}:rows", NAME, row)
        for step in (
            backend.acquire(ask(NAME, "a"), timeout=LONG),
            backend.renew(NAME, holder="a", token=1, lease_ttl=60, timeout=LONG),
            backend.check(NAME, holder="a", token=1, timeout=LONG),
            backend.show(NAME, timeout=LONG),
        ):
            with pytest.raises(StoreRefused, match=r"\{shop\.leases\}:\*.*another namespace"):
                await step
        assert [view.name for view in await backend.views("", limit=9, timeout=LONG)] == ["shop:second"]
        assert caplog.text.count(f"lease {NAME} is not listed") == 1

    @pytest.mark.parametrize("key", ["rows", "life", "queue", "places", "until", "since"])
    async def test_a_key_of_another_type_is_an_error_that_says_so_and_no_grant(
        self, own_valkey: ValkeyServer, opened: Open, key: str
    ) -> None:
        backend = opened(own_valkey.url, restart="trust")
        with own_valkey.client() as client:
            client.set(f"{{shop.leases}}:{key}", "theirs")
        for _ in range(2):
            with pytest.raises(StoreRefused, match=r"\{shop\.leases\}:\*.*another namespace.*WRONGTYPE"):
                await backend.acquire(ask(NAME, "a"), timeout=LONG)
        with own_valkey.client() as client:
            assert client.get(f"{{shop.leases}}:{key}") in (b"theirs", "theirs")
            client.delete(f"{{shop.leases}}:{key}")
        await granted(backend, NAME, "b", lease_ttl=60)
