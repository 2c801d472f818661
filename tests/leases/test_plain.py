"""Leases for code without an event loop, and what a forked child knows of its parent's."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import deque
from typing import Any

import pytest

from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse
from stampede_guard.leases import SKIPPED, MemoryLeases, current_lease
from stampede_guard.leases.memory import Rows
from stampede_guard.leases.owner import called, this_process
from stampede_guard.leases.words import Owner
from stampede_guard.portal import portal


def test_plain_code_holds_a_lease_that_is_renewed_while_it_works() -> None:
    leases = MemoryLeases()
    with leases.hold("n", 0.5) as lease:
        first = leases.rows.row("default:n").deadline
        deadline = time.monotonic() + 20
        # Work without an await: the renewals are in a thread of their own.
        while leases.rows.row("default:n").deadline == first and time.monotonic() < deadline:
            sum(range(1_000))
        lease.check()
        assert lease.remaining() > 0
    assert leases.rows.row("default:n").holder == ""
    leases.close()


def test_plain_code_sees_a_flag_when_it_is_to_stop() -> None:
    leases = MemoryLeases()

    async def force(token: int) -> Any:
        return await leases.force_release("n", token=token, by="eve")

    with leases.hold("n", 0.6) as lease:
        portal().call(force, lease.token)
        assert lease.stopping.wait(20)
        assert "eve" in lease.stopping.why
    with pytest.raises(LeaseLost), leases.hold("n", 0.6) as lease:
        portal().call(leases.force_release, "n", token=lease.token, by="eve", now=True)
        with pytest.raises(LeaseLost):
            lease.check()
    leases.close()


def test_plain_code_and_coroutines_see_each_others_leases() -> None:
    leases = MemoryLeases()

    def plain() -> None:
        with leases.hold("n", wait=0):
            raise AssertionError

    async def main() -> None:
        async with leases.hold("n"):
            with pytest.raises(LeaseTaken):
                await asyncio.to_thread(plain)
        with pytest.raises(Misuse, match="async with"):
            plain()
        await leases.aclose()

    asyncio.run(main())
    leases.close()


def test_one_house_serves_several_event_loops() -> None:
    leases = MemoryLeases()
    most = at_once = 0
    lock = threading.Lock()

    async def work() -> None:
        nonlocal most, at_once
        for _ in range(20):
            async with leases.hold("n", poll_every=0.02):
                with lock:
                    at_once += 1
                    most = max(most, at_once)
                await asyncio.sleep(0)
                with lock:
                    at_once -= 1
        await leases.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 1


def test_a_forked_child_is_another_process_and_holds_nothing() -> None:
    leases = MemoryLeases(rows=Rows())
    with leases.hold("n") as lease:
        before = this_process()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            told = f"{lease.remaining()} {this_process().process != before.process}"
            os.write(writing, told.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100).decode() == "0.0 True"
        assert lease.remaining() > 0
        assert this_process() == before
    leases.close()


def test_a_forked_child_stands_for_election_itself_whatever_another_thread_was_doing() -> None:
    leases = MemoryLeases()
    election = leases.election("e")

    async def stand() -> None:
        election.start()
        await election.wait_elected(60)

    async def stand_in_the_child() -> bool:
        async with election:
            return bool(election.health()["standing"])

    portal().call(stand)
    reading, writing = os.pipe()
    # As if a thread that the child does not have had been in the middle of it.
    with leases._lock:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(60)
                told = f"{election.is_leader} {election.health()['standing']} {asyncio.run(stand_in_the_child())}"
                os.write(writing, told.encode())
            finally:
                os._exit(0)
    os.close(writing)
    assert os.read(reading, 100).decode() == "False False True"
    os.waitpid(child, 0)
    os.close(reading)
    assert election.is_leader
    portal().call(election.stop)
    leases.close()


def test_an_owner_is_called_by_what_people_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "web-7")
    owner = this_process("blue")
    assert (owner.pod, owner.label, owner.pid) == ("web-7", "blue", os.getpid())
    assert called(owner) == f"blue (web-7/{os.getpid()})"
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setenv("HOSTNAME", "pod-3")
    assert this_process().pod == "pod-3"
    assert called(Owner(process="p")) == "p"


def test_memory_is_no_url_and_the_others_are_loaded_when_asked_for() -> None:
    import subprocess
    import sys

    script = (
        "import sys, stampede_guard.leases as l; l.Leases; l.MemoryLeases(); l.PostgresLeases; l.RedisLeases;"
        "print([m for m in ('redis', 'asyncpg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plain_function_runs_exclusively_too() -> None:
    leases = MemoryLeases()
    entered, leave = threading.Event(), threading.Event()

    @leases.run_exclusive("n")
    def report(pages: int) -> int:
        """Reports."""
        entered.set()
        assert leave.wait(60)
        return pages

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(report(7)))
    thread.start()
    assert entered.wait(60)
    assert report(8) is SKIPPED
    leave.set()
    thread.join(60)
    assert results == [7] and report(9) == 9 and report.__name__ == "report"
    leases.close()


def test_a_plain_function_is_replaced_when_it_heeds_the_flag() -> None:
    leases = MemoryLeases()
    entered = threading.Event()

    @leases.run_exclusive("n", overlap="replace", lease_ttl=0.6, poll_every=0.02)
    def work(last: bool) -> str:
        lease = current_lease()
        assert lease is not None
        entered.set()
        if last:
            return "replaced it"
        return lease.stopping.why if lease.stopping.wait(60) else "was not told"

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work(False)))
    thread.start()
    assert entered.wait(60)
    assert work(True) == "replaced it"
    thread.join(60)
    assert "replaces it" in results[0]
    leases.close()


def test_a_plain_function_waits_its_turn_and_sends_nobody_away() -> None:
    leases = MemoryLeases()
    entered, leave = threading.Event(), threading.Event()
    told: list[bool] = []

    @leases.run_exclusive("n", overlap="queue", poll_every=0.02)
    def work(number: int) -> int:
        lease = current_lease()
        assert lease is not None
        if number == 1:
            entered.set()
            assert leave.wait(60)
            told.append(bool(lease.stopping))
        return number

    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(work(number))) for number in (1, 2)
    ]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    deadline = time.monotonic() + 60
    while not leases.rows.row("default:n").queue and time.monotonic() < deadline:
        time.sleep(0.001)
    assert leases.rows.audits == deque()
    leave.set()
    for thread in threads:
        thread.join(60)
    assert (results, told) == ([1, 2], [False])
    leases.close()


def test_who_is_interrupted_just_after_it_was_granted_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(keeper: object) -> None:
        raise KeyboardInterrupt

    leases = MemoryLeases()
    monkeypatch.setattr("stampede_guard.leases.hold.PlainLease", interrupted)
    with pytest.raises(KeyboardInterrupt), leases.hold("n"):
        raise AssertionError
    assert leases.rows.row("default:n").holder == "" and leases.rows.row("default:n").token > 0
    leases.close()
