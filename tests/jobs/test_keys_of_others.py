"""A Redis server that is full, or on which another program uses the keys of one job."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import StoreRefused
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import RedisLeases
from tests.support.gate import until

SECONDS = 60.0


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


def leases(server: ValkeyServer) -> RedisLeases:
    return RedisLeases.from_url(server.url, namespace="shop", restart="trust")


async def test_no_run_begins_while_the_server_is_full_and_each_slot_runs_once_when_it_has_room(
    server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    ran: Counter[Any] = Counter()
    async with leases(server) as given:
        jobs = Jobs(given)

        @jobs.every(1, misfire_grace=SECONDS, coalesce=False, overlap="allow", lease_ttl=6)
        async def tick(run: Run) -> None:
            ran[run.slot] += 1

        async with jobs:
            await until(lambda: ran)
            with server.client() as client:
                client.config_set("maxmemory", "1")
                await until(lambda: "no new run starts" in caplog.text)
                before = len(ran)
                with pytest.raises(StoreRefused, match="raise maxmemory"):
                    await jobs.run_now("tick")
                assert len(ran) == before
                client.config_set("maxmemory", "0")
            await until(lambda: len(ran) > before + 2)
        runs = await jobs.history("tick", limit=100)
    told = [record.message for record in caplog.records if "no new run starts" in record.message]
    assert len(told) == 1 and "raise maxmemory, or delete what is not needed" in told[0]
    assert set(ran.values()) == {1}
    slots = sorted(ran)
    assert all((later - slot).total_seconds() == 1 for slot, later in pairwise(slots))
    assert {run.outcome for run in runs} == {"completed"}


async def test_what_another_program_wrote_in_place_of_one_job_stops_that_job_only(
    server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    ran: Counter[str] = Counter()
    with server.client() as client:
        client.rpush("{shop:theirs.job}:job", "x")
    async with leases(server) as given:
        jobs = Jobs(given)
        for name in ("ours", "more", "theirs"):

            @jobs.every(1, name=name, lease_ttl=1)
            async def tick(run: Run) -> None:
                ran[run.job] += 1

        async with jobs:
            # They registered, and the looks after that are shared.
            await until(lambda: ran["shop:ours"] > 2 and ran["shop:more"] > 2)
            with server.client() as client:
                client.delete("{shop:theirs.job}:job")
                await until(lambda: ran["shop:theirs"])
                client.set("{shop:theirs.job}:job", "5")
                before = ran["shop:ours"], ran["shop:more"]
                await until(lambda: caplog.text.count("job shop:theirs: no new run") == 2)
                await until(lambda: ran["shop:ours"] > before[0] + 2 and ran["shop:more"] > before[1] + 2)
            assert [view.job for view in await jobs.views()] == ["shop:more", "shop:ours"]
    told = [record.message for record in caplog.records if "no new run starts" in record.message]
    assert len(told) == 2
    assert all("{shop:theirs.job}:*" in one and "another namespace" in one for one in told)


async def test_a_job_of_anothers_keys_is_an_error_that_says_so(server: ValkeyServer) -> None:
    async with leases(server) as given:
        jobs = Jobs(given)

        @jobs.every(60)
        async def tick() -> None: ...

        with server.client() as client:
            client.set("{shop:tick.job}:job", "5")
        async with asyncio.timeout(SECONDS):
            with pytest.raises(StoreRefused, match=r"\{shop:tick\.job\}:\*.*another namespace"):
                await jobs.run_now("tick")
