"""What an entry costs the server in memory, as docs/deploying.md says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.policy import Policy

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "deploying.md").read_text("utf-8")
ENTRIES = 2_000


@pytest.mark.parametrize("size", [100, 10_000])
async def test_an_entry_costs_its_value_and_no_more_than_the_page_says(size: int) -> None:
    (most,) = re.findall(r"the encoded value and at most (\d+) bytes", PAGE)

    async def compute() -> str:
        return "x" * size

    with ValkeyServer() as server:
        async with (
            redis.asyncio.Redis.from_url(server.url) as store,
            StampedeGuard.from_url(server.url, namespace="sizes") as guard,
        ):
            await guard.get_or_compute("warm", compute)
            before = (await store.info("memory"))["used_memory"]
            for first in range(0, ENTRIES, 50):
                keys = [f"report:{number}" for number in range(first, first + 50)]
                await asyncio.gather(*[guard.get_or_compute(key, compute, ttl=600) for key in keys])
            after = (await store.info("memory"))["used_memory"]
    assert 0 < (after - before) / ENTRIES - size <= int(most)


def test_the_page_says_how_long_a_record_stays() -> None:
    (seconds,) = re.findall(r"the record, which goes (\d+) s after", PAGE)
    assert Policy().record_ms == int(seconds) * 1000
