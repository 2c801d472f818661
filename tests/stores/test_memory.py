"""What is particular to the store inside a process: its clock, its sweep, and the loops and threads that share it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from stampede_guard import StampedeGuard
from stampede_guard.core.entry import Entry, freshness
from stampede_guard.core.scripts import Granted, Held, Messages
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemorySession, MemoryStore
from tests.support.clock import Clock
from tests.support.listener import PATIENCE, RecordingListener

POLICY = Policy(ttl=20, lease_ttl=10, takeover_gap=2)


async def granted(session: MemorySession, name: str, flight: str = "holder") -> Granted:
    answer = await session.acquire(name, flight=flight, policy=POLICY)
    assert isinstance(answer, Granted), answer
    return answer


async def fill(session: MemorySession, name: str) -> Granted:
    grant = await granted(session, name)
    assert await session.publish(
        name, flight="holder", grant=grant, outcome="value", body=b"body", policy=POLICY
    )
    return grant


class TestTime:
    async def test_a_value_in_its_last_millisecond_is_still_there(self) -> None:
        clock = Clock()
        session = MemoryStore(clock=clock).open_session(RecordingListener())
        await fill(session, "k")
        clock.advance(19.9995)
        reading = await session.read("k")
        assert reading is not None and reading.remaining_ms == 0
        assert freshness(reading.remaining_ms, reading.total_ms, 0) == "stale", (
            "0 is not above a stale time of 0"
        )
        clock.advance(0.001)
        assert await session.read("k") is None

    async def test_a_clock_that_stands_still_still_gives_every_grant_its_own_number(self) -> None:
        session = MemoryStore(clock=Clock()).open_session(RecordingListener())
        tokens = []
        for number in range(50):
            tokens.append((await granted(session, "k", f"flight-{number}")).token)
            tokens.append(await session.invalidate("k", policy=POLICY))
            await session.release("k", flight=f"flight-{number}")
        assert tokens == sorted(set(tokens))

    async def test_no_token_is_zero_however_young_the_clock(self) -> None:
        session = MemoryStore(clock=Clock(0.0)).open_session(RecordingListener())
        assert (await granted(session, "k")).token > 0
        assert await session.invalidate("other", policy=POLICY) > 0


class TestForgetting:
    async def test_keys_used_once_do_not_pile_up(self) -> None:
        clock = Clock()
        store = MemoryStore(clock=clock)
        session = store.open_session(RecordingListener())
        for number in range(1_000):
            await fill(session, f"once-{number}")
        assert len(store) == 1_000
        clock.advance(POLICY.record_ms / 1000 + 1)
        for _ in range(400):
            await session.invalidate("again and again", policy=POLICY)
        assert len(store) == 1

    async def test_an_entry_with_time_left_survives_every_sweep(self) -> None:
        store = MemoryStore(clock=Clock())
        session = store.open_session(RecordingListener())
        await fill(session, "kept")
        for number in range(500):
            await session.invalidate(f"other-{number}", policy=POLICY)
        assert await session.read("kept") is not None

    async def test_a_closed_session_is_not_kept(self) -> None:
        store = MemoryStore()
        for _ in range(10):
            await store.open_session(RecordingListener()).aclose()
        assert store._subscribers == {}


class TestOtherLoops:
    async def test_a_waiter_on_another_thread_is_woken_on_its_own_loop(self) -> None:
        store = MemoryStore()
        here = store.open_session(RecordingListener())
        grant = await granted(here, "k")
        waiting, woken = threading.Event(), threading.Event()
        seen: list[object] = []

        async def there() -> None:
            listener = RecordingListener()
            session = store.open_session(listener)
            seen.append(await session.acquire("k", flight="other", policy=POLICY))
            waiting.set()
            seen.append(await listener.message("k"))
            await session.aclose()
            woken.set()

        thread = threading.Thread(target=asyncio.run, args=(there(),))
        thread.start()
        assert await asyncio.to_thread(waiting.wait, PATIENCE)
        await here.publish("k", flight="holder", grant=grant, outcome="value", body=b"body", policy=POLICY)
        assert await asyncio.to_thread(woken.wait, PATIENCE)
        thread.join()
        held, message = seen
        assert isinstance(held, Held)
        assert getattr(message, "token", None) == grant.token

    async def test_a_loop_that_ended_without_a_word_is_dead_and_disturbs_nobody(self) -> None:
        clock = Clock()
        store = MemoryStore(clock=clock)
        here = store.open_session(RecordingListener())

        async def short_lived() -> None:
            session = store.open_session(RecordingListener())
            await granted(session, "theirs")
            assert isinstance(await session.acquire("ours", flight="waiter", policy=POLICY), Held)

        grant = await granted(here, "ours")
        await asyncio.to_thread(asyncio.run, short_lived())
        await here.publish("ours", flight="holder", grant=grant, outcome="value", body=b"", policy=POLICY)
        suspect = await here.acquire("theirs", flight="mine", policy=POLICY)
        assert isinstance(suspect, Held) and suspect.suspect
        clock.advance(2)
        await granted(here, "theirs", "mine")

    async def test_of_many_threads_at_once_one_is_granted(self) -> None:
        store = MemoryStore()
        together = threading.Barrier(8)
        answers: list[object] = []

        async def ask(flight: str) -> None:
            session = store.open_session(RecordingListener())
            together.wait(PATIENCE)
            for number in range(50):
                answer = await session.acquire(f"k-{number}", flight=flight, policy=POLICY)
                answers.append((number, answer))

        threads = [threading.Thread(target=asyncio.run, args=(ask(f"flight-{index}"),)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        winners = [number for number, answer in answers if isinstance(answer, Granted)]  # type: ignore[misc]
        assert sorted(winners) == list(range(50)) and len(answers) == 400


async def test_a_fork_while_another_thread_changes_an_entry_leaves_the_child_a_usable_store() -> None:
    store = MemoryStore()
    changing, forked = threading.Event(), threading.Event()

    def step(entry: Entry, _: int, __: frozenset[str]) -> tuple[Entry, None, Messages]:
        changing.set()
        forked.wait(PATIENCE * 2)
        return entry, None, ()

    async with StampedeGuard(store) as guard:
        guard.engine.runtime()
        thread = threading.Thread(target=store.change, args=("k", step))
        thread.start()
        changing.wait(PATIENCE)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.look("k")
                code = 0
            finally:
                os._exit(code)
        try:
            _, status = await asyncio.wait_for(asyncio.to_thread(os.waitpid, child, 0), PATIENCE)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            forked.set()
            thread.join()
        assert os.waitstatus_to_exitcode(status) == 0
