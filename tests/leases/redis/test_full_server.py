"""A server that is out of memory and evicts nothing still keeps leases, and the ends of runs that have begun."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import StoreError
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.messages import Claim, Claimed, Ending, JobPoll, Registration
from stampede_guard.leases.messages import Forced, LeaseHeld, Renewed
from stampede_guard.leases.redis.backend import RedisBackend
from tests.support.leases import LONG, ask, granted, owner

NAME = "shop:import"
JOB = "shop:nightly"
SCHEDULE = Registration(job=JOB, schedule="s", fingerprint="f", rhythm=9.0, seen_for=9.0)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


@pytest.fixture
def full(server: ValkeyServer) -> Iterator[Callable[[], None]]:
    """Call it, and from then on the server denies whatever needs memory."""
    with server.client() as client:
        client.flushall()

        def fill_up() -> None:
            client.config_set("maxmemory", "1")
            with pytest.raises(Exception, match=r"OOM|maxmemory"):
                client.set("no-room", "x")

        yield fill_up
        client.config_set("maxmemory", "0")


@pytest.fixture
async def backend(server: ValkeyServer, full: Any) -> AsyncIterator[RedisBackend]:
    opened = RedisBackend.from_url(server.url, namespace="shop", restart="trust")
    yield opened
    await opened.aclose()


async def test_leases_are_granted_renewed_checked_and_released(
    backend: RedisBackend, full: Callable[[], None]
) -> None:
    first = await granted(backend, NAME, "a")
    full()
    assert await backend.renew(NAME, holder="a", token=first, lease_ttl=60, timeout=LONG) == Renewed()
    held = await backend.acquire(ask(NAME, "b", place=60), timeout=LONG)
    assert isinstance(held, LeaseHeld) and held.ahead == 0
    assert await backend.check(NAME, holder="a", token=first, timeout=LONG)
    assert await backend.release(NAME, holder="a", token=first, at_least_for=0, timeout=LONG)
    second = await granted(backend, NAME, "b")
    assert second > first
    assert isinstance(await backend.force(NAME, token=second, by="eve", now=True, timeout=LONG), Forced)
    # A new name, too: its row is small, and a full server needs its leases more than any other server.
    await granted(backend, "shop:new", "c")


async def test_a_release_for_a_chosen_waiter_goes_on(backend: RedisBackend, full: Callable[[], None]) -> None:
    token = await granted(backend, NAME, "a")
    for holder in ("b", "c"):
        await backend.acquire(ask(NAME, holder, place=60), timeout=LONG)
    full()
    await backend.release(NAME, holder="a", token=token, at_least_for=0, to="pod-c", timeout=LONG)
    await granted(backend, NAME, "c")


async def test_a_run_that_has_begun_is_kept_to_its_end_and_no_other_begins(
    backend: RedisBackend, full: Callable[[], None]
) -> None:
    runs, slot = runs_of(backend), round(time.time() * 1000) - 60_000

    def claim(slot: int) -> Claim:
        return Claim(job=JOB, slot=slot, run="r", owner=owner("r"), fingerprint="f", alive_for=60.0)

    await runs.register(SCHEDULE, timeout=LONG)
    assert isinstance(await runs.claim(claim(slot), timeout=LONG), Claimed)
    full()
    assert isinstance(await runs.claim(claim(slot), timeout=LONG), Claimed), "the same claim"
    assert await runs.beat(JOB, slot=slot, run="r", alive_for=60.0, token=7, timeout=LONG)
    assert (await runs.register(SCHEDULE, timeout=LONG)).job == JOB
    assert await runs.follow(SCHEDULE, timeout=LONG) is not None
    assert await runs.look([JobPoll(registration=SCHEDULE, attempts=2)], again=9, timeout=LONG)
    ending = Ending(outcome="completed", counters={"files": 12})
    assert await runs.finish(JOB, slot=slot, run="r", ending=ending, timeout=LONG)
    paused = await runs.pause(JOB, by="Ada", timeout=LONG)
    assert paused is not None and paused.paused_by == "Ada"
    resumed = await runs.resume(JOB, timeout=LONG)
    assert resumed is not None and not resumed.paused_at
    # A new row would need memory that is not there.
    with pytest.raises(StoreError, match=r"OOM|maxmemory"):
        await runs.claim(claim(slot + 1), timeout=LONG)
    with pytest.raises(StoreError, match="raise maxmemory, or delete what is not needed"):
        await runs.claim(claim(slot + 2), timeout=LONG)
    with pytest.raises(StoreError, match=r"OOM|maxmemory"):
        await runs.record(JOB, slots=[slot + 1], outcome="missed", error="", timeout=LONG)
    (run,) = await runs.history(JOB, limit=9, timeout=LONG)
    assert (run.slot, run.outcome, run.counters) == (slot, "completed", {"files": 12})


async def test_runs_whose_worker_vanished_are_still_marked(
    backend: RedisBackend, full: Callable[[], None]
) -> None:
    runs, slot = runs_of(backend), round(time.time() * 1000) - 60_000
    await runs.register(SCHEDULE, timeout=LONG)
    for number in range(2):
        claimed = Claim(
            job=JOB, slot=slot + number, run="r", owner=owner("r"), fingerprint="f", alive_for=0.0, attempts=2
        )
        await runs.claim(claimed, timeout=LONG)
    full()
    (seen,) = await runs.look([JobPoll(registration=SCHEDULE, attempts=2)], again=9, timeout=LONG)
    assert [run.outcome for run in seen.vanished] == ["abandoned"] * 2
    assert await runs.sweep(JOB, timeout=LONG) == []
    assert await runs.prune(JOB, keep=0, older_than=0.0, timeout=LONG) == 2
