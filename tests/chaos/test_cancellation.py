"""One caller is cancelled, at every place where it can be: all others are served, by one computation.

Three ways of striking. `at_suspension`: while the caller is suspended for the n-th time, whatever it waits for.
`at_tick`: at the n-th turn of the event loop, which also falls between a result and the caller's awakening. `twice`: at
two turns in a row, so that the second falls into what the first set going. All go on to the first n at which the caller
has already returned.
"""

from __future__ import annotations

import asyncio
import itertools
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from tests.support.sessions import patient

PATIENCE = 60.0


class Strike(Protocol):
    """Runs a call as a task that is cancelled at moment `n`."""

    def __call__(self, call: Coroutine[Any, Any, str], n: int) -> asyncio.Task[str]: ...


@types.coroutine
def _struck_when_suspended(call: Coroutine[Any, Any, str], n: int) -> Generator[Any, Any, str]:
    steps = call.__await__()
    resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731
    for suspension in itertools.count(1):
        try:
            awaited = resume()
        except StopIteration as done:
            return str(done.value)
        if suspension == n:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            yield awaited
            resume = lambda: next(steps)  # noqa: E731
        except BaseException as error:
            resume = lambda thrown=error: steps.throw(thrown)  # type: ignore[misc]  # noqa: E731
    raise AssertionError("unreachable")


def at_suspension(call: Coroutine[Any, Any, str], n: int) -> asyncio.Task[str]:
    async def faulty() -> str:
        return await _struck_when_suspended(call, n)

    return asyncio.create_task(faulty())


def at_tick(call: Coroutine[Any, Any, str], n: int) -> asyncio.Task[str]:
    task = asyncio.create_task(call)
    cancel_at_tick(task, n)
    return task


def cancel_at_tick(task: asyncio.Task[str], n: int) -> None:
    loop = asyncio.get_running_loop()

    def count(left: int) -> None:
        if not left:
            task.cancel()
        elif not task.done():
            loop.call_soon(count, left - 1)

    count(n)


def twice(call: Coroutine[Any, Any, str], n: int) -> asyncio.Task[str]:
    task = at_tick(call, n)
    cancel_at_tick(task, n + 1)
    return task


class Bench:
    """Two guards as two processes would have them, and an account of the computations."""

    def __init__(self, mine: StampedeGuard, other: StampedeGuard) -> None:
        self.mine = mine
        self.other = other
        self.started: list[str] = []
        self.ended: list[str] = []

    async def compute(self) -> str:
        name = f"computation {len(self.started) + 1}"
        self.started.append(name)
        for _ in range(10):
            await asyncio.sleep(0)
        self.ended.append(name)
        return name

    def call(self, guard: StampedeGuard, key: str, *, bound: bool = False) -> Coroutine[Any, Any, str]:
        return guard.get_or_compute(key, self.compute, type=str, request_bound=bound)

    async def still_there(self, key: str) -> None:
        """Nothing is left of the flights, and the value is stored."""
        before = len(self.started)
        for guard in (self.mine, self.other):
            assert await self.call(guard, key) == self.ended[-1]
            assert not guard.engine.runtime().flights
        assert len(self.started) == before


@asynccontextmanager
async def bench(store: str, url: str, namespace: str, **policy: Any) -> AsyncIterator[Bench]:
    shared: Any = MemoryStore()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def guard() -> StampedeGuard:
        rules = Policy(**policy)
        if store == "memory":
            return StampedeGuard(shared, namespace=namespace, policy=rules)
        return StampedeGuard.from_url(patient(url), namespace=namespace, policy=rules)

    async with guard() as mine, guard() as other:
        # Connected, so that the moments counted are those of a call and not those of a connection.
        await asyncio.gather(*(one.get_or_compute(f"warm-{one is mine}", _nothing) for one in (mine, other)))
        yield Bench(mine, other)
    assert complaints == []


async def _nothing() -> None:
    return None


async def every_moment(one: Callable[[int], Awaitable[bool]], *, step: Callable[[int], int]) -> int:
    """Strike at ever later moments until one comes too late. Returns how many moments there were."""
    n, faulty = 1, 0
    while await one(n):
        n, faulty = n + step(n), faulty + 1
    return faulty


def _others(calls: list[asyncio.Task[str]], victim: int) -> list[asyncio.Task[str]]:
    return [call for index, call in enumerate(calls) if index != victim]


STRIKES = [
    pytest.param(at_suspension, id="at suspension"),
    pytest.param(at_tick, id="at tick"),
    pytest.param(twice, id="twice"),
]
VICTIMS = [pytest.param(0, id="leader"), pytest.param(1, id="second"), pytest.param(3, id="last")]


@pytest.mark.parametrize("store", ["memory", "valkey"])
@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("victim", [*VICTIMS, pytest.param(4, id="elsewhere")])
async def test_a_caller_cancelled_at_any_moment_takes_nobody_with_it(
    store: str, strike: Strike, victim: int, valkey_url: str, namespace: str
) -> None:
    async with bench(store, valkey_url, namespace) as it:

        async def once(n: int) -> bool:
            it.started.clear()
            it.ended.clear()
            guards = [it.mine] * 4 + [it.other] * 2
            calls = [
                strike(it.call(guard, f"k{n}"), n)
                if index == victim
                else asyncio.create_task(it.call(guard, f"k{n}"))
                for index, guard in enumerate(guards)
            ]
            _, waiting = await asyncio.wait(calls, timeout=PATIENCE)
            assert not waiting
            assert {call.result() for call in _others(calls, victim)} == {"computation 1"}
            assert it.ended == it.started == ["computation 1"]
            await it.still_there(f"k{n}")
            return calls[victim].cancelled()

        # On the memory store every turn of the loop; on a server there are more turns, in which nothing happens.
        moments = await every_moment(once, step=lambda n: 1 if store == "memory" or n < 40 else n // 8)
        assert moments >= 1


@pytest.mark.parametrize("store", ["memory", "valkey"])
@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_computation_bound_to_its_request_is_handed_to_the_next_passenger(
    store: str, strike: Strike, victim: int, valkey_url: str, namespace: str
) -> None:
    async with bench(store, valkey_url, namespace) as it:
        begun: set[int] = set()

        async def once(n: int) -> bool:
            it.started.clear()
            it.ended.clear()
            guards = [it.mine] * 4 + [it.other] * 2
            calls = [
                strike(it.call(guard, f"k{n}", bound=True), n)
                if index == victim
                else asyncio.create_task(it.call(guard, f"k{n}", bound=True))
                for index, guard in enumerate(guards)
            ]
            _, waiting = await asyncio.wait(calls, timeout=PATIENCE)
            assert not waiting
            # What was begun in the request that went is not finished; only one computation is.
            assert len(it.ended) == 1
            assert len(it.started) <= (2 if victim == 0 else 1)
            begun.add(len(it.started))
            assert {call.result() for call in _others(calls, victim)} == set(it.ended)
            await it.still_there(f"k{n}")
            return calls[victim].cancelled()

        moments = await every_moment(once, step=lambda n: 1 if store == "memory" or n < 40 else n // 8)
        assert moments >= 1
        # On the memory store every turn is struck, so those of the computation are among them.
        surely = store == "memory" and victim == 0 and strike is not at_suspension
        assert begun == {1, 2} if surely else begun <= {1, 2}


@pytest.mark.parametrize("store", ["memory", "valkey"])
@pytest.mark.parametrize("strike", STRIKES)
async def test_a_lone_caller_that_leaves_a_bound_computation_leaves_the_lease_too(
    store: str, strike: Strike, valkey_url: str, namespace: str
) -> None:
    # With such a lease only giving it back lets the other process go on before the test's patience ends.
    async with bench(store, valkey_url, namespace, lease_ttl=300.0, wait_timeout=120.0) as it:

        async def once(n: int) -> bool:
            it.started.clear()
            it.ended.clear()
            lone = strike(it.call(it.mine, f"k{n}", bound=True), n)
            other = asyncio.create_task(it.call(it.other, f"k{n}", bound=True))
            _, waiting = await asyncio.wait({lone, other}, timeout=PATIENCE)
            assert not waiting
            assert len(it.ended) == 1 and len(it.started) <= 2
            assert other.result() == it.ended[0]
            await it.still_there(f"k{n}")
            return lone.cancelled()

        moments = await every_moment(once, step=lambda n: 1 if store == "memory" or n < 40 else n // 8)
        assert moments >= 1


@pytest.mark.parametrize("bound", [False, True], ids=["free", "bound"])
@pytest.mark.parametrize("store", ["memory", "valkey"])
async def test_a_caller_cancelled_in_its_fallback_leaves_the_others_a_value_or_an_end(
    store: str, bound: bool, valkey_url: str, namespace: str
) -> None:
    rules = {"wait_timeout": 0.05, "fallback_timeout": 20.0}
    async with bench(store, valkey_url, namespace, **rules) as it:

        async def once(n: int) -> bool:
            it.started.clear()
            it.ended.clear()
            gate, holding = asyncio.Event(), asyncio.Event()

            async def slow() -> str:
                holding.set()
                await gate.wait()
                return "slow"

            holder = asyncio.create_task(it.other.get_or_compute(f"k{n}", slow, type=str))
            await holding.wait()
            victim = at_suspension(it.call(it.mine, f"k{n}", bound=bound), n)
            others = [asyncio.create_task(it.call(it.mine, f"k{n}", bound=bound)) for _ in range(3)]
            await asyncio.wait({victim}, timeout=PATIENCE)
            if bound and not it.ended:
                # The fallback went with its request and keeps its slot: now only the holder can end the wait.
                gate.set()
            _, waiting = await asyncio.wait({*others, victim}, timeout=PATIENCE)
            assert not waiting
            assert {call.result() for call in others} <= {"slow", *it.ended}
            assert len(it.started) <= 1
            gate.set()
            assert await holder == "slow"
            return victim.cancelled()

        moments = await every_moment(once, step=lambda _: 1)
        assert moments >= 1


@pytest.mark.parametrize("store", ["memory", "valkey"])
@pytest.mark.parametrize("strike", STRIKES)
async def test_a_block_cancelled_at_any_moment_is_handed_to_the_next_caller(
    store: str, strike: Strike, valkey_url: str, namespace: str
) -> None:
    async with bench(store, valkey_url, namespace, lease_ttl=300.0, wait_timeout=120.0) as it:

        async def block(guard: StampedeGuard, key: str) -> str:
            async with guard.single(key, type=str) as entry:
                if entry.missing:
                    await entry.set(await it.compute())
                value: str = entry.value
                return value

        async def once(n: int) -> bool:
            it.started.clear()
            it.ended.clear()
            victim = strike(block(it.mine, f"k{n}"), n)
            others = [asyncio.create_task(block(guard, f"k{n}")) for guard in (it.mine, it.mine, it.other)]
            _, waiting = await asyncio.wait({victim, *others}, timeout=PATIENCE)
            assert not waiting
            assert len(it.started) <= 2
            assert {call.result() for call in others} == {it.ended[-1]}
            return victim.cancelled()

        moments = await every_moment(once, step=lambda n: 1 if store == "memory" or n < 40 else n // 8)
        assert moments >= 1


@pytest.mark.parametrize("strike", STRIKES)
async def test_a_block_that_ends_without_a_value_does_not_swallow_a_cancellation(
    strike: Strike, valkey_url: str, namespace: str
) -> None:
    async with bench("valkey", valkey_url, namespace) as it:

        async def block(key: str) -> str:
            async with it.mine.single(key, type=str):
                pass
            task = asyncio.current_task()
            return "swallowed" if task is not None and task.cancelling() else "over"

        async def once(n: int) -> bool:
            victim = strike(block(f"k{n}"), n)
            await asyncio.wait({victim}, timeout=PATIENCE)
            assert victim.cancelled() or victim.result() == "over"
            return victim.cancelled()

        assert await every_moment(once, step=lambda n: 1 if n < 40 else n // 8) >= 1


@pytest.mark.parametrize("bound", [False, True], ids=["free", "bound"])
async def test_a_fallback_overtaken_by_its_own_wake_up_is_no_cancellation_of_its_caller(
    bound: bool, valkey_url: str, namespace: str
) -> None:
    async with bench("valkey", valkey_url, namespace, wait_timeout=0.05, fallback_timeout=20.0) as it:
        gate, holding = asyncio.Event(), asyncio.Event()
        session: Any = it.mine.engine.runtime().session
        publish = session.publish

        async def slow() -> str:
            holding.set()
            await gate.wait()
            return "slow"

        async def published_and_no_answer(*args: Any, **options: Any) -> Any:
            await publish(*args, **options)
            await asyncio.get_running_loop().create_future()

        holder = asyncio.create_task(it.other.get_or_compute("k", slow, type=str))
        await holding.wait()
        session.publish = published_and_no_answer
        async with asyncio.timeout(PATIENCE):
            calls = [asyncio.create_task(it.call(it.mine, "k", bound=bound)) for _ in range(3)]
            assert await asyncio.gather(*calls, return_exceptions=True) == ["computation 1"] * 3
        del session.publish
        gate.set()
        await holder
        for task in list(it.mine.engine.runtime().fallbacks.values()):
            task.cancel()
