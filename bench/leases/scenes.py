"""The measured scenes. Counts do not depend on the machine's load. A time stands beside one of the same run."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.leases.stores import JOB, Measured
from stampede_guard.errors import StoreError
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.messages import Claim, Claimed, Registration
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRequest, Owner

__all__ = ["Burst", "Crowd", "Idle", "Past", "claims", "history", "idle_fleet", "one_answer", "waiters"]

LONG = 120.0
GRANTS = 30
OWNER = Owner(process="bench")


@dataclass(frozen=True, slots=True)
class Crowd:
    """`grant`: seconds from a release to the next grant, the median. `steps`: of the server for each of them."""

    waiting: int
    grant: float
    slowest: float
    steps: float


async def waiters(store: Measured, count: int) -> Crowd:
    """So many tasks wait for one lease; each that gets it gives it back at once."""
    leases, got = store.leases(), list[float]()
    name = f"crowd-{count}"
    enough = asyncio.Event()

    async def one() -> None:
        # A holder joins the queue again after its turn, so that the same number waits for the next grant.
        while not enough.is_set():
            async with leases.hold(name, wait=LONG):
                got.append(time.perf_counter())
                if len(got) >= GRANTS:
                    enough.set()
                    await asyncio.sleep(LONG)

    try:
        hold = leases.hold(name)
        await hold.__aenter__()
        tasks = [asyncio.create_task(one()) for _ in range(count)]
        async with asyncio.timeout(LONG):
            # No event tells when the last one stands in the queue.
            while len((await leases.show(name)).waiting) < min(count, 1_000):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        before = await store.statements()
        begun = time.perf_counter()
        await hold.__aexit__(None, None, None)
        async with asyncio.timeout(LONG):
            await enough.wait()
        steps = await store.statements() - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await leases.aclose()
    pauses = [later - earlier for earlier, later in zip([begun, *got], got, strict=False)]
    return Crowd(count, statistics.median(pauses), max(pauses), steps / len(got))


@dataclass(frozen=True, slots=True)
class Past:
    """Seconds. `step`: the median of all steps by the server's clock; `longest`: the one that took most.

    PostgreSQL: the longest of the others, by ours."""

    runs: int
    rare: float
    page: float
    prune_steps: int
    step: float
    longest: float


async def history(store: Measured, runs: int) -> Past:
    """A rare outcome, the newest thousand, and twenty steps of pruning (or all)."""
    leases = store.leases()
    backend = runs_of(leases.part().backend)
    try:
        await backend.forget(JOB, timeout=LONG)
        await backend.register(
            Registration(job=JOB, schedule="every 1 s", fingerprint="f", rhythm=1.0), timeout=LONG
        )
        await store.fill(runs, rare=3)
        found = await backend.history(JOB, limit=3, outcomes=("failed",), timeout=LONG)
        assert len(found) == 3, found
        await store.watch()
        rare = await _median(lambda: backend.history(JOB, limit=50, outcomes=("failed",), timeout=LONG))
        page = await _median(lambda: backend.history(JOB, limit=1_000, timeout=LONG))
        before, begun = await store.statements(), time.perf_counter()
        try:
            async with asyncio.timeout(5.0):
                await backend.prune(JOB, keep=100, older_than=0.0, most=1_000, timeout=LONG)
        except TimeoutError:
            pass  # it goes on with the next one
        taken = time.perf_counter() - begun
        steps = max(1, await store.statements() - before)
        worst = max(rare, page, taken / steps)
        step, longest = await store.longest() or (worst, worst)
        return Past(runs, rare, page, steps, step, longest)
    finally:
        await leases.aclose()


async def _median(call: Any, times: int = 5) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


@dataclass(frozen=True, slots=True)
class Burst:
    claims: int
    seconds: float
    outcomes: dict[str, int]
    connections: int


async def claims(store: Measured, count: int) -> Burst:
    """All at once, each with the time-out that a job's claim has."""
    leases = store.leases()
    runs = runs_of(leases.part().backend)
    try:
        job = "bench:burst"
        view = await runs.register(
            Registration(job=job, schedule="s", fingerprint="f", rhythm=1.0), timeout=LONG
        )
        if (wait := 2.5 - (view.at - view.registered_at)) > 0:
            await asyncio.sleep(wait)
        first = int(view.at * 1000)
        begun = time.perf_counter()

        async def one(number: int) -> str:
            claim = Claim(
                job=job, slot=first + number, run=f"r{number}", owner=OWNER, fingerprint="f", alive_for=60.0
            )
            try:
                answer = await runs.claim(claim, timeout=3.0)
            except StoreError as error:
                return type(error).__name__
            return "claimed" if isinstance(answer, Claimed) else type(answer).__name__

        outcomes = await asyncio.gather(*[one(number) for number in range(count)])
        seconds = time.perf_counter() - begun
        return Burst(count, seconds, dict(Counter(outcomes)), await store.connections())
    finally:
        await leases.aclose()


@dataclass(frozen=True, slots=True)
class Idle:
    """`statements`: of one process in a second, at the default `lease_ttl` of jobs. `connections`: of one process."""

    jobs: int
    statements: float
    connections: float


async def idle_fleet(store: Measured, *, processes: int, jobs: int) -> Idle:
    """Jobs that are not due for months. Their `lease_ttl` is a tenth of the default, so ten times as much is asked."""
    scale = 0.1
    fleet = [(leases, Jobs(leases)) for leases in (store.leases() for _ in range(processes))]
    try:
        for _, one in fleet:
            for number in range(jobs):
                one.cron("0 3 1 1 *", name=f"idle{number}", lease_ttl=60 * scale)(_nothing)
            one.start()
        await asyncio.sleep(3.0)
        before, begun = await store.statements(), time.perf_counter()
        await asyncio.sleep(18.0)
        statements = await store.statements() - before
        seconds = time.perf_counter() - begun
        connections = await store.connections()
    finally:
        for leases, one in fleet:
            await one.stop()
            await leases.aclose()
    return Idle(jobs, statements / seconds / processes * scale, connections / processes)


async def _nothing() -> None: ...


async def one_answer(store: Measured) -> float:
    """A grant and a release without other processes. The other times are compared with this one."""
    leases = store.leases()
    backend = leases.part().backend
    try:

        async def once() -> None:
            asked = LeaseRequest(name="bench:alone", holder="a", owner=OWNER, lease_ttl=60.0)
            answer = await backend.acquire(asked, timeout=LONG)
            assert isinstance(answer, LeaseGranted | LeaseHeld)
            await backend.release("bench:alone", holder="a", token=0, at_least_for=0, timeout=LONG)

        await once()
        return await _median(once, 50)
    finally:
        await leases.aclose()
