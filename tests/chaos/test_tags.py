"""Processes hammer tagged entries while one of them changes the data and invalidates the tag, fifty times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet
from tests.support.sessions import LONG

PROCESSES = 4
TIMES = 50
KEYS = [f"report:{number}" for number in range(3)]


@pytest.fixture(params=["one server", "cluster"])
async def hammered(request: pytest.FixtureRequest, namespace: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """On the cluster the tag and the entries live on all three masters."""
    if request.param == "cluster":
        url = f"redis+cluster://127.0.0.1:{request.getfixturevalue('valkey_cluster').servers[0].port}"
    else:
        url = request.getfixturevalue("valkey_url")
    # Long, so that a busy machine is no fault of a holder.
    async with Fleet(url, namespace, tmp_path, deadline=LONG, ttl=600.0, lease_ttl=60.0) as fleet:
        yield fleet


async def test_nobody_who_begins_after_an_invalidation_is_served_what_was_computed_before(
    hammered: Fleet,
) -> None:
    workers = await hammered.start(PROCESSES)
    for worker in workers:
        await worker.tell("hammer", keys=KEYS, callers=24)
    await workers[0].tell("invalidate_tag", times=TIMES)
    tries = (await workers[0].next("tag invalidated"))["tries"]
    await asyncio.gather(*(worker.tell("stop") for worker in workers))
    served = [(await worker.next("hammered"))["served"] for worker in workers]
    assert all(served)
    calls = [line for key in KEYS for line in hammered.journal.lines(key, "served")]
    assert len(calls) == sum(served) >= TIMES
    pairs = [(int(need), int(value)) for need, value in (str(line.by).split() for line in calls)]
    assert [(need, value) for need, value in pairs if value < need] == []
    assert max(value for _, value in pairs) == TIMES
    for key in KEYS:
        assert len(hammered.journal.computations(key)) <= 1 + tries
