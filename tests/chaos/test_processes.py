"""Forks, event loops, threads and uvloop: a guard that was made once works wherever its process goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from bench.herd import processes
from bench.herd.valkey import free_port
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.policy import Policy
from tests.chaos.fleet import ROOT, Fleet
from tests.chaos.journal import Journal
from tests.support.gate import until


def forked(case: str, url: str, namespace: str, journal: Journal) -> dict[str, Any]:
    """What the forking program found. Nothing may be on its error output: no warning, no complaint of a loop."""
    command = [
        sys.executable,
        "-m",
        "tests.chaos.forking",
        case,
        url,
        namespace,
        str(journal.path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", ["inside", "preload"])
def test_a_forked_child_has_an_inbox_of_its_own_and_leaves_the_parents_connections_alone(
    case: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal")
    found = forked(case, valkey_url, namespace, journal)
    children = found["children"]
    assert {child["known"] for child in children} | {found["again"]} == {found["known"]}
    inboxes = {found["inbox"], *(child["inbox"] for child in children)}
    assert len(inboxes) == 1 + len(children) and "" not in inboxes
    assert {*journal.computations("herd")} == {value for child in children for value in child["herd"]}
    assert len(journal.computations("herd")) == len(journal.computations("known")) == 1
    if case == "inside":
        assert found["herd"] == journal.computations("herd") and not found["away"]
        # The very same connections, and none that a child left behind.
        assert found["after"] == found["before"] and len(found["before"]) >= 2


async def test_a_child_that_outlives_its_parent_does_not_keep_the_parents_lease_alive(
    valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    # The child has a copy of the parent's subscription: left open, it would be the sign of life of a dead holder.
    journal = Journal(tmp_path / "journal")
    program = processes.start(
        [sys.executable, "-m", "tests.chaos.forking", "orphan", valkey_url, namespace, str(journal.path)],
        log=tmp_path / "log",
        cwd=ROOT,
    )
    try:
        await until(lambda: journal.lines("forked") or not program.running)
        assert program.running, program.last_words()

        async def heir() -> str:
            return "heir"

        async with StampedeGuard.from_url(
            valkey_url, namespace=namespace, policy=Policy(lease_ttl=200.0, wait_timeout=100.0)
        ) as guard:
            os.kill(program.pid, signal.SIGKILL)
            program.process.wait()
            began = time.monotonic()
            assert await guard.get_or_compute("held", heir, type=str) == "heir"
            # Long before the lease would have ended.
            assert time.monotonic() - began < 60.0
    finally:
        program.kill()


def test_gunicorn_with_preload_runs_one_computation_for_both_of_its_workers(
    valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    options = ["--preload", "--workers", "2", "--bind", f"127.0.0.1:{port}"]
    options += ["--worker-class", "uvicorn.workers.UvicornWorker"]
    child = processes.start(
        [sys.executable, "-m", "gunicorn", *options, "tests.chaos.preloaded:app"],
        log=tmp_path / "gunicorn.log",
        cwd=ROOT,
        env={
            **os.environ,
            "HOME": str(tmp_path),  # some versions put a control socket there
            "CHAOS_URL": valkey_url,
            "CHAOS_NAMESPACE": namespace,
            "CHAOS_JOURNAL": str(journal.path),
        },
    )
    try:
        asyncio.run(ask_gunicorn(f"http://127.0.0.1:{port}", child, journal))
        child.stop()
        words = child.last_words(lines=1000)
        assert not any(sign in words for sign in ("Traceback", "[ERROR]", "WARNING")), words
    finally:
        child.kill()


async def ask_gunicorn(url: str, child: processes.Child, journal: Journal) -> None:
    async def get(path: str) -> Any:
        # A connection of its own each, so that either worker may take it.
        async with httpx.AsyncClient(timeout=60.0, trust_env=False) as client:
            return (await client.get(url + path)).json()

    async def answers() -> bool:
        assert child.running, child.last_words()
        try:
            return bool(await get("/who"))
        except httpx.TransportError:
            return False

    async with asyncio.timeout(120.0):
        while not await answers():  # noqa: ASYNC110 - no event tells that a port is listened on
            await asyncio.sleep(0.05)
        workers: set[int] = set()
        round = 0
        while len(workers) < 2:
            round += 1
            # Uneven accepting is the kernel's right; a round of which one worker got nothing shows nothing.
            values = await asyncio.gather(*(get(f"/slow/{round}") for _ in range(40)))
            assert len(journal.computations(f"{round}")) == len(set(values)) == 1
            workers |= set(await asyncio.gather(*(get("/who") for _ in range(40))))
    assert (await get("/slow/warm")) == str(child.pid)
    assert len(journal.computations("warm")) == 1


async def herd_of(guard: StampedeGuard, key: str, started: list[str], name: str) -> set[str]:
    async def compute() -> str:
        started.append(name)
        await asyncio.sleep(0.3)
        return name

    return set(await asyncio.gather(*(guard.get_or_compute(key, compute, type=str) for _ in range(25))))


def connections(url: str, name: str) -> list[str]:
    with redis.Redis.from_url(url) as client:
        return [line["id"] for line in client.client_list() if line["name"] == name]


async def test_event_loops_one_after_the_other_share_values_and_do_not_pile_up_connections(
    valkey_url: str, namespace: str
) -> None:
    started: list[str] = []
    guard = StampedeGuard.from_url(f"{valkey_url}?client_name={namespace}", namespace=namespace)

    def loops() -> None:
        for number in range(3):
            # Nobody closes the guard: a script's asyncio.run() is all there is.
            assert asyncio.run(herd_of(guard, "k", started, f"loop {number}")) == {"loop 0"}

    await asyncio.to_thread(loops)
    assert started == ["loop 0"]
    # Those of the last loop may stay until the guard is next used, or gone; those of the others may not.
    assert len(connections(valkey_url, namespace)) <= 3


async def test_event_loops_of_two_threads_compute_once_between_them(valkey_url: str, namespace: str) -> None:
    started: list[str] = []
    results: dict[str, set[str]] = {}
    guard = StampedeGuard.from_url(valkey_url, namespace=namespace)
    together = threading.Barrier(2)

    async def run(name: str) -> None:
        async with guard:
            await herd_of(guard, f"warm-{name}", [], name)
            for number in range(5):
                together.wait(60.0)
                results[f"{name} {number}"] = await herd_of(guard, f"k{number}", started, name)

    threads = [asyncio.to_thread(asyncio.run, run(name)) for name in ("one", "other")]
    await asyncio.gather(*threads)
    assert len(started) == 5
    for number in range(5):
        assert results[f"one {number}"] == results[f"other {number}"] == {started[number]}


async def test_each_thread_finds_the_part_of_its_own_event_loop(valkey_url: str, namespace: str) -> None:
    guard = StampedeGuard.from_url(valkey_url, namespace=namespace)
    interval = sys.getswitchinterval()

    async def look() -> int:
        loop = asyncio.get_running_loop()
        strangers = sum(guard.engine.runtime().loop is not loop for _ in range(20_000))
        await guard.aclose()
        return strangers

    sys.setswitchinterval(1e-6)
    try:
        found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, look()) for _ in range(3)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [0, 0, 0]


async def test_on_uvloop_the_same_holds(fleet: Fleet) -> None:
    # A mixed fleet: the loops differ, the protocol does not.
    workers = await fleet.start(2, uvloop=True, lease_ttl=20.0) + await fleet.start(2, lease_ttl=20.0)
    herd = {"kind": "sleep", "seconds": 0.45}
    calls = [await worker.call("herd", herd, callers=50) for worker in workers]
    assert (
        len({(await call.outcome()).value for call in calls}) == len(fleet.journal.computations("herd")) == 1
    )
    fleet.forget("answered")
    fleet.forget("started")
    fleet.forget("ended")

    # An invalidation in the middle, and who joins after it.
    early = await workers[0].call("k")
    old = (await workers[0].next("started"))["computation"]
    assert await workers[1].invalidate("k") == "done"
    late = [await worker.call("k", callers=5) for worker in workers]
    await workers[0].open(old)
    heir, started = await fleet.first("started")
    await heir.open(started["computation"])
    assert (await early.outcome()).value in (old, started["computation"])
    assert {(await call.outcome()).value for call in late} == {started["computation"]}

    # A holder that is killed, and the blocked loop of one that lives.
    doomed = await workers[0].call("dead")
    await workers[0].next("started")
    fleet.forget("answered")
    calls = [await worker.call("dead", callers=5) for worker in workers[1:]]
    for worker in workers[1:]:
        await worker.next("answered", key="dead", answer="Held")
    workers[0].kill()
    heir, started = await fleet.first("started", key="dead")
    await heir.open(started["computation"])
    assert {(await call.outcome()).value for call in calls} == {started["computation"]}
    assert len(fleet.journal.computations("dead")) == 2
    assert doomed.callers == 1
