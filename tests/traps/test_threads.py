"""Plain functions: their threads, the portal that serves them, and what a user's function may raise there."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import stampede_guard.engine.threads.portal as portals
from stampede_guard import Policy, StampedeGuard
from stampede_guard.engine.threads.portal import portal
from stampede_guard.engine.threads.threads import Threads
from stampede_guard.errors import ComputeFailed, ComputeTimeout
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.clock import Clock
from tests.support.inside import runtimes_of
from tests.support.listener import PATIENCE

ENDS: list[BaseException] = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(1),
]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(400) as made:
        yield made


def limited(threads: int, **fields: Any) -> Iterator[StampedeGuard]:
    made = StampedeGuard(MemoryStore(), limits=Limits(max_threads=threads), policy=Policy(**fields))
    yield made
    made.close()


@pytest.fixture
def one() -> Iterator[StampedeGuard]:
    yield from limited(1)


@pytest.fixture
def guard() -> Iterator[StampedeGuard]:
    yield from limited(4)


@pytest.fixture
async def loop_guard() -> AsyncIterator[StampedeGuard]:
    made = StampedeGuard(MemoryStore(), limits=Limits(max_threads=1))
    yield made
    await made.aclose()


def threads_of(guard: StampedeGuard) -> Threads:
    async def its_part() -> Threads:
        return guard.engine.runtime().threads

    return portal().call(its_part)


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it never comes to be so"
        time.sleep(0.002)


def raised_by(call: Callable[[], Any]) -> BaseException:
    """By a call in a thread of its own, which ends in time."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "its caller waits for ever"
    assert found, "its caller is told nothing"
    return found[0]


def is_or_tells(error: BaseException, of: BaseException) -> bool:
    """The exception itself; or an ordinary one that names it, where a future could not carry it."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause) is type(of) or type(of).__name__ in str(cause):
            return True
        cause = cause.__cause__
    return False


# --- what ends threads and loops ---------------------------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


class Unkeyable:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __cache_key__(self) -> str:
        raise self.error


class Tag(str):
    error: BaseException

    def __format__(self, spec: str) -> str:
        raise self.error


def by_key(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    return guard.locked_cache(name="shop.f", key=raising(error))(lambda: 1)


def by_cache_key(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    @guard.locked_cache(name="shop.f")
    def function(thing: Unkeyable) -> int:
        return 1

    return lambda: function(Unkeyable(error))


def by_ttl(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    return guard.locked_cache(name="shop.f", ttl=raising(error), error_ttl=0.0)(lambda: 1)


def by_should_cache(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    return guard.locked_cache(name="shop.f", should_cache=raising(error), error_ttl=0.0)(lambda: 1)


def by_resource(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    @guard.locked_cache(name="shop.f", resources={"db": raising(error)}, error_ttl=0.0)
    def function(db: Any) -> int:
        return 1

    return function


def by_body(guard: StampedeGuard, error: BaseException) -> Callable[[], Any]:
    return guard.locked_cache(name="shop.f", error_ttl=0.0)(raising(error))


WAYS = [by_key, by_cache_key, by_ttl, by_should_cache, by_resource, by_body]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_users_function_raises_reaches_its_caller_and_nobody_else(
    guard: StampedeGuard, way: Any, error: BaseException
) -> None:
    other = guard.locked_cache(name="shop.other")(lambda: "value")
    failing = way(guard, error)
    for _ in range(3):
        assert is_or_tells(raised_by(failing), error)
        assert other() == "value"
        other.invalidate()
        assert other() == "value", "the portal lives on"


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_what_a_hook_raises_reaches_nobody(guard: StampedeGuard, error: BaseException) -> None:
    other = guard.locked_cache(name="shop.other", stale_ttl=60.0)(lambda number: number)
    guard.add_hook(raising(error))
    assert [other(number) for number in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert other.invalidate(1) == "done"
    assert other.refresh(1) == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_error_of_a_callback_that_nobody_waits_for_leaves_the_portal_alive(
    guard: StampedeGuard, error: BaseException
) -> None:
    other = guard.locked_cache(name="shop.other")(lambda: "value")
    assert other() == "value"
    portal().loop.call_soon_threadsafe(raising(error))
    other.invalidate()
    assert other() == "value"


def test_a_function_that_stops_the_portals_loop_stops_nothing(guard: StampedeGuard) -> None:
    other = guard.locked_cache(name="shop.other")(lambda: "value")
    portal().loop.call_soon_threadsafe(portal().loop.stop)
    assert other() == "value"


async def cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_where_the_portals_loop_breaks_down_callers_are_told_and_the_next_gets_another(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, gate = portal(), threading.Event()
    held = guard.locked_cache(name="shop.held")(lambda: gate.wait(PATIENCE))
    caller = threading.Thread(target=lambda: told.append(raised_by(held)))
    told: list[BaseException] = []
    caller.start()
    wait_until(lambda: broken.loop in runtimes_of(guard) and runtimes_of(guard)[broken.loop].flights)

    def fail(*_: Any) -> None:
        raise OSError("the selector is closed")

    monkeypatch.setattr(broken.loop, "_run_once", fail)
    broken.loop.call_soon_threadsafe(int)
    caller.join(PATIENCE)
    assert told and "has ended" in str(told[0])
    gate.set()
    other = guard.locked_cache(name="shop.other")(lambda: "value")
    assert other() == "value"
    assert portal() is not broken
    # What stands still on a loop that is dropped would be an error of whichever test is running then.
    monkeypatch.undo()
    broken.loop.run_until_complete(guard.aclose())
    broken.loop.run_until_complete(cancel_all())
    broken.loop.close()


@pytest.mark.parametrize("where", ["key", "ttl", "body"])
def test_a_process_whose_function_exits_can_end(where: str) -> None:
    """`sys.exit()` in a function of the user's ends the script with its code, or as the error that it was told as."""
    script = f"""
        import sys
        from stampede_guard import StampedeGuard

        guard = StampedeGuard.from_url("memory://")
        leave = lambda *_: sys.exit(3)

        @guard.locked_cache(ttl=leave if {where == "ttl"} else 300, key=leave if {where == "key"} else None)
        def report() -> int:
            return leave() if {where == "body"} else 1

        try:
            report()
        finally:
            print("told", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert "told" in done.stdout
    assert done.returncode == (1 if where == "body" else 3), done.stderr


# --- a hard ceiling ----------------------------------------------------------------------------------


class Busy:
    """Counts how many are within it at once."""

    def __init__(self) -> None:
        self.now = self.most = self.runs = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.runs += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1


def computing() -> int:
    return sum(thread.name == "stampede_guard computation" for thread in threading.enumerate())


@pytest.mark.parametrize("nested", ["hit", "stale", "async", "miss"])
def test_three_hundred_stale_keys_use_no_more_than_max_threads(
    nested: str, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them calls another cached function, for a while, and gives its place up meanwhile."""
    # When nothing has moved for that long, one more may begin. On a busy machine nothing moves for a second.
    monkeypatch.setattr("stampede_guard.engine.threads.threads.PATIENCE", 60.0)
    clock = Clock()
    guard = StampedeGuard(
        MemoryStore(clock=clock),
        policy=Policy(ttl=10, stale_ttl=1000),
        limits=Limits(max_threads=4, max_flights=1000),
    )
    outer, most, before = Busy(), [0], computing()

    @guard.locked_cache(name="shop.plain")
    def plain(number: int) -> int:
        most[0] = max(most[0], computing() - before)
        return number

    @guard.locked_cache(name="shop.async")
    async def coroutine(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    @guard.locked_cache(name="shop.outer", compute_timeout=60.0)
    def quality(number: int) -> int:
        with outer.one():
            most[0] = max(most[0], computing() - before)
            if nested == "async":
                asyncio.run(coroutine(number))
            else:
                plain(number if nested == "miss" else 0)
            return number

    if nested != "miss":
        plain(0)
    assert list(pool.map(quality, range(300))) == list(range(300))
    clock.advance(20)
    if nested == "hit":
        plain(0)
    assert list(pool.map(quality, range(300))) == list(range(300)), "stale, and at once"
    wait_until(lambda: outer.runs >= 600 and not outer.now)
    assert outer.most <= 4
    assert most[0] <= 8, "those that wait, and those that they wait for"
    wait_until(lambda: threads_of(guard).busy == 0)
    guard.close()


def test_a_chain_of_any_length_makes_progress_with_one_thread(one: StampedeGuard) -> None:
    working = Busy()

    @one.locked_cache(name="shop.down")
    def down(number: int) -> int:
        with working.one():
            pass
        return 0 if number == 0 else 1 + down(number - 1)

    assert down(60) == 60
    assert working.most == 1
    wait_until(lambda: threads_of(one).busy == 0)


def direct(function: Callable[[], int]) -> Callable[[], Any]:
    async def call() -> int:
        return function()

    return call


def to_thread(function: Callable[[], int]) -> Callable[[], Any]:
    return lambda: asyncio.to_thread(function)


def in_executor(function: Callable[[], int]) -> Callable[[], Any]:
    """Without its caller's context: nobody sees what it is called for."""
    return lambda: asyncio.get_running_loop().run_in_executor(None, function)


# Not through an executor without a cached function between: nothing of that can be seen.
@pytest.mark.parametrize(
    ("way", "cached_between"),
    [(direct, True), (direct, False), (to_thread, True), (to_thread, False), (in_executor, True)],
)
def test_plain_calls_async_calls_plain_with_one_thread(
    one: StampedeGuard, way: Any, cached_between: bool
) -> None:
    @one.locked_cache(name="shop.inner", compute_timeout=PATIENCE)
    def inner() -> int:
        return 1

    async def between() -> int:
        return 1 + int(await way(inner)())

    cached = one.locked_cache(name="shop.between", compute_timeout=PATIENCE)(between)

    @one.locked_cache(name="shop.outer", compute_timeout=PATIENCE)
    def outer() -> int:
        return 1 + asyncio.run(cached() if cached_between else between())

    assert outer() == 3
    wait_until(lambda: threads_of(one).busy == 0)


async def test_a_chain_through_the_main_event_loop_makes_progress(loop_guard: StampedeGuard) -> None:
    """As `anyio.from_thread.run` and `async_to_sync` call coroutines: on the loop that began."""
    guard, main = loop_guard, asyncio.get_running_loop()

    @guard.locked_cache(name="shop.inner")
    def inner(number: int) -> int:
        return number

    @guard.locked_cache(name="shop.between")
    async def between(number: int) -> int:
        return await asyncio.to_thread(inner, number)

    @guard.locked_cache(name="shop.outer")
    def outer(number: int) -> int:
        return asyncio.run_coroutine_threadsafe(between(number), main).result(PATIENCE)

    calls = [asyncio.to_thread(outer, number) for number in range(5)]
    assert await asyncio.wait_for(asyncio.gather(*calls), PATIENCE) == list(range(5))


def test_a_chain_through_another_guard_makes_progress(one: StampedeGuard) -> None:
    other = StampedeGuard(MemoryStore(), namespace="other", limits=Limits(max_threads=1))

    @one.locked_cache(name="shop.inner")
    def inner() -> int:
        return 1

    @other.locked_cache(name="shop.between")
    def between() -> int:
        return 1 + inner()

    @one.locked_cache(name="shop.outer")
    def outer() -> int:
        return 1 + between()

    assert outer() == 3
    other.close()


def test_who_is_waited_for_comes_first_although_others_asked_before(
    one: StampedeGuard, pool: ThreadPoolExecutor
) -> None:
    """A job that is queued already, and then another one's function comes to wait for it."""
    door, order = threading.Event(), []

    @one.locked_cache(name="shop.inner")
    def inner(number: int) -> int:
        order.append(number)
        return number

    @one.locked_cache(name="shop.outer")
    def outer() -> int:
        door.wait(PATIENCE)
        return inner(2)

    first = pool.submit(outer)
    wait_until(lambda: threads_of(one).busy == 1)
    others = []
    for number in range(4):
        others.append(pool.submit(inner, number))
        wait_until(lambda number=number: len(threads_of(one)._jobs) == number + 1)
    door.set()
    assert first.result(PATIENCE) == 2
    assert sorted(other.result(PATIENCE) for other in others) == [0, 1, 2, 3]
    assert order[0] == 2


def test_an_abandoned_thread_keeps_its_place_until_it_ends(one: StampedeGuard) -> None:
    door, began = threading.Event(), []

    @one.locked_cache(name="shop.slow", compute_timeout=0.05)
    def slow() -> None:
        door.wait(PATIENCE)

    @one.locked_cache(name="shop.next", compute_timeout=0.05, error_ttl=0.0)
    def next_one() -> int:
        began.append(1)
        return 1

    for _ in range(2):
        assert isinstance(raised_by(slow), ComputeTimeout | ComputeFailed)
        assert isinstance(raised_by(next_one), ComputeTimeout)
    assert threads_of(one).busy == 1 and not began
    door.set()
    wait_until(lambda: threads_of(one).busy == 0)
    assert next_one() == 1


def test_a_waiter_whose_wait_is_over_has_no_place_until_there_is_one(one: StampedeGuard) -> None:
    """What it waited for was left to itself, in the one place that there is."""
    door, went_on = threading.Event(), threading.Event()

    @one.locked_cache(name="shop.hung", compute_timeout=0.05)
    def hung() -> None:
        door.wait(PATIENCE)

    @one.locked_cache(name="shop.outer", compute_timeout=PATIENCE)
    def outer() -> int:
        with contextlib.suppress(ComputeTimeout):
            hung()
        went_on.set()
        return 1

    caller = threading.Thread(target=outer, daemon=True)
    caller.start()
    wait_until(lambda: threads_of(one)._back)
    assert threads_of(one).busy == 1 and not went_on.is_set()
    door.set()
    caller.join(PATIENCE)
    assert went_on.is_set()
    wait_until(lambda: threads_of(one).busy == 0)


def test_threads_that_a_chain_needed_do_not_stay(one: StampedeGuard) -> None:
    before = computing()

    @one.locked_cache(name="shop.down")
    def down(number: int) -> int:
        return 0 if number == 0 else 1 + down(number - 1)

    assert down(20) == 20
    wait_until(lambda: computing() - before <= 1)


# --- the same on an event loop of the user's -----------------------------------------------------------


def coroutine_of(guard: StampedeGuard, how: str, error: BaseException) -> Callable[[], Any]:
    options: dict[str, Any] = {"error_ttl": 0.0, "name": "shop.failing"}
    if how in ("ttl", "should_cache", "key"):
        options[how] = raising(error)
    if how == "resource":
        options["resources"] = {"db": raising(error)}

    @guard.locked_cache(**options)
    async def failing(db: Any = None) -> int:
        await asyncio.sleep(0)
        if how == "body":
            raise error
        return 1

    return failing


def many_of(guard: StampedeGuard, how: str, error: BaseException) -> Callable[[], Any]:
    options: dict[str, Any] = {"error_ttl": 0.0, "name": "shop.failing"}
    if how in ("ttl", "should_cache", "key"):
        options[how] = raising(error)
    if how == "resource":
        options["resources"] = {"db": raising(error)}

    @guard.cached_many(**options)
    async def failing(ids: list[int], db: Any = None) -> dict[int, int]:
        await asyncio.sleep(0)
        if how == "body":
            raise error
        return dict.fromkeys(ids, 1)

    return lambda: failing([1, 2])


def key_of(guard: StampedeGuard, how: str, error: BaseException) -> Callable[[], Any]:
    options: dict[str, Any] = {how: raising(error)} if how in ("ttl", "should_cache") else {}

    async def compute() -> int:
        await asyncio.sleep(0)
        if how not in ("ttl", "should_cache"):
            raise error
        return 1

    return lambda: guard.get_or_compute("failing:1", compute, error_ttl=0.0, **options)


def block_of(guard: StampedeGuard, how: str, error: BaseException) -> Callable[[], Any]:
    options: dict[str, Any] = {how: raising(error)} if how in ("ttl", "should_cache") else {}

    async def call() -> int:
        async with guard.single("failing:1", error_ttl=0.0, **options) as entry:
            if entry.missing:
                if not options:
                    raise error
                await entry.set(1)
            return int(entry.value)

    return call


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("how", ["body", "ttl", "should_cache", "resource", "key"])
@pytest.mark.parametrize("face", [coroutine_of, many_of, key_of, block_of])
async def test_on_an_event_loop_too_it_reaches_its_caller_and_nobody_else(
    face: Any, how: str, error: BaseException
) -> None:
    async with StampedeGuard(MemoryStore()) as guard:
        call = face(guard, how, error)

        async def beside() -> int:
            return await guard.get_or_compute("other:1", value)

        async def value() -> int:
            await asyncio.sleep(0)
            return 7

        other = asyncio.create_task(beside())
        told = await asyncio.wait_for(told_by(call), PATIENCE)
        assert told is not None and is_or_tells(told, error)
        assert await other == 7
        assert not guard.engine.runtime().flights


async def told_by(call: Callable[[], Any]) -> BaseException | None:
    try:
        await call()
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), StopIteration()])
@pytest.mark.parametrize("how", ["body", "ttl"])
async def test_a_refresh_in_the_background_that_would_end_the_process_ends_nothing(
    how: str, error: BaseException
) -> None:
    clock = Clock()
    async with StampedeGuard(MemoryStore(clock=clock)) as guard:
        fails, runs = [False], []

        def seconds(value: int) -> float:
            if fails[0] and how == "ttl":
                raise error
            return 10.0

        @guard.locked_cache(ttl=seconds, stale_ttl=100.0, error_ttl=0.0)
        async def function() -> int:
            runs.append(1)
            if fails[0] and how == "body":
                raise error
            return len(runs)

        assert await function() == 1
        clock.advance(20)
        fails[0] = True
        assert await function() == 1, "stale"
        async with asyncio.timeout(PATIENCE):
            while guard.engine.runtime().flights:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert len(runs) == 2
        fails[0] = False
        assert await function.refresh() == 3


def test_a_portal_that_came_second_closes_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads make the first call at once. A loop that is only left lying is collected in any order, with a
    traceback on standard error."""
    first, made = portals.portal(), []

    class Late(dict[str, portals.Portal]):
        def get(self, *_: object) -> None:
            """As it was a moment before the other thread put its own there."""

    def noted() -> portals.Portal:
        made.append(portal_class())
        return made[0]

    portal_class = portals.Portal
    monkeypatch.setattr(portals, "_made", Late(portal=first))
    monkeypatch.setattr(portals, "Portal", noted)
    assert portals.portal() is first
    made[0]._thread.join(60)
    assert made[0].loop.is_closed() and not first.loop.is_closed()
