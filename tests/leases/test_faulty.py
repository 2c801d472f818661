"""What a body is told, and when, while the network or the server under its lease is struck. On real servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis.asyncio

from bench.herd.postgres import PostgresServer
from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import LeaseLost, LeaseTaken, StoreUnavailable
from stampede_guard.leases import Lease, LeaseView, PlainLease, PostgresLeases, RedisLeases
from tests.support.gate import until
from tests.support.plainproxy import PlainProxy

PATIENCE = 60.0
BRIEF: dict[str, Any] = {"lease_ttl": 6.0, "grace": 2.0, "renew_every": 1.0, "request_timeout": 0.8}
"""Two seconds between the word to the body and the end of belief: what a busy machine may take of them."""


@dataclass
class Scene:
    """One server of this test alone, leases that reach it through a proxy, and others that reach it directly."""

    server: PostgresServer | ValkeyServer
    proxy: PlainProxy
    namespace: str
    made: list[PostgresLeases | RedisLeases] = field(default_factory=list)

    def leases(self, *, direct: bool = False, trusting: bool = True) -> PostgresLeases | RedisLeases:
        port = self.server.port if direct else self.proxy.port
        leases: PostgresLeases | RedisLeases
        if isinstance(self.server, PostgresServer):
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            leases = PostgresLeases.from_url(url, namespace=self.namespace)
        else:
            leases = RedisLeases.from_url(
                f"redis://127.0.0.1:{port}/0",
                namespace=self.namespace,
                restart="trust" if trusting else "withhold",
            )
        self.made.append(leases)
        return leases

    async def restart(self, *, crash: bool) -> None:
        """With what it had written."""
        if isinstance(self.server, PostgresServer):
            await asyncio.to_thread(self.server.restart, crash=crash)
            self.proxy.target = self.server.port
        else:
            await asyncio.to_thread(self.server.restart, keep_data=True)


@pytest.fixture(params=["postgres", "valkey"])
async def scene(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Scene]:
    with contextlib.ExitStack() as stack:
        server: PostgresServer | ValkeyServer
        server = stack.enter_context(PostgresServer() if request.param == "postgres" else ValkeyServer())
        async with PlainProxy(server.port) as proxy:
            made = Scene(server, proxy, namespace)
            leases = made.leases(direct=True)
            if isinstance(leases, PostgresLeases):
                await leases.create_schema()
            try:
                yield made
            finally:
                proxy.heal()
                for leases in made.made:
                    await leases.aclose()


async def shown(leases: PostgresLeases | RedisLeases, name: str = "n") -> LeaseView:
    view = await leases.show(name)
    assert view is not None
    return view


async def renewed_after(leases: PostgresLeases | RedisLeases, moment: float) -> LeaseView:
    """The lease, once it has been renewed after this moment of the server's clock."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(StoreUnavailable):
                view = await shown(leases)
                if view.renewed_at > moment:
                    return view
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("fault", ["black_hole", "deaf"])
async def test_a_body_is_told_before_belief_ends_and_belief_ends_before_the_lease(
    scene: Scene, fault: str
) -> None:
    """Nothing comes back of what is sent, so only the clock can tell."""
    holder, looking = scene.leases(), scene.leases(direct=True)
    await looking.views()
    told_in_time = still_held = False
    with pytest.raises(LeaseLost, match="could not be renewed in time"):
        async with asyncio.timeout(PATIENCE), holder.hold("n", **BRIEF) as lease:
            await renewed_after(looking, (await shown(looking)).renewed_at)
            getattr(scene.proxy, fault)()
            # What is sent through a deaf network arrives: from here on the lease is prolonged, and belief is not.
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told_in_time = lease.remaining() > 0
                still_held = (await shown(looking)).held
                why = await lease.lost
                assert lease.remaining() == 0 and "renewed" in why
                scene.proxy.heal()
                raise
    assert told_in_time and still_held


async def test_plain_code_sees_the_flag_before_belief_ends(scene: Scene) -> None:
    holder = scene.leases()
    entered, faulty = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    seen: list[tuple[bool, bool, str]] = []

    def body(lease: PlainLease) -> None:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(faulty.wait(), loop).result(PATIENCE)
        told = lease.stopping.wait(PATIENCE)
        seen.append((told, lease.remaining() > 0, lease.stopping.why))

    def hold() -> None:
        with holder.hold("n", **BRIEF) as lease:
            body(lease)

    async with asyncio.timeout(PATIENCE):
        plain = asyncio.create_task(asyncio.to_thread(hold))
        await entered.wait()
        scene.proxy.black_hole()
        faulty.set()
        await until(lambda: seen)
        scene.proxy.heal()
        with contextlib.suppress(LeaseLost):
            await plain
    assert seen == [(True, True, "it could not be renewed in time")]


async def test_a_leader_that_hears_nothing_any_more_stops_before_another_one_leads(scene: Scene) -> None:
    ended: list[tuple[str, bool]] = []

    async def lead(lease: Lease) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(("first", second.is_leader))

    first = scene.leases().election("e", on_elected=lead, **BRIEF)
    second = scene.leases(direct=True).election("e", **BRIEF)
    async with asyncio.timeout(PATIENCE), first:
        await first.wait_elected()
        async with second:
            scene.proxy.black_hole()
            lease = await second.wait_elected()
            assert lease.remaining() > 0 and not first.is_leader
            assert ended == [("first", False)]
            scene.proxy.heal()


async def test_connections_that_have_died_silently_cost_one_time_out_and_not_the_lease(scene: Scene) -> None:
    holder, looking = scene.leases(), scene.leases(direct=True)
    async with asyncio.timeout(PATIENCE), holder.hold("n", **BRIEF) as lease:
        before = await renewed_after(looking, (await shown(looking)).renewed_at)
        assert scene.proxy.half_open() > 0
        # Two of them: the one that was under way may have come before.
        between = await renewed_after(looking, before.renewed_at)
        after = await renewed_after(looking, between.renewed_at)
        assert after.token == lease.token and after.held and not lease.stopping


@pytest.mark.parametrize("crash", [False, True])
async def test_a_server_that_is_restarted_with_its_data_costs_no_lease(scene: Scene, crash: bool) -> None:
    holder = scene.leases()
    async with asyncio.timeout(PATIENCE):
        async with holder.hold("n", 30, renew_every=0.5, request_timeout=1, grace=1) as lease:
            before = await shown(holder)
            await scene.restart(crash=crash)
            after = await renewed_after(holder, before.renewed_at)
            assert (after.token, after.held) == (lease.token, True) and not lease.stopping
            with pytest.raises(LeaseTaken):
                async with scene.leases(direct=True).hold("n", wait=0):
                    raise AssertionError
        async with scene.leases(direct=True).hold("n", wait=PATIENCE) as next_one:
            assert next_one.token > lease.token


class TestLossOfAllData:
    """Redis without persistence, and an operator's FLUSHALL."""

    @pytest.fixture
    async def redis_scene(self, own_valkey: ValkeyServer, namespace: str) -> AsyncIterator[Scene]:
        async with PlainProxy(own_valkey.port) as proxy:
            made = Scene(own_valkey, proxy, namespace)
            yield made
            for leases in made.made:
                await leases.aclose()

    async def test_after_a_restart_the_body_is_told_and_nobody_gets_it_while_it_may_believe(
        self, redis_scene: Scene, own_valkey: ValkeyServer
    ) -> None:
        holder = redis_scene.leases()
        with pytest.raises(LeaseLost, match="the back end no longer has it"):
            async with (
                asyncio.timeout(PATIENCE),
                holder.hold("n", 60, renew_every=0.5, request_timeout=0.4) as lease,
            ):
                await asyncio.to_thread(own_valkey.restart, keep_data=False)
                with pytest.raises(StoreUnavailable, match="may have forgotten"):
                    async with redis_scene.leases(trusting=False).hold("n", 60, wait=0):
                        raise AssertionError
                await asyncio.Event().wait()
        async with redis_scene.leases().hold("n") as after:
            assert after.token > lease.token

    async def test_after_a_flush_the_body_is_told_at_its_next_renewal_and_tokens_go_on(
        self, redis_scene: Scene, own_valkey: ValkeyServer
    ) -> None:
        holder, other = redis_scene.leases(), redis_scene.leases()
        told = asyncio.Event()
        with pytest.raises(LeaseLost, match=r"another process has it|the back end no longer has it"):
            async with (
                asyncio.timeout(PATIENCE),
                holder.hold("n", 60, renew_every=0.5, request_timeout=0.4) as lease,
            ):
                async with redis.asyncio.Redis.from_url(own_valkey.url) as client:
                    await client.flushall()
                # A promise that cannot be kept: see "Not kept" of the back end. Its token is what tells them apart.
                async with other.hold("n", wait=0) as after:
                    assert after.token > lease.token
                    try:
                        await asyncio.Event().wait()
                    finally:
                        told.set()
        assert told.is_set()
