"""Leases for code without an event loop, and what a forked child knows of its parent's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any

import pytest

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse
from stampede_guard.leases import SKIPPED, MemoryLeases, current_lease
from stampede_guard.leases.client import Leases
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.leases.messages import Answer, LeaseRequest, Owner
from stampede_guard.leases.owner import called, this_process


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
        assert lease.stopping.wait(60)
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
    leases = MemoryLeases(rows=LeaseRows())
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
    assert "a newer call" in results[0]
    leases.close()


def test_who_enters_the_same_hold_in_another_thread_gives_back_nothing_of_the_first() -> None:
    rows, asked, go_on = LeaseRows(), threading.Event(), threading.Event()

    class Slow(MemoryBackend):
        async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
            if not asked.is_set():
                asked.set()
                await asyncio.to_thread(go_on.wait, 60)
            return await super().acquire(ask, timeout=timeout)

    leases = Leases(lambda: Slow(rows))
    hold = leases.hold("n", wait=0)
    errors: list[Exception] = []

    def enter() -> None:
        try:
            hold.__enter__()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    assert asked.wait(60)
    with pytest.raises(Misuse, match="already used"):
        hold.__enter__()
    go_on.set()
    thread.join(60)
    assert not errors
    assert rows.row("default:n").holder
    hold.__exit__(None, None, None)
    assert not rows.row("default:n").holder
    leases.close()


def test_health_may_be_asked_in_any_thread_while_leases_come_and_go() -> None:
    leases = MemoryLeases()
    told: list[Any] = []

    async def come_and_go(enough: threading.Event) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            async with leases.hold(f"short:{number}"):
                await asyncio.sleep(0)

    async def main() -> None:
        enough = threading.Event()

        def look() -> None:
            try:
                told.extend(len(leases.health()["holds"]) for _ in range(300))
            except RuntimeError as error:
                told.append(error)
            finally:
                enough.set()

        async with leases, contextlib.AsyncExitStack() as stack:
            for number in range(300):
                await stack.enter_async_context(leases.hold(f"long:{number}"))
            await asyncio.gather(asyncio.to_thread(look), come_and_go(enough))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        asyncio.run(main())
    finally:
        sys.setswitchinterval(interval)
    assert len(told) == 300 and set(told) <= {300, 301}


AT_EXIT = """
import atexit
from stampede_guard.engine.threads import portal
from stampede_guard.errors import Misuse
from stampede_guard.leases import MemoryLeases

leases = MemoryLeases()

def bye():
    try:
        with leases.hold("last"):
            print("held")
    except Misuse as error:
        print("refused:", error)

{}
with leases.hold("first"):
    pass
"""


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("atexit.register(bye)", "held"),
        # As if it had been registered before the package was imported.
        (
            "atexit.unregister(portal.end_portal), atexit.register(bye), atexit.register(portal.end_portal)",
            "refused",
        ),
    ],
)
def test_what_is_done_at_exit_may_hold_a_lease_and_waits_for_nothing_that_never_comes(
    when: str, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(when)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith(told) and not done.stderr


class Interrupted(BaseException):
    """As Ctrl-C or a soft time limit: raised in the main thread, wherever that is."""


def test_a_hold_that_is_used_twice_does_not_give_back_what_is_held_under_it() -> None:
    leases = MemoryLeases()
    hold = leases.hold("n")
    with hold as lease:
        with pytest.raises(Misuse, match="already used"):
            hold.__enter__()
        lease.check()
        assert lease.remaining() > 0
    leases.close()


def test_who_is_interrupted_while_he_gives_it_back_has_given_it_back() -> None:
    leases = MemoryLeases()
    loop: Any = portal().loop
    busy, go_on = threading.Event(), threading.Event()

    def keep_busy() -> None:
        busy.set()
        assert go_on.wait(60)

    def interrupt() -> None:
        # 1. the loop hears that it is to be given back, 2. and in the same turn that who said so has gone.
        wait_until(lambda: len(loop._ready) == before + 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        wait_until(lambda: len(loop._ready) == before + 2)
        go_on.set()

    def interrupted(*_: object) -> None:
        raise Interrupted

    handler = signal.signal(signal.SIGUSR1, interrupted)
    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(Interrupted), leases.hold("n"):
            loop.call_soon_threadsafe(keep_busy)
            assert busy.wait(60)
            before = len(loop._ready)
            thread.start()
        wait_until(lambda: leases.rows.row("default:n").holder == "")
    finally:
        thread.join(60)
        signal.signal(signal.SIGUSR1, handler)
        leases.close()


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_plain_function_waits_its_turn_and_sends_nobody_away() -> None:
    leases = MemoryLeases()
    entered, leave = threading.Event(), threading.Event()
    told: list[bool] = []

    @leases.run_exclusive("n", overlap="queue", poll_every=0.02)
    def work(number: int) -> None:
        lease = current_lease()
        assert lease is not None
        if number == 1:
            entered.set()
            assert leave.wait(60)
            told.append(bool(lease.stopping))
        ran.append(number)

    ran: list[int] = []
    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
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
    assert (ran, told) == ([1, 2], [False])
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
