"""No script on Redis does more than a bounded number of commands, whatever it finds; the rest is for the next one."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.redis.backend import RedisRuns
from stampede_guard.jobs.messages import Claim, Claimed, JobPoll, PollAnswer, Registration
from stampede_guard.leases.messages import LeaseGranted
from stampede_guard.leases.redis.backend import RedisBackend
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG, MemoryWorld, PostgresWorld, RedisWorld, World, ask, granted, owner

MOST = 700
"""Commands in one script: about three milliseconds of a server."""
NAME = "shop:lease"
TAG = "{shop.leases}"


class Server:
    """A server of this test alone, whose commands are counted."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self.client = client
        self.world = RedisWorld(RedisStore(client, deadline=LONG), client, "shop")
        self.backend: RedisBackend = self.world.open()

    async def counted(self) -> tuple[int, int]:
        """Scripts so far, and all commands within them."""
        stats = await self.client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
        scripts = calls.get("evalsha", 0) + calls.get("eval", 0)
        return scripts, sum(calls.values()) - scripts

    async def crowd(self, count: int, *, lapsed: bool = False) -> None:
        """They wait for what `a` has; or did, if it has lapsed with their places."""
        await granted(self.backend, NAME, "a")
        await self.world.crowd(NAME, count)
        if lapsed:
            await self.world.age(NAME, 1_000)


@pytest.fixture
async def server(own_valkey: ValkeyServer) -> AsyncIterator[Server]:
    made = Server(redis.asyncio.Redis.from_url(own_valkey.url))
    yield made
    await made.world.aclose()


async def before_all(server: Server, holder: str, position: int) -> None:
    """As if it had come earlier."""
    place = f"{NAME}\0{holder}"
    stored = await server.client.hget(f"{TAG}:places", place)
    old, rest = stored.split(b" ", 1)
    await server.client.hset(f"{TAG}:places", place, b"%d %b" % (position, rest))
    await server.client.zrem(f"{TAG}:queue", f"{NAME}\0{old.decode()}{holder}")
    await server.client.zadd(f"{TAG}:queue", {f"{NAME}\0{position}{holder}": 0})


async def steps_were_small(server: Server, before: tuple[int, int]) -> int:
    scripts, commands = await server.counted()
    steps = scripts - before[0]
    assert commands - before[1] <= steps * MOST, (steps, commands - before[1])
    return steps


class TestWhoWaits:
    async def test_a_free_lease_is_granted_though_a_crowd_of_dead_ones_stands_before(
        self, server: Server
    ) -> None:
        await server.crowd(600, lapsed=True)
        before = await server.counted()
        answer = await server.backend.acquire(ask(NAME, "b", place=30), timeout=LONG)
        assert isinstance(answer, LeaseGranted)
        assert await steps_were_small(server, before) > 5

    async def test_a_release_calls_the_first_that_lives(self, server: Server) -> None:
        await server.crowd(200, lapsed=True)
        await granted(server.backend, NAME, "b")
        await server.backend.acquire(ask(NAME, "alive", place=30), timeout=LONG)
        # Dead ones before it, of whom nobody has taken notice yet.
        await server.world.crowd(NAME, 200)
        await server.world.age(NAME, 620)
        await server.backend.acquire(ask(NAME, "alive", place=30), timeout=LONG)
        before = await server.counted()
        await server.backend.release(NAME, holder="b", token=0, at_least_for=0, timeout=LONG)
        await steps_were_small(server, before)
        await granted(server.backend, NAME, "alive")

    async def test_a_crowd_of_one_name_goes_first_by_steps_and_keeps_its_order(self, server: Server) -> None:
        token = await granted(server.backend, NAME, "a")
        await server.world.crowd(NAME, 300)
        first, *_ = await server.client.zrange(f"{TAG}:queue", 0, 0)
        position = int(first.split(b"\0")[1][:16])
        for number, holder in enumerate(("x", "y")):
            await server.backend.acquire(ask(NAME, holder, place=600), timeout=LONG)
            await before_all(server, holder, position - 9 + number)
        before = await server.counted()
        await server.backend.release(
            NAME, holder="a", token=token, at_least_for=0, to="process-w", timeout=LONG
        )
        assert await steps_were_small(server, before) > 5
        view = await server.backend.show(NAME, timeout=LONG)
        assert view is not None
        assert [waiting.label for waiting in view.waiting] == ["w"] * 300 + ["x", "y"]
        for number in range(50):
            await granted(server.backend, NAME, f"w{number}")
            await server.backend.release(NAME, holder=f"w{number}", token=0, at_least_for=0, timeout=LONG)

    async def test_all_who_wait_are_shown_page_by_page(self, server: Server) -> None:
        await server.crowd(777)
        view = await server.backend.show(NAME, timeout=LONG)
        assert view is not None and view.held and len(view.waiting) == 777

    async def test_an_order_without_its_places_holds_up_nobody(self, server: Server) -> None:
        """Somebody deleted a key, or the server evicted it."""
        await server.crowd(60)
        await server.client.delete(f"{TAG}:places")
        view = await server.backend.show(NAME, timeout=LONG)
        assert view is not None and view.waiting == ()
        await server.backend.release(NAME, holder="a", token=0, at_least_for=0, timeout=LONG)
        await granted(server.backend, NAME, "b")

    async def test_of_a_crowd_of_an_older_version_the_first_places_are_taken_over(
        self, server: Server
    ) -> None:
        await granted(server.backend, NAME, "a")
        row = json.loads(await server.client.hget(f"{TAG}:rows", NAME))
        till = str(round((time.time() + 300) * 1e6))
        row["queue"] = [
            {
                "holder": f"old{number}",
                "owner": json.dumps(asdict(owner(f"old{number}"))),
                "until": till,
                "seconds": "300000000",
            }
            for number in range(1_000)
        ]
        await server.client.hset(f"{TAG}:rows", NAME, json.dumps(row))
        before = await server.counted()
        await server.backend.acquire(ask(NAME, "new", place=30), timeout=LONG)
        await steps_were_small(server, before)
        view = await server.backend.show(NAME, timeout=LONG)
        assert view is not None
        labels = [waiting.label for waiting in view.waiting]
        assert labels == [*(f"old{number}" for number in range(len(labels) - 1)), "new"] and len(labels) > 10


# --- jobs


def registration(job: str) -> Registration:
    return Registration(job=job, schedule="every 1 s", fingerprint="f", rhythm=1.0, seen_for=180.0)


async def claimed(runs: Any, job: str, slot: int, *, attempts: int, alive_for: float = 0.0) -> None:
    answer = await runs.claim(
        Claim(
            job=job, slot=slot, run=f"r{slot}.{attempts}", owner=owner("x"), fingerprint="f",
            alive_for=alive_for, attempts=attempts,
        ),
        timeout=LONG,
    )  # fmt: skip
    assert isinstance(answer, Claimed)


async def test_one_look_at_a_hundred_jobs_whose_workers_vanished_is_a_small_step(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(server.backend)
    jobs = [f"shop:job{number:02}" for number in range(100)]
    views = await runs.register_all([registration(job) for job in jobs], timeout=LONG)
    slot = int(views[0].at * 1000) - 60_000
    for job in jobs:
        for number in range(6):
            await claimed(runs, job, slot + number, attempts=3)
    looks = [JobPoll(registration=registration(job), attempts=3) for job in jobs]

    rests: list[str] = []
    rest = RedisRuns._rest

    async def noted(self: Any, look: JobPoll, seen: PollAnswer, again: int, timeout: float) -> PollAnswer:
        if not rests:
            await steps_were_small(server, before)
        rests.append(look.registration.job)
        return await rest(self, look, seen, again, timeout)

    # The server knows the scripts from now on.
    await runs.look(looks[:1], again=20, timeout=LONG)
    monkeypatch.setattr(RedisRuns, "_rest", noted)
    before = await server.counted()
    seen = await runs.look(looks, again=20, timeout=LONG)
    assert len(rests) >= 90
    await steps_were_small(server, before)
    assert [len(one.vanished) for one in seen[1:]] == [6] * 99, "and nothing is left for another time"
    assert [len(one.again) for one in seen] == [6] * 100
    assert all(one.view is not None and one.view.running == () for one in seen)


@pytest.mark.parametrize("where", ["memory", "postgres", "valkey"])
async def test_none_waits_behind_those_that_nobody_may_try_again(
    where: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    """A deployment allows fewer attempts than the one before."""
    world: World
    if where == "memory":
        world = MemoryWorld()
    elif where == "postgres":
        world = PostgresWorld(request.getfixturevalue("postgres_url"))
        await world.prepare()
    else:
        outside = redis.asyncio.Redis.from_url(request.getfixturevalue("valkey_url"))
        world = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
    job = f"{namespace}:job"
    runs: Any = runs_of(world.open())  # type: ignore[attr-defined]
    try:
        view = await runs.register(registration(job), timeout=LONG)
        slot = int(view.at * 1000) - 60_000
        for number in range(25):
            for _ in range(2):
                await claimed(runs, job, slot + number, attempts=5)
                await runs.sweep(job, timeout=LONG)
        await claimed(runs, job, slot + 30, attempts=5)
        await runs.sweep(job, timeout=LONG)
        two = [JobPoll(registration=registration(job), attempts=2)]
        (seen,) = await runs.look(two, again=20, timeout=LONG)
        assert [run.slot for run in seen.again] == [slot + 30]
    finally:
        await world.aclose()
