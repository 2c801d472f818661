"""`in_thread=False`: a plain function computes in its caller's own thread."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from stampede_guard import ComputeTimeout, Misuse, Policy, ReentrantCall, StampedeGuard, locked_cache
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock
from tests.support.inside import runtimes_of
from tests.support.listener import PATIENCE
from tests.support.sessions import patient


@pytest.fixture(params=["memory", "valkey"])
def guard(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Iterator[StampedeGuard]:
    url = "memory://" if request.param == "memory" else valkey_url
    made = StampedeGuard.from_url(url, namespace=namespace, policy=Policy(ttl=300))
    yield made
    made.close()


class Held:
    """A computation that stays where the test wants it. `threads`: where it ran."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self) -> int:
        self.threads.append(threading.get_ident())
        self.entered.release()
        assert self.go.wait(PATIENCE)
        return len(self.threads)

    def arrival(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE)


def holding(guard: StampedeGuard, **options: Any) -> tuple[Any, Held]:
    held = Held()

    @guard.locked_cache(in_thread=False, name="held", **options)
    def compute() -> int:
        return held()

    return compute, held


def in_thread(function: Callable[[], Any]) -> tuple[Future[Any], threading.Thread]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return future, thread


def test_it_computes_in_the_callers_thread_with_its_connection(guard: StampedeGuard) -> None:
    database = sqlite3.connect(":memory:")  # refuses every other thread
    database.execute("CREATE TABLE sales (amount INTEGER)")
    database.execute("INSERT INTO sales VALUES (40), (2)")

    @guard.locked_cache(in_thread=False)
    def total(currency: str) -> int:
        found: int = database.execute("SELECT sum(amount) FROM sales").fetchone()[0]
        return found

    assert total.with_info("eur").source == "computed"
    assert [total("eur"), total.peek("eur"), total.refresh("eur")] == [42, 42, 42]
    assert total.invalidate("eur") == "done"
    assert total("eur") == 42
    told = guard.sync.get_or_compute_with_info("t", lambda: total("usd"), in_thread=False)
    assert (told.value, told.source) == (42, "computed")
    assert guard.sync.refresh("t", lambda: total("usd"), in_thread=False) == 42
    database.close()


class Out(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    amount: int


def test_a_row_that_loads_itself_does_so_in_its_thread(guard: StampedeGuard) -> None:
    database = sqlite3.connect(":memory:")

    class Row:
        @property
        def amount(self) -> int:
            found: int = database.execute("SELECT 42").fetchone()[0]
            return found

    @guard.locked_cache(in_thread=False)
    def row() -> Out:
        return Row()  # type: ignore[return-value]

    assert [row(), row()] == [Out(amount=42)] * 2
    assert guard.sync.get_or_compute("row", Row, type=Out, in_thread=False) == Out(amount=42)
    database.close()


def test_callers_in_other_threads_wait_for_it(guard: StampedeGuard) -> None:
    compute, held = holding(guard)
    first, thread = in_thread(compute)
    held.arrival()
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(compute.with_info) for _ in range(3)]
        held.go.set()
        assert first.result(PATIENCE) == 1
        assert {other.result(PATIENCE).value for other in others} == {1}
    assert held.threads == [thread.ident]


def test_an_error_goes_to_all_who_wait(guard: StampedeGuard) -> None:
    @guard.locked_cache(in_thread=False, error_ttl=0)
    def fail() -> int:
        raise LookupError("no sales")

    for _ in range(2):
        with pytest.raises(LookupError, match="no sales"):
            fail()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_computation_passes_to_the_next_caller(
    guard: StampedeGuard, interruption: type[BaseException]
) -> None:
    runs: list[int] = []
    entered, go = threading.Event(), threading.Event()

    @guard.locked_cache(in_thread=False)
    def compute() -> str:
        runs.append(threading.get_ident())
        if len(runs) == 1:
            entered.set()
            assert go.wait(PATIENCE)
            raise interruption
        return "from the next"

    first, one = in_thread(compute)
    assert entered.wait(PATIENCE)
    second, other = in_thread(compute)
    runtime = next(iter(runtimes_of(guard).values()))
    wait_for(lambda: [flight.joined for flight in runtime.flights.values()] == [2])
    go.set()
    with pytest.raises(interruption):
        first.result(PATIENCE)
    assert second.result(PATIENCE) == "from the next"
    assert runs == [one.ident, other.ident]


def test_an_interrupted_caller_leaves_no_lease(guard: StampedeGuard) -> None:
    calls = iter([KeyboardInterrupt(), None])

    # Without its release, the lease would outlast the wait.
    @guard.locked_cache(in_thread=False, lease_ttl=60, wait_timeout=5, fallback_limit=0)
    def compute() -> int:
        if (error := next(calls)) is not None:
            raise error
        return 7

    with pytest.raises(KeyboardInterrupt):
        compute()
    assert compute() == 7


def test_ctrl_c_while_it_waits_ends_only_this_call(guard: StampedeGuard) -> None:
    compute, held = holding(guard)
    first, _ = in_thread(compute)
    held.arrival()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    runtime, main = next(iter(runtimes_of(guard).values())), threading.main_thread().ident or 0

    def interrupt() -> None:
        wait_for(lambda: [flight.joined for flight in runtime.flights.values()] == [2])
        signal.pthread_kill(main, signal.SIGINT)

    interrupted, _ = in_thread(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            compute()
    finally:
        interrupted.result(PATIENCE)
        signal.signal(signal.SIGINT, before)
    held.go.set()
    assert first.result(PATIENCE) == 1 and len(held.threads) == 1


def test_the_deadline_frees_the_lease_and_fails_those_who_wait() -> None:
    guard = StampedeGuard.from_url("memory://", policy=Policy(ttl=300, compute_timeout=0.1, error_ttl=0))
    compute, held = holding(guard)
    first, _ = in_thread(compute)
    held.arrival()
    second, _ = in_thread(compute)
    with pytest.raises(ComputeTimeout):
        second.result(PATIENCE)
    assert not first.done(), "its own thread cannot be stopped"
    held.go.set()
    with pytest.raises(ComputeTimeout):
        first.result(PATIENCE)
    guard.close()


def test_a_long_computation_keeps_its_lease(valkey_url: str, namespace: str) -> None:
    """The thread computes, and the event loop of plain functions renews."""
    policy = Policy(ttl=300, lease_ttl=0.3, poll_interval=0.1, takeover_gap=0.1)
    one = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, policy=policy)
    other = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, policy=policy)
    renewals, (compute, held) = threading.Semaphore(0), holding(one)
    beside, never = holding(other)
    first, _ = in_thread(compute)
    held.arrival()
    session = next(iter(runtimes_of(one).values())).session
    renew = session.renew

    async def counted(*args: Any, **kwargs: Any) -> bool:
        renewed = await renew(*args, **kwargs)
        assert renewed
        renewals.release()
        return renewed

    session.renew = counted  # type: ignore[method-assign]
    second, _ = in_thread(beside)
    for _ in range(4):
        assert renewals.acquire(timeout=PATIENCE)
    held.go.set()
    assert first.result(PATIENCE) == 1 == second.result(PATIENCE)
    assert never.threads == []
    one.close()
    other.close()


def test_a_stale_value_is_computed_by_its_caller_and_not_behind() -> None:
    clock = FakeClock()
    guard = StampedeGuard(MemoryStore(clock=clock), policy=Policy(ttl=60, stale_ttl=600))
    threads: list[int] = []

    @guard.locked_cache(in_thread=False)
    def compute() -> int:
        threads.append(threading.get_ident())
        return len(threads)

    assert compute() == 1
    clock.advance(100)
    assert compute() == 2
    assert set(threads) == {threading.get_ident()}
    guard.close()


def test_nested_calls_compute_in_the_same_thread_and_circles_are_errors(guard: StampedeGuard) -> None:
    @guard.locked_cache(in_thread=False)
    def inner(number: int) -> int:
        return threading.get_ident()

    @guard.locked_cache(in_thread=False)
    def outer(number: int) -> int:
        return inner(number) if number else outer(number)

    assert outer(1) == threading.get_ident()
    with pytest.raises(ReentrantCall):
        outer(0)


def test_its_context_is_clean(guard: StampedeGuard) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    locale: ContextVar[str] = ContextVar("locale", default="none")

    @guard.locked_cache(in_thread=False, context=(tenant,))
    def seen() -> list[str]:
        return [tenant.get(), locale.get()]

    tenant.set("acme")
    locale.set("de")
    assert seen() == ["acme", "none"], "what is not in the key must not decide the value"


async def test_in_an_event_loop_it_computes_in_that_loops_thread() -> None:
    guard = StampedeGuard(MemoryStore())

    @guard.locked_cache(in_thread=False)
    def here() -> bool:
        return asyncio.get_running_loop() is not None

    assert here() is True
    await guard.aclose()


def test_modes_without_the_store_compute_there_too(guard: StampedeGuard) -> None:
    @guard.locked_cache(in_thread=False)
    def where() -> int:
        return threading.get_ident()

    for mode in ("bypass", "off", "shadow", "on"):
        guard.mode = mode  # type: ignore[assignment]
        assert where() == threading.get_ident()
    with guard.bypassed():
        assert where() == threading.get_ident()


def test_coroutine_functions_and_wrong_values_are_refused() -> None:
    with pytest.raises(Misuse, match="for plain functions"):

        @locked_cache(ttl=60, in_thread=False)
        async def compute() -> int:
            return 1

    with pytest.raises(Misuse, match="in_thread"), contextlib.suppress(TypeError):
        locked_cache(ttl=60, in_thread="no")  # type: ignore[call-overload]


def wait_for(condition: Callable[[], object]) -> None:
    """In a thread without an event loop."""
    turn = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if condition():
            return
        turn.wait(0.001)
    raise TimeoutError
