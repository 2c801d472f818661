"""A Redis that was started a moment ago grants nothing for a lease's time, and says so."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import StoreError
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases, RedisLeases


async def call(*args: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "stampede_guard",
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_who_waits_is_told_once_why_nothing_is_granted(
    own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    leases = RedisLeases.from_url(own_valkey.url, namespace="shop")
    try:
        with caplog.at_level(logging.INFO, "stampede_guard.leases"):
            for name in ("a", "b"):
                with pytest.raises(StoreError, match="started or promoted"):
                    async with leases.hold(name, wait=0):
                        pass
        told = [record for record in caplog.records if "grants no lease for another" in record.message]
        assert len(told) == 1 and told[0].levelno == logging.WARNING
        withheld = await leases.withheld()
        assert withheld is not None and 0 < withheld.remaining <= 60
    finally:
        await leases.aclose()


async def test_a_check_of_the_jobs_says_so_and_does_not_fail_for_it(own_valkey: ValkeyServer) -> None:
    leases = RedisLeases.from_url(own_valkey.url, namespace="shop")
    jobs = Jobs(leases)

    @jobs.every(3600)
    async def hourly() -> None: ...

    try:
        jobs.start()
        await jobs._followers["hourly"][0].looked.wait()
        code, told = await call("jobs", "check", "--url", own_valkey.url, "--namespace", "shop")
        assert "nothing new starts for another" in told and code == 0
        code, told = await call("jobs", "check", "--url", own_valkey.url, "--namespace", "shop", "--json")
        assert json.loads(told)["withheld"]["remaining"] > 0
    finally:
        await jobs.stop()
        await leases.aclose()


async def test_where_nothing_is_withheld_nothing_is_said(own_valkey: ValkeyServer) -> None:
    for leases in (
        MemoryLeases(namespace="shop"),
        RedisLeases.from_url(own_valkey.url, namespace="shop", restart="trust"),
    ):
        assert await leases.withheld() is None
        await leases.aclose()
