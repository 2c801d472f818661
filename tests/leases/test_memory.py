"""Leases in memory: what is there beside the rules themselves."""

from __future__ import annotations

import asyncio
import sys
import threading

from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.memory import ROWS_BEFORE_PRUNING, LeaseRows, MemoryBackend
from stampede_guard.leases.messages import LeaseGranted, LeaseRequest, Owner
from stampede_guard.testing.clock import FakeClock

ME = Owner(process="me")


async def token_of(backend: MemoryBackend, name: str, holder: str) -> int:
    answer = await backend.acquire(LeaseRequest(name=name, holder=holder, owner=ME, lease_ttl=10), timeout=1)
    assert isinstance(answer, LeaseGranted)
    return answer.token


async def test_back_ends_over_the_same_rows_see_each_other_and_wake_each_other() -> None:
    rows = LeaseRows(FakeClock())
    one, other = MemoryBackend(rows), MemoryBackend(rows)
    freed: list[str] = []
    other.on_freed(freed.append)
    token = await token_of(one, "n", "a")
    assert await other.check("n", holder="a", token=token, timeout=1)
    await one.release("n", holder="a", token=token, at_least_for=0, timeout=1)
    assert freed == ["n"]
    await other.aclose()
    await token_of(one, "n", "b")
    await one.leave("n", holder="b", timeout=1)
    assert freed == ["n"]


async def test_names_that_are_over_are_forgotten_but_not_how_far_their_tokens_were() -> None:
    clock = FakeClock(0.0)
    backend = MemoryBackend(LeaseRows(clock))
    tokens = []
    for number in range(3 * ROWS_BEFORE_PRUNING):
        tokens.append(await token_of(backend, "often", str(number)))
        await backend.leave("often", holder=str(number), timeout=1)
        await token_of(backend, f"once:{number}", "a")
        await backend.leave(f"once:{number}", holder="a", timeout=1)
    assert len(backend.rows.names()) <= ROWS_BEFORE_PRUNING
    assert tokens == sorted(set(tokens))


async def test_operators_deeds_are_kept_and_shown_newest_first() -> None:
    backend = MemoryBackend(LeaseRows(FakeClock()))
    for name in ("a:1", "b:1", "a:2"):
        await backend.force(name, token=await token_of(backend, name, "h"), by="eve", now=True, timeout=1)
    assert [audit.name for audit in await backend.audits("a:", limit=9, timeout=1)] == ["a:2", "a:1"]
    views = await backend.views("a:", limit=1, timeout=1)
    assert [(view.name, view.held) for view in views] == [("a:1", False)]
    assert await backend.show("never", timeout=1) is None


async def test_plain_code_and_coroutines_of_one_process_never_hold_at_once() -> None:
    leases = MemoryLeases()
    held = threading.Lock()
    at_once: list[str] = []

    def enter(who: str) -> None:
        if not held.acquire(blocking=False):
            at_once.append(who)

    def plain() -> None:
        for _ in range(40):
            with leases.hold("n", wait=60, poll_every=0.001):
                enter("plain")
                held.release()

    async def coroutine() -> None:
        for _ in range(40):
            async with leases.hold("n", wait=60, poll_every=0.001):
                enter("coroutine")
                held.release()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        async with leases, asyncio.timeout(60):
            await asyncio.gather(asyncio.to_thread(plain), asyncio.to_thread(plain), coroutine(), coroutine())
    finally:
        sys.setswitchinterval(interval)
    assert at_once == []


async def test_a_coroutine_that_waits_is_woken_by_plain_code_in_its_own_loop() -> None:
    rows = LeaseRows(FakeClock())
    here, heard = threading.get_ident(), asyncio.get_running_loop().create_future()
    backend = MemoryBackend(rows)
    backend.on_freed(lambda name: heard.set_result((name, threading.get_ident())))

    async def elsewhere() -> None:
        other = MemoryBackend(rows)
        token = await token_of(other, "n", "b")
        await other.release("n", holder="b", token=token, at_least_for=0, timeout=1)

    await asyncio.to_thread(asyncio.run, elsewhere())
    async with asyncio.timeout(60):
        assert await heard == ("n", here)
