"""The store is not there, or lets nobody in: one computation per key and process, and nothing is lost for good."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer, free_port
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.journal import Line

QUICK = {"kind": "sleep", "seconds": 0.2}


async def herd(fleet: Fleet, key: str) -> set[str]:
    """Fifty callers in each worker; nobody sees an error. Returns the values."""
    calls = [await worker.call(key, QUICK, callers=50) for worker in fleet.workers]
    outcomes = [await call.outcome() for call in calls]
    assert [outcome.errors for outcome in outcomes if outcome.errors] == []
    return {value for outcome in outcomes for value in outcome.values}


async def back(worker: Worker) -> None:
    if (await worker.status())["away"]:
        await worker.next("log", text="the store is back")


async def test_nobody_listens_until_later_and_then_values_are_shared_again(
    namespace: str, tmp_path: Path
) -> None:
    port = free_port()
    async with Fleet(f"redis://127.0.0.1:{port}/0", namespace, tmp_path) as fleet:
        workers = await fleet.start(3)
        assert len(await herd(fleet, "k")) == 3
        assert fleet.journal.by_worker("k") == {"w0": 1, "w1": 1, "w2": 1}
        # Each process serves what it has until the store is there.
        assert len(await herd(fleet, "k")) == 3
        assert fleet.journal.by_worker("k") == {"w0": 1, "w1": 1, "w2": 1}
        assert len(fleet.logged("the store is away")) == 3
        with ValkeyServer(port=port) as server:
            for worker in workers:
                await back(worker)
            for key in ("k", "another"):
                before = len(fleet.journal.computations(key))
                assert await herd(fleet, key) == {fleet.journal.computations(key)[-1]}
                assert len(fleet.journal.computations(key)) == before + 1
            with server.client() as client:
                assert client.exists(f"{{{namespace}:=k}}:v", f"{{{namespace}:=another}}:v") == 2


async def test_without_a_store_no_more_is_computed_at_once_than_keys_and_the_cap_allow(
    namespace: str, tmp_path: Path
) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    async with Fleet(url, namespace, tmp_path, max_local_computations=2) as fleet:
        await fleet.start(3)
        keys = [f"k{number}" for number in range(5)]
        calls = [await worker.call(key, QUICK, callers=20) for key in keys for worker in fleet.workers]
        assert [
            outcome.errors for outcome in [await call.outcome() for call in calls] if outcome.errors
        ] == []
        lines = [line for key in keys for line in fleet.journal.lines(key)]
        for worker in fleet.workers:
            mine = [line for line in lines if str(line.by).startswith(f"{worker.name}#")]
            assert peak(mine) == 2
        assert peak(lines) <= 3 * 2
        for key in keys:
            assert fleet.journal.by_worker(key) == {"w0": 1, "w1": 1, "w2": 1}


def peak(lines: list[Line]) -> int:
    """The most computations at once."""
    steps = [1 if line.what == "started" else -1 for line in sorted(lines, key=lambda line: line.at)]
    return max(itertools.accumulate(steps))


@pytest.mark.parametrize("refusal", ["wrong password", "no permission"])
async def test_a_store_that_lets_nobody_in_is_named_once_and_otherwise_as_good_as_away(
    refusal: str, namespace: str, tmp_path: Path
) -> None:
    with ValkeyServer(options={"requirepass": "right"}) as server:
        url = server.url.replace("right", "wrong")
        async with redis.asyncio.Redis.from_url(server.url) as client:
            if refusal == "no permission":
                may = ["+client", "+subscribe"]
                await client.acl_setuser(
                    "guest", enabled=True, passwords=["+wrong"], commands=may, channels=["*"]
                )
                url = url.replace("//", "//guest")
            async with Fleet(url, namespace, tmp_path) as fleet:
                await fleet.start(2)
                for _ in range(3):
                    assert len(await herd(fleet, "k")) == 2
                    assert fleet.journal.by_worker("k") == {"w0": 1, "w1": 1}
                assert sorted(worker.name for worker in fleet.logged("the store refuses")) == ["w0", "w1"]
                # Somebody mends it.
                if refusal == "wrong password":
                    await client.config_set("requirepass", "wrong")
                else:
                    await client.acl_setuser("guest", enabled=True, commands=["+@all"], keys=["*"])
                assert len(await herd(fleet, "another")) == 1
                assert len(await herd(fleet, "k")) == 1
                assert len(fleet.journal.computations("k")) == 3
