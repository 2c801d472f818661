"""`stampede-guard stats`: the sums of a fleet are the truth, whatever the kind of server."""

from __future__ import annotations

import asyncio
import collections
import json
import subprocess
import sys

import pytest
import redis.asyncio

from stampede_guard import StampedeGuard
from stampede_guard.stores.fleet.series import MINUTES
from tests.ops.cli.conftest import ROOT, Operator

PROCESSES = 4


async def report(project: int) -> int:
    return project


def started(operator: Operator, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ops.cli.counting", operator.url, operator.namespace, str(number)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_the_sums_of_several_processes_are_what_they_did(operator: Operator) -> None:
    begun = [started(operator, number) for number in range(PROCESSES)]
    told = await asyncio.gather(*(asyncio.to_thread(process.communicate, timeout=60) for process in begun))
    truth = [json.loads(out) for out, _ in told]
    calls: collections.Counter[str] = collections.Counter()
    computed: collections.Counter[str] = collections.Counter()
    for one in truth:
        calls.update(one["calls"])
        computed.update(one["computations"])

    found = (await operator.call("stats", "--window", "5m", "--json")).json
    functions = found["functions"]
    assert {title: row["calls"] for title, row in functions.items()} == calls
    assert {title: row["computations"] for title, row in functions.items()} == computed
    assert computed["shop.quality"] == 5 and calls["shop.quality"] == 5 * (20 * PROCESSES + 6)
    quality = functions["shop.quality"]
    assert quality["hits"] + quality["stale"] + quality["misses"] == quality["calls"]
    assert quality["saved"] == calls["shop.quality"] - 5
    assert quality["saved_seconds"] == pytest.approx(quality["saved"] * quality["seconds"] / 5)
    assert functions["shop.broken"]["failed"] == computed["shop.broken"] == 3 * PROCESSES

    shown = await operator.call("stats", "--window", "5m")
    assert "shop.quality" in shown.out and "hit rate" in shown.out
    async with redis.asyncio.Redis.from_url(operator.url) as client:
        keys = [key async for key in client.scan_iter(match=f"{{{operator.namespace}:stats:*}}")]
        assert 1 <= len(keys) <= 2, "one hash per minute"
        assert 0 < await client.pttl(keys[0]) <= MINUTES.kept_ms
        names = [name.decode() for name in await client.hkeys(keys[0])]
        assert {name.partition(":")[2] for name in names} <= calls.keys(), "names of functions, no keys"


async def test_a_guard_publishes_only_what_it_is_asked_to(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def one_call(guard: StampedeGuard) -> dict[str, int]:
        async with guard:
            await guard.locked_cache(ttl=300, name="shop.report")(report)(7)
        rows = (await operator.call("stats", "--json")).json["functions"]
        return {title: row["calls"] for title, row in rows.items()}

    def guard(**options: bool) -> StampedeGuard:
        return StampedeGuard.from_url(operator.url, namespace=operator.namespace, **options)

    assert await one_call(guard()) == {}
    told = await operator.call("stats")
    assert told.code == 0 and "stats=True" in told.out and "Namespaces with entries:" in told.out
    monkeypatch.setenv("STAMPEDE_GUARD_STATS", "1")
    assert await one_call(guard(stats=False)) == {}
    assert await one_call(guard()) == {"shop.report": 1}
    monkeypatch.delenv("STAMPEDE_GUARD_STATS")
    assert await one_call(guard(stats=True)) == {"shop.report": 2}
    # A tenant's calls belong to the same function.
    tenant = guard(stats=True)
    async with tenant:
        await tenant.within("acme").get_or_compute("ann", lambda: report(1), name="report")
    rows = (await operator.call("stats", "--json")).json["functions"]
    assert rows[f"{operator.namespace}:acme:report"]["calls"] == 1
    assert not [title for title in rows if "ann" in title]


@pytest.mark.parametrize("window", ["30s", "25h", "soon"])
async def test_a_window_that_cannot_be_looked_at_is_refused(operator: Operator, window: str) -> None:
    told = await operator.call("stats", "--window", window)
    assert (told.code == 2 and "1m" in told.err) or "30m" in told.err


@pytest.mark.parametrize("servers", ["valkey_cluster", "valkey_sentinel"])
async def test_the_sums_of_a_cluster_and_behind_sentinels(
    servers: str, namespace: str, request: pytest.FixtureRequest
) -> None:
    given = request.getfixturevalue(servers)
    url = given.url
    if servers == "valkey_sentinel":
        hosts = ",".join(f"127.0.0.1:{port}" for port in given.ports)
        url = f"redis+sentinel://{hosts}/{given.service}"
    guards = [StampedeGuard.from_url(url, namespace=namespace, stats=True) for _ in range(2)]
    for guard in guards:
        async with guard:
            cached = guard.locked_cache(ttl=300, name="shop.report")(report)
            for project in range(10):
                assert await cached(project) == project
    told = await Operator(url, namespace).call("stats", "--json")
    assert told.code == 0, told.err
    row = told.json["functions"]["shop.report"]
    assert (row["calls"], row["hits"], row["computations"], row["saved"]) == (20, 10, 10, 10)
