"""Plain functions: the same engine, waited for by threads."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool

from stampede_guard import Policy, PolicyError, StampedeGuard, configure, locked_cache
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.engine.threads.portal import portal
from stampede_guard.engine.threads.threads import Threads
from stampede_guard.errors import ComputeFailed, ComputeTimeout, Misuse, ReentrantCall
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import soon, until
from tests.support.inside import runtimes_of
from tests.support.listener import PATIENCE
from tests.support.sessions import patient

ROOT = Path(__file__).resolve().parents[2]


class Door:
    """A gate for threads: who comes to `hold` stays until `open`."""

    def __init__(self) -> None:
        self.entered = 0
        self._lock = threading.Lock()
        self._arrivals = threading.Semaphore(0)
        self._opened = threading.Event()

    def hold(self) -> None:
        with self._lock:
            self.entered += 1
        self._arrivals.release()
        assert self._opened.wait(PATIENCE)

    def arrival(self) -> None:
        assert self._arrivals.acquire(timeout=PATIENCE)

    def open(self) -> None:
        self._opened.set()


def on_portal(look: Callable[[], Any]) -> Any:
    """What `look()` returns, called on the portal's event loop."""

    async def there() -> Any:
        return look()

    return portal().call(there)


def wait_until(condition: Callable[[], object]) -> None:
    """Until something is so, seen from the portal's loop."""
    portal().call(until, condition)


def runtime(guard: StampedeGuard) -> Runtime:
    found: Runtime = on_portal(guard.engine.runtime)
    return found


def waits_for(guard: StampedeGuard, key: str, callers: int) -> None:
    flights = runtime(guard).flights
    wait_until(lambda: key in flights and flights[key].joined >= callers)


@pytest.fixture(params=["memory", "valkey"])
def guard(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Iterator[StampedeGuard]:
    url = "memory://" if request.param == "memory" else valkey_url
    made = StampedeGuard.from_url(url, namespace=namespace)
    yield made
    made.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as made:
        yield made


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(PATIENCE) for future in futures]


# --- it is the function that it was -------------------------------------------------------------------


def test_threads_that_call_a_plain_function_at_once_share_one_computation(
    guard: StampedeGuard, pool: ThreadPoolExecutor
) -> None:
    door = Door()

    @guard.locked_cache(ttl=300)
    def quality(project: int) -> list[int]:
        door.hold()
        return [project]

    callers = [pool.submit(quality, 7) for _ in range(20)]
    waits_for(guard, quality.key(7), 20)
    door.open()
    values = results(callers)
    assert values == [[7]] * 20
    assert len({id(value) for value in values}) == 20, "what is mutable is nobody else's"
    assert quality(7) == [7]
    assert door.entered == 1


def test_a_plain_function_and_a_coroutine_function_of_two_event_loops_share_one_lease(
    valkey_url: str, namespace: str, pool: ThreadPoolExecutor
) -> None:
    guard, other = (StampedeGuard.from_url(patient(valkey_url), namespace=namespace) for _ in range(2))
    door, computed = Door(), []

    @guard.locked_cache(ttl=300, name="one")
    def plain() -> int:
        door.hold()
        computed.append("plain")
        return 1

    @other.locked_cache(ttl=300, name="one")
    async def coroutine() -> int:
        computed.append("coroutine")
        return 2

    async def main() -> list[int]:
        async with guard, other:
            first = asyncio.create_task(asyncio.to_thread(plain))
            await asyncio.to_thread(door.arrival)
            second = asyncio.create_task(coroutine())
            await until(lambda: any(flight.joined for flight in other.engine.runtime().flights.values()))
            door.open()
            return await soon(asyncio.gather(first, second))

    assert plain.key() == coroutine.key()
    assert asyncio.run(main()) == [1, 1]
    assert computed == ["plain"]


def test_a_plain_function_stays_one_with_name_signature_and_the_other_methods(guard: StampedeGuard) -> None:
    calls = []

    def quality(project: int, *, deep: bool = False) -> int:
        """How good a project is."""
        calls.append(project)
        return len(calls)

    cached = guard.locked_cache(ttl=300)(quality)
    assert not inspect.iscoroutinefunction(cached)
    assert inspect.signature(cached) == inspect.signature(quality)
    assert (cached.__name__, cached.__doc__) == ("quality", "How good a project is.")  # type: ignore[attr-defined]
    assert [cached(7), cached(7, deep=False), cached(8)] == [1, 1, 2]
    assert cached.invalidate(7) == "done"
    assert [cached(7), cached(8)] == [3, 2]
    assert cached.refresh(8) == 4
    assert cached(8) == 4
    assert cached.explain(7)["project"] == "7"
    with pytest.raises(TypeError, match="unexpected keyword argument 'nobody'"):
        cached(7, nobody=1)  # type: ignore[call-arg]


def test_what_a_plain_function_raises_reaches_every_caller_and_is_remembered(
    guard: StampedeGuard, pool: ThreadPoolExecutor
) -> None:
    door = Door()

    @guard.locked_cache(ttl=300, error_ttl=60)
    def quality() -> int:
        door.hold()
        raise LookupError("no such project")

    callers = [pool.submit(quality) for _ in range(5)]
    waits_for(guard, quality.key(), 5)
    door.open()
    for caller in callers:
        with pytest.raises(LookupError, match="no such project"):
            caller.result(PATIENCE)
    with pytest.raises((LookupError, ComputeFailed), match="no such project"):
        quality()
    assert door.entered == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(1), GeneratorExit()])
def test_what_would_end_a_thread_or_a_loop_is_an_ordinary_error_of_the_computation(
    guard: StampedeGuard, error: BaseException
) -> None:
    @guard.locked_cache(ttl=300)
    def quality(project: int) -> int:
        if project == 7:
            raise error
        return project

    with pytest.raises((ComputeFailed, RuntimeError)):
        quality(7)
    assert quality(8) == 8, "the portal lives on"


def test_off_is_a_plain_call_in_the_callers_own_thread() -> None:
    guard = StampedeGuard(MemoryStore(), policy=Policy(mode="off"))

    @guard.locked_cache(ttl=300)
    def where() -> str:
        return threading.current_thread().name

    assert [where(), where.refresh()] == [threading.current_thread().name] * 2
    assert not runtimes_of(guard)


def test_off_needs_no_key_also_with_l1() -> None:
    guard = StampedeGuard(MemoryStore(), policy=Policy(mode="off", l1_ttl=5))

    @guard.locked_cache(ttl=300)
    def given(session: object) -> object:
        return session

    no_part_of_a_key = object()
    assert given(no_part_of_a_key) is no_part_of_a_key


def test_bypassed_holds_for_plain_functions_called_in_its_block(guard: StampedeGuard) -> None:
    calls = []

    @guard.locked_cache(ttl=300)
    def quality() -> int:
        calls.append(1)
        return len(calls)

    assert quality() == 1
    with guard.bypassed():
        assert quality() == 2
    assert quality() == 1


# --- contexts and resources ---------------------------------------------------------------------------

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def test_a_named_variable_of_the_callers_thread_is_seen_and_all_others_are_not(guard: StampedeGuard) -> None:
    def greeting() -> str:
        return f"hello {tenant.get()}"

    clean, named = (
        guard.locked_cache(ttl=300)(greeting),
        guard.locked_cache(ttl=300, context=(tenant,), name="named")(greeting),
    )
    token = tenant.set("acme")
    try:
        assert (clean(), named()) == ("hello nobody", "hello acme")
    finally:
        tenant.reset(token)
    assert named() == "hello nobody"


def test_a_resource_is_opened_and_closed_in_the_thread_that_computes(guard: StampedeGuard) -> None:
    seen = []

    @contextlib.contextmanager
    def session() -> Iterator[str]:
        seen.append(threading.get_ident())
        yield "session"
        seen.append(threading.get_ident())

    @guard.locked_cache(ttl=300, resources={"db": session})
    def quality(db: str) -> str:
        seen.append(threading.get_ident())
        return db

    assert quality() == quality() == "session"  # type: ignore[call-arg]
    assert len(seen) == 3 and len(set(seen)) == 1
    assert seen[0] != threading.get_ident()


def test_an_asynchronous_resource_of_a_plain_function_is_open_while_its_thread_computes(
    guard: StampedeGuard,
) -> None:
    seen = []

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[str]:
        task = asyncio.current_task()
        seen.append("open")
        yield "session"
        seen.append("closed" if asyncio.current_task() is task else "closed by another task")

    @guard.locked_cache(ttl=300, resources={"db": session})
    def quality(db: str) -> str:
        seen.append("used")
        return db

    assert quality() == quality() == "session"  # type: ignore[call-arg]
    assert seen == ["open", "used", "closed"]


def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async(guard: StampedeGuard) -> None:
    async def inner() -> int:
        return 1

    @guard.locked_cache(ttl=300)
    def quality() -> Any:
        return inner()

    with pytest.raises(Misuse, match="write async def"):
        quality()


# --- threads ------------------------------------------------------------------------------------------


def test_no_more_than_max_threads_compute_at_once(pool: ThreadPoolExecutor) -> None:
    guard = StampedeGuard(MemoryStore(), limits=Limits(max_threads=2))
    door = Door()

    @guard.locked_cache(ttl=300)
    def quality(project: int) -> int:
        door.hold()
        return project

    callers = [pool.submit(quality, project) for project in range(6)]
    wait_until(lambda: len(guard.engine.runtime().flights) == 6)
    door.arrival(), door.arrival()
    assert door.entered == runtime(guard).threads.busy == 2
    door.open()
    assert results(callers) == list(range(6))
    guard.close()


def test_max_threads_is_for_the_whole_guard_and_refused_elsewhere() -> None:
    with pytest.raises(PolicyError, match="it belongs to the guard"):
        locked_cache(ttl=300, max_threads=3)(threading.active_count)


def test_functions_that_call_each_other_do_not_wait_for_each_others_threads(pool: ThreadPoolExecutor) -> None:
    guard = StampedeGuard(MemoryStore(), limits=Limits(max_threads=1))

    @guard.locked_cache(ttl=300)
    def fibonacci(number: int) -> int:
        return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

    callers = [pool.submit(fibonacci, number) for number in (12, 12, 11)]
    assert results(callers) == [144, 144, 89]
    wait_until(lambda: guard.engine.runtime().threads.busy == 0)
    guard.close()


def test_a_function_that_calls_itself_with_its_own_key_is_an_error_and_not_a_deadlock(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300)
    def quality(project: int) -> int:
        return quality(project)

    with pytest.raises(ReentrantCall):
        quality(7)


def test_an_overdue_thread_is_abandoned_counted_and_its_key_is_free(
    guard: StampedeGuard, pool: ThreadPoolExecutor
) -> None:
    door, slow = Door(), [True]

    @guard.locked_cache(ttl=300, compute_timeout=0.2, error_ttl=0)
    def quality() -> int:
        if slow.pop() if slow else False:
            door.hold()
        return 1

    callers = [pool.submit(quality) for _ in range(3)]
    for caller in callers:
        with pytest.raises(ComputeTimeout):
            caller.result(PATIENCE)
    here = runtime(guard)
    assert (here.abandoned, here.threads.busy) == (1, 1)
    assert quality() == 1, "another computation may run beside the one that was left"
    assert here.abandoned == 1
    door.open()
    wait_until(lambda: here.abandoned == 0 and here.threads.busy == 0)


def test_a_job_whose_time_is_over_before_it_got_a_thread_is_never_begun(pool: ThreadPoolExecutor) -> None:
    guard = StampedeGuard(MemoryStore(), limits=Limits(max_threads=1))
    door, begun = Door(), []

    @guard.locked_cache(ttl=300)
    def slow() -> int:
        door.hold()
        return 1

    @guard.locked_cache(ttl=300, compute_timeout=0.1)
    def late() -> int:
        begun.append(1)
        return 2

    first = pool.submit(slow)
    door.arrival()
    with pytest.raises(ComputeTimeout):
        late()
    assert runtime(guard).abandoned == 0
    door.open()
    assert first.result(PATIENCE) == 1
    wait_until(lambda: guard.engine.runtime().threads.busy == 0)
    assert begun == []
    guard.close()


async def test_a_thread_that_gets_no_job_within_its_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stampede_guard.engine.threads.threads.IDLE_SECONDS", 0.01)
    threads = Threads(2)
    thread = await threads.run(threading.current_thread)
    await until(lambda: not thread.is_alive())
    assert await threads.run(threading.current_thread) is not thread


async def test_closed_threads_end_and_what_they_have_begun_is_finished() -> None:
    threads, door = Threads(2), Door()
    idle = await threads.run(threading.current_thread)

    def work() -> threading.Thread:
        door.hold()
        return threading.current_thread()

    under_way = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(door.arrival)
    threads.close()
    door.open()
    busy = await soon(under_way)
    await until(lambda: not idle.is_alive() and not busy.is_alive())


# --- frameworks and loops ------------------------------------------------------------------------------


async def test_sixty_callers_of_a_sync_endpoint_do_not_starve_the_computation_of_threads(
    guard: StampedeGuard,
) -> None:
    """anyio has 40 threads: with all callers waiting in them, a computation that needs one of them never begins."""
    app, door = FastAPI(), Door()
    guard.install(app)
    tokens = anyio.to_thread.current_default_thread_limiter()

    @app.get("/quality")
    @guard.locked_cache(ttl=300)
    def quality(project: int) -> dict[str, int]:
        door.hold()
        return {"project": project}

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        requests = [asyncio.create_task(client.get("/quality?project=7")) for _ in range(60)]
        await until(lambda: tokens.available_tokens == 0)
        await asyncio.to_thread(lambda: None)  # the loop's own pool is not theirs either
        await _in_thread(door.arrival)
        door.open()
        answers = await soon(asyncio.gather(*requests))
    assert [answer.json() for answer in answers] == [{"project": 7}] * 60
    assert door.entered == 1
    await guard.aclose()


async def test_a_computation_that_needs_a_thread_of_anyio_gets_one_when_callers_are_served(
    guard: StampedeGuard,
) -> None:
    """An async endpoint's computation takes one of the 40 threads; 60 sync callers wait for another function."""
    app = FastAPI()

    @guard.locked_cache(ttl=300)
    def plain(project: int) -> int:
        return project

    @guard.locked_cache(ttl=300)
    async def through_anyio(project: int) -> int:
        return await run_in_threadpool(plain, project)

    @app.get("/plain")
    def plain_endpoint(project: int, also: int = Depends(plain)) -> int:
        return plain(project) + also

    @app.get("/async")
    async def async_endpoint(project: int) -> int:
        return await through_anyio(project)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        paths = [f"/{kind}?project={project}" for project in range(3) for kind in ("plain", "async")] * 10
        answers = await soon(asyncio.gather(*map(client.get, paths)))
    assert {answer.status_code for answer in answers} == {200}
    await guard.aclose()


async def test_a_plain_function_may_be_called_by_a_coroutine_whose_loop_it_blocks(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300)
    def quality(project: int) -> int:
        return project

    assert [quality(7), quality(7), quality.refresh(7)] == [7] * 3
    assert quality.invalidate(7) == "done"
    await guard.aclose()
    assert not runtimes_of(guard), "closed with the part of the portal"


def test_on_the_portals_own_thread_a_call_is_an_error_and_not_a_deadlock(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    def inner(project: int) -> int:
        return project

    @guard.locked_cache(ttl=300, key=inner)
    def outer(project: int) -> int:
        return project

    with pytest.raises(Misuse, match="on stampede_guard's own event loop"):
        outer(7)


def test_what_the_collector_invalidates_on_the_portals_own_thread_is_invalidated(
    guard: StampedeGuard,
) -> None:
    numbers = [1]

    @guard.locked_cache(ttl=300)
    def price(id: int) -> int:
        return numbers[-1]

    class Draft:
        def __del__(self) -> None:
            told.append(price.invalidate(7))

    assert price(7) == 1
    told: list[str] = []
    draft = [Draft()]
    numbers.append(2)
    on_portal(draft.clear)  # the last reference is dropped there
    assert told == ["pending"]
    wait_until(lambda: not portal()._begun)
    assert price(7) == 2


def test_an_invalidation_that_fails_there_is_logged(
    guard: StampedeGuard, caplog: pytest.LogCaptureFixture
) -> None:
    @guard.locked_cache(ttl=300)
    def price(id: int) -> int:
        return id

    assert on_portal(lambda: price.invalidate(object())) == "pending"  # type: ignore[arg-type]
    on_portal(lambda: None)
    assert "an invalidation on the event loop of plain functions failed" in caplog.text


def test_too_many_invalidations_there_are_refused(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.engine.threads.portal.MOST_BEGUN", 1)

    def two() -> None:
        assert portal().invalidate(guard.invalidate, "a") == "pending"
        with pytest.raises(Misuse, match="on stampede_guard's own event loop"):
            portal().invalidate(guard.invalidate, "b")

    on_portal(two)


# --- interruptions ------------------------------------------------------------------------------------


def test_an_interrupted_caller_leaves_and_the_others_are_served(
    guard: StampedeGuard, pool: ThreadPoolExecutor
) -> None:
    door = Door()

    @guard.locked_cache(ttl=300)
    def quality() -> int:
        door.hold()
        return 7

    flights = runtime(guard).flights
    key = quality.key()

    def interrupt() -> None:
        door.arrival()
        waits_for(guard, key, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    striking = pool.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        quality()
    striking.result(PATIENCE)
    assert len(flights[key].passengers) == 0, "its place was given up"
    other = pool.submit(quality)
    waits_for(guard, key, 2)
    door.open()
    assert other.result(PATIENCE) == 7
    assert door.entered == 1


# --- processes ----------------------------------------------------------------------------------------

_forked = StampedeGuard(MemoryStore(), namespace="forked")


@_forked.locked_cache(ttl=300)
def process_of(project: int) -> int:
    return os.getpid()


def _child(answers: Any) -> None:
    answers.put((os.getpid(), process_of(8)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_portal_of_its_own() -> None:
    assert process_of(7) == os.getpid()
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=_child, args=(answers,))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    pid, computed_in = answers.get()
    assert pid == computed_in == child.pid
    assert process_of(9) == os.getpid(), "the parent's goes on"
    _forked.close()


SCRIPT = """
import threading, time
from stampede_guard import StampedeGuard, configure, locked_cache

configure(StampedeGuard.from_url({url!r}, namespace={namespace!r}))

@locked_cache(ttl=0.05, stale_ttl=60, name="script.quality")
def quality(project: int) -> int:
    return time.monotonic_ns()

first = quality(7)
while quality(7) == first:  # then a refresh was done in the background
    time.sleep(0.01)
print("computed", threading.active_count() > 1)
"""


@pytest.mark.parametrize("store", ["memory", "valkey"])
def test_a_script_without_an_event_loop_ends_in_order(store: str, valkey_url: str, namespace: str) -> None:
    url = "memory://" if store == "memory" else valkey_url
    command = [sys.executable, "-W", "error", "-c", SCRIPT.format(url=url, namespace=namespace)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE * 4, check=False
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("computed True", "", 0)


LEAVING = """
import time
from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url({url!r}, namespace={namespace!r})
calls = []

@guard.locked_cache(ttl=0.05, stale_ttl=60, name="script.quality")
def quality(project: int) -> int:
    calls.append(1)
    if len(calls) == 2:
        print("refreshing", flush=True)
        time.sleep(0.3)
        print("refreshed", flush=True)
    return len(calls)

while len(calls) < 2:
    quality(7)
"""


def test_a_background_computation_ends_before_its_process_does(valkey_url: str, namespace: str) -> None:
    command = [sys.executable, "-W", "error", "-c", LEAVING.format(url=valkey_url, namespace=namespace)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE * 4, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("refreshing\nrefreshed\n", "", 0)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """In a thread that is no framework's."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        return await loop.run_in_executor(pool, function)


def test_the_default_guard_serves_plain_functions_too() -> None:
    configure(StampedeGuard(MemoryStore(), namespace="default"))
    try:

        @locked_cache(ttl=300)
        def quality() -> int:
            return 1

        assert quality() == 1
        assert quality.key().startswith("default:")
    finally:
        configure(None)
