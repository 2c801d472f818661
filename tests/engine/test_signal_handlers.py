"""A signal handler calls what the interrupted thread waits for. Its computation belongs to that thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.engine.threads.portal import portal
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import until


@pytest.fixture
def guard() -> Iterator[StampedeGuard]:
    made = StampedeGuard(MemoryStore(), namespace="t")
    yield made
    made.close()


def interrupted(guard: StampedeGuard, call: Callable[[], Any], handler: Callable[[], Any]) -> list[Any]:
    """The results of the handler and of the call. The handler's call joins before the store answers the first one."""
    results: list[Any] = []
    main = threading.get_ident()

    async def prepare() -> None:
        runtime = guard.engine.runtime()
        inner = runtime.session.acquire

        async def held(*args: Any, **kwargs: Any) -> Any:
            runtime.session.acquire = inner  # type: ignore[method-assign]
            (flight,) = runtime.flights.values()
            signal.pthread_kill(main, signal.SIGUSR1)
            await until(lambda: flight.joined > 1 or len(flight.landing))
            return await inner(*args, **kwargs)

        runtime.session.acquire = held  # type: ignore[method-assign]

    portal().call(prepare)
    before = signal.signal(signal.SIGUSR1, lambda *_: results.append(handler()))
    try:
        results.append(call())
    finally:
        signal.signal(signal.SIGUSR1, before)
    return results


def test_it_computes_for_both(guard: StampedeGuard) -> None:
    threads: list[int] = []

    @guard.locked_cache(ttl=60, in_thread=False, wait_timeout=60, name="here")
    def here(id: int) -> int:
        threads.append(threading.get_ident())
        return id

    assert interrupted(guard, lambda: here(7), lambda: here(7)) == [7, 7]
    assert threads == [threading.get_ident()]


def test_it_computes_for_a_refresh_that_waits_for_the_interrupted_call(guard: StampedeGuard) -> None:
    computed: list[int] = []

    @guard.locked_cache(ttl=60, in_thread=False, wait_timeout=60, name="here")
    def here(id: int) -> int:
        computed.append(id)
        return len(computed)

    assert interrupted(guard, lambda: here(7), lambda: here.refresh(7)) == [2, 1]


def test_an_error_of_its_goes_to_both(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, in_thread=False, wait_timeout=60, name="here")
    def here(id: int) -> int:
        raise LookupError(id)

    def failing() -> str:
        with pytest.raises(LookupError):
            here(7)
        return "failed"

    assert interrupted(guard, failing, failing) == ["failed", "failed"]


def test_an_exit_in_it_ends_both_and_the_next_call_computes(guard: StampedeGuard) -> None:
    exits = [SystemExit(3)]

    @guard.locked_cache(ttl=60, in_thread=False, wait_timeout=60, name="here")
    def here(id: int) -> int:
        if exits:
            raise exits.pop()
        return id

    with pytest.raises(SystemExit):
        interrupted(guard, lambda: here(7), lambda: here(7))
    assert here(7) == 7
