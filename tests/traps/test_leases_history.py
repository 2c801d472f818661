"""The history of a job at any size: bounded by count and age, and looked at in steps that hold nobody up."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.jobs import rules
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.memory import MemoryRuns
from stampede_guard.jobs.backends.postgres.backend import PostgresRuns
from stampede_guard.jobs.backends.redis.backend import AT_ONCE, RedisRuns
from stampede_guard.jobs.messages import Claim, Ending, Outcome, Registration
from stampede_guard.leases.redis.backend import RedisBackend
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG, PostgresWorld, owner

JOB = "shop:tick"
TOUCHING = ("hget", "hdel", "hset", "zrem", "zadd", "zscore")
"""Commands of which a script does some for each run that it looks at."""
PER_RUN = 16


class Server:
    """A server of this test alone, whose commands are counted."""

    def __init__(self, client: redis.asyncio.Redis, runs: RedisRuns) -> None:
        self.client = client
        self.runs = runs

    async def fill(self, count: int, *, rare: int = 0, indexed: bool = True) -> list[int]:
        """Runs of one a second until now, all completed but for the `rare` oldest. As if written step by step."""
        await self.runs.register(registration(), timeout=LONG)
        tag = f"{{{JOB}.job}}:"
        newest = round(time.time()) * 1000 - 10_000
        slots = [newest - number * 1000 for number in range(count)]
        pipe = self.client.pipeline(transaction=False)
        for place, slot in enumerate(slots):
            outcome: Outcome = "failed" if place >= count - rare else "completed"
            pipe.hset(f"{tag}runs", str(slot), stored(slot, outcome))
            pipe.zadd(f"{tag}slots", {str(slot): slot})
            if indexed:
                pipe.zadd(f"{tag}{outcome}", {str(slot): slot})
            if place % 1000 == 999:
                await pipe.execute()
        await pipe.execute()
        job = json.loads(await self.client.get(f"{tag}job"))
        await self.client.set(f"{tag}job", json.dumps(job | {"pruned_to": "0"}))
        return slots

    async def counted(self) -> tuple[int, dict[str, int]]:
        """Scripts so far, and commands within them."""
        stats = await self.client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
        scripts = calls.get("evalsha", 0) + calls.get("eval", 0)
        return scripts, {name: calls.get(name, 0) for name in TOUCHING}


def registration(job: str = JOB) -> Registration:
    return Registration(job=job, schedule="every 1 s", fingerprint="f", rhythm=1.0)


def stored(slot: int, outcome: str) -> str:
    row = {"run": "r", "outcome": outcome, "owner": "", "error": "", "counters": "{}"}
    numbers = dict.fromkeys(("attempt", "attempts"), "1") | {"alive_until": "0", "token": "1"}
    times = {"started_at": str(slot * 1000), "finished_at": str(slot * 1000), "slot": str(slot)}
    return json.dumps(row | numbers | times)


@pytest.fixture
async def server(own_valkey: ValkeyServer) -> AsyncIterator[Server]:
    client = redis.asyncio.Redis.from_url(own_valkey.url)
    backend = RedisBackend(RedisStore(client, deadline=LONG), namespace="shop", restart="trust")
    yield Server(client, runs_of(backend))
    await backend.aclose()
    await client.aclose()


async def no_step_touches_more_than_it_may(server: Server, before: tuple[int, dict[str, int]]) -> int:
    scripts, touched = await server.counted()
    steps = scripts - before[0]
    for name, count in touched.items():
        assert count - before[1][name] <= steps * AT_ONCE * PER_RUN, name
    return steps


class TestOnRedis:
    async def test_a_history_of_any_size_is_pruned_in_many_small_steps(self, server: Server) -> None:
        slots = await server.fill(2_500)
        before = await server.counted()
        assert await server.runs.prune(JOB, keep=10, older_than=1e9, most=1_000, timeout=LONG) == 1_500
        assert await no_step_touches_more_than_it_may(server, before) >= 1_500 // AT_ONCE
        left = await server.runs.history(JOB, limit=5_000, timeout=LONG)
        assert [run.slot for run in left] == slots[:1_000]
        claim = Claim(job=JOB, slot=slots[1_200], run="x", owner=owner("x"), fingerprint="f", alive_for=60.0)
        assert getattr(await server.runs.claim(claim, timeout=LONG), "outcome", "") == "missed"

    async def test_a_rare_outcome_is_found_without_looking_at_the_others(self, server: Server) -> None:
        slots = await server.fill(3_000, rare=3)
        before = await server.counted()
        found = await server.runs.history(JOB, limit=50, outcomes=("failed",), timeout=LONG)
        assert [run.slot for run in found] == slots[-3:]
        scripts, touched = await server.counted()
        # Once more where the server did not know the script.
        assert scripts - before[0] <= 2
        assert sum(touched.values()) - sum(before[1].values()) <= 3, "one for each that is found"

    async def test_a_long_history_is_read_in_pages(self, server: Server) -> None:
        slots = await server.fill(1_050)
        before = await server.counted()
        found = await server.runs.history(JOB, limit=1_000, timeout=LONG)
        assert [run.slot for run in found] == slots[:1_000]
        assert await no_step_touches_more_than_it_may(server, before) <= 1_000 // AT_ONCE + 1
        found = await server.runs.history(
            JOB, limit=400, before=slots[500], outcomes=("completed", "failed"), timeout=LONG
        )
        assert [run.slot for run in found] == slots[501:901]

    async def test_runs_that_an_older_version_wrote_are_put_in_order_by_steps(self, server: Server) -> None:
        slots = await server.fill(1_200, rare=2, indexed=False)
        before = await server.counted()
        found = await server.runs.history(JOB, limit=9, outcomes=("failed",), timeout=LONG)
        assert [run.slot for run in found] == slots[-2:]
        assert await no_step_touches_more_than_it_may(server, before) > 10
        before = await server.counted()
        await server.runs.history(JOB, limit=9, outcomes=("failed",), timeout=LONG)
        scripts, _ = await server.counted()
        assert scripts - before[0] <= 2, "and are then in order"

    async def test_what_an_older_version_took_away_or_changed_is_seen(self, server: Server) -> None:
        slots = await server.fill(300, rare=4)
        tag = f"{{{JOB}.job}}:"
        # Pruned by an old worker, who knows no orders; and abandoned by one.
        await server.client.hdel(f"{tag}runs", str(slots[-1]))
        await server.client.zrem(f"{tag}slots", str(slots[-1]))
        await server.client.hset(f"{tag}runs", str(slots[5]), stored(slots[5], "abandoned"))
        found = await server.runs.history(JOB, limit=9, outcomes=("failed",), timeout=LONG)
        assert [run.slot for run in found] == slots[-4:-1]
        # The numbers did not add up, so all orders were made anew.
        found = await server.runs.history(JOB, limit=9, outcomes=("abandoned",), timeout=LONG)
        assert [run.slot for run in found] == [slots[5]]

    async def test_a_job_that_nobody_prunes_is_bounded_by_its_own_claims(self, server: Server) -> None:
        slots = await server.fill(rules.MOST_RUNS + 20)
        for number in range(5):
            slot = slots[0] + (number + 1) * 1000
            claim = Claim(
                job=JOB, slot=slot, run=f"n{number}", owner=owner("x"), fingerprint="f", alive_for=60.0
            )
            await server.runs.claim(claim, timeout=LONG)
            ended = Ending(outcome="completed")
            await server.runs.finish(JOB, slot=slot, run=f"n{number}", ending=ended, timeout=LONG)
        assert await server.client.zcard(f"{{{JOB}.job}}:slots") <= rules.MOST_RUNS + 1
        assert await server.client.hlen(f"{{{JOB}.job}}:runs") <= rules.MOST_RUNS + 1

    async def test_a_run_that_goes_on_is_never_pruned_however_old(self, server: Server) -> None:
        slots = await server.fill(250)
        slot = slots[-1] - 1000
        claim = Claim(job=JOB, slot=slot, run="x", owner=owner("x"), fingerprint="f", alive_for=600.0)
        await server.runs.claim(claim, timeout=LONG)
        assert await server.runs.prune(JOB, keep=10, older_than=0.0, most=20, timeout=LONG) == 240
        found = await server.runs.history(JOB, limit=99, timeout=LONG)
        assert [run.slot for run in found] == [*slots[:10], slot]

    async def test_many_slots_are_recorded_swept_and_retried_in_steps(self, server: Server) -> None:
        await server.fill(0)
        begin = round(time.time()) * 1000 - 3_000_000
        missed = [begin + number * 1000 for number in range(950)]
        before = await server.counted()
        assert await server.runs.record(JOB, slots=missed, outcome="missed", error="", timeout=LONG) == 950
        await no_step_touches_more_than_it_may(server, before)
        for number in range(120):
            claim = Claim(
                job=JOB, slot=begin + number * 1000 + 1, run=f"r{number}", owner=owner("x"),
                fingerprint="f", alive_for=0.0, attempts=2,
            )  # fmt: skip
            await server.runs.claim(claim, timeout=LONG)
        before = await server.counted()
        assert len(await server.runs.sweep(JOB, timeout=LONG)) == 120
        assert await no_step_touches_more_than_it_may(server, before) >= 3
        assert await server.runs.retriable(JOB, attempts=1, limit=5, timeout=LONG) == []
        assert len(await server.runs.retriable(JOB, attempts=3, limit=150, timeout=LONG)) == 120


@pytest.mark.parametrize("where", ["memory", "postgres"])
async def test_elsewhere_it_is_bounded_by_count_and_age_as_well(
    where: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    runs: MemoryRuns | PostgresRuns
    job, world = f"{namespace}:tick", None
    if where == "memory":
        runs = MemoryRuns()
    else:
        world = PostgresWorld(request.getfixturevalue("postgres_url"))
        await world.prepare()
        runs = runs_of(world.open())
    try:
        await runs.register(registration(job), timeout=LONG)
        newest = round(time.time()) * 1000 - 1000
        if world is None:
            known = runs._jobs[job]  # type: ignore[union-attr]
            known.row = rules.replace(known.row, pruned_to=0)
        slots = [newest - number * 1000 for number in range(1_200)]
        await runs.record(job, slots=slots, outcome="missed", error="", timeout=LONG)
        assert await runs.prune(job, keep=10, older_than=1e9, timeout=LONG) == 0
        assert await runs.prune(job, keep=10, older_than=1e9, most=700, timeout=LONG) == 500
        assert await runs.prune(job, keep=600, older_than=0.0, most=700, timeout=LONG) == 100
        left = await runs.history(job, limit=2_000, timeout=LONG)
        assert [run.slot for run in left] == slots[:600]
        rare = await runs.history(job, limit=9, outcomes=("failed", "abandoned"), timeout=LONG)
        assert rare == []
        found = await runs.history(job, limit=9, outcomes=("missed", "failed"), timeout=LONG)
        assert [run.slot for run in found] == slots[:9]
    finally:
        if world is not None:
            await world.aclose()


async def test_postgres_finds_a_rare_outcome_by_an_index_whatever_it_believes_of_their_numbers(
    postgres_url: str, namespace: str
) -> None:
    world = PostgresWorld(postgres_url)
    await world.prepare()
    backend = world.open()
    job = f"{namespace}:tick"

    async def looked_at(connection: Any) -> int:
        await connection.execute(
            """INSERT INTO stampede_guard.runs (job, slot, outcome)
            SELECT $1, number, CASE WHEN number = 5 THEN 'failed' ELSE 'completed' END
            FROM generate_series(1, 20000) AS numbers (number)""",
            job,
        )
        await connection.execute("ANALYZE stampede_guard.runs")
        statement = runs_of(backend)._sql.of_outcomes
        rows = await connection.fetch(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", job, 50, None, ["failed", "abandoned"]
        )
        return removed_by_filters(json.loads(rows[0][0])[0]["Plan"])

    try:
        assert await backend.room.use(looked_at, timeout=LONG) == 0
    finally:
        await backend.room.fetch("DELETE FROM stampede_guard.runs WHERE job = $1", job, timeout=LONG)
        await world.aclose()


def removed_by_filters(plan: dict[str, Any]) -> int:
    """Rows that were read and not wanted."""
    own = int(plan.get("Rows Removed by Filter", 0))
    return own + sum(removed_by_filters(below) for below in plan.get("Plans", ()))
