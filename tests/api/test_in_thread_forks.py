"""`in_thread=False` in processes that fork while a call computes or waits."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from stampede_guard import Policy, StampedeGuard, WaitTimeout
from stampede_guard.engine.threads import threads
from tests.api.test_in_thread import holding, in_thread, wait_for
from tests.support.inside import runtimes_of
from tests.support.listener import PATIENCE


@pytest.fixture(params=["memory", "valkey"])
def guard(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Iterator[StampedeGuard]:
    url = "memory://" if request.param == "memory" else valkey_url
    made = StampedeGuard.from_url(url, namespace=namespace, policy=Policy(ttl=300))
    yield made
    made.close()


def end_of_child(call: Callable[[], object], fork: Callable[[], int]) -> tuple[object, int]:
    """What a call returns here, and the status of the child that `fork` has made during it.

    The child ends with 7 if the call has returned "child" there, and with 8 or 6 if it has raised the child's error.
    """
    here, status = os.getpid(), 9
    found: object = None
    try:
        found, status = call(), 7
    except LookupError as error:
        status = 8 if str(error) == "in the child" else 9
    except SystemExit as error:
        status = 6 if error.code == "in the child" else 9
    finally:
        if os.getpid() != here:
            os._exit(9 if status == 7 and found != "child" else status)
    return found, os.waitstatus_to_exitcode(os.waitpid(fork(), 0)[1])


ENDS: dict[str, int] = {"returns": 7, "raises": 8, "exits": 6}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("through", ["function", "with_info", "nested", "sync"])
def test_in_a_child_that_the_function_forks_the_call_ends_with_what_the_function_does_there(
    guard: StampedeGuard, through: str, how: str
) -> None:
    children: list[int] = []

    @guard.locked_cache(in_thread=False)
    def forks() -> str:
        children.append(os.fork())
        if children[-1]:
            return "parent"
        signal.alarm(int(PATIENCE))
        assert other(7) == 7, "the child can call, too"
        if how == "exits":
            sys.exit("in the child")
        if how == "raises":
            raise LookupError("in the child")
        return "child"

    @guard.locked_cache(in_thread=False)
    def other(number: int) -> int:
        return number

    @guard.locked_cache(in_thread=False)
    def nested() -> str:
        return forks()

    calls: dict[str, Callable[[], object]] = {
        "function": forks,
        "nested": nested,
        "with_info": lambda: forks.with_info().value,
        "sync": lambda: guard.sync.get_or_compute("forks", forks.__wrapped__, in_thread=False),
    }
    assert end_of_child(calls[through], children.pop) == ("parent", ENDS[how])
    assert calls[through]() == "parent", "it was stored"
    assert children == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_its_caller_waits_does_not_wait_for_the_parents_loop(
    guard: StampedeGuard,
) -> None:
    compute, held = holding(guard)
    first, _ = in_thread(compute)
    held.arrival()
    children: list[int] = []
    runtime, main = next(iter(runtimes_of(guard).values())), threading.main_thread().ident or 0

    def fork(*_: object) -> None:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        held.go.set()

    def interrupt() -> None:
        wait_for(lambda: [flight.joined for flight in runtime.flights.values()] == [2])
        signal.pthread_kill(main, signal.SIGUSR1)

    before, here = signal.signal(signal.SIGUSR1, fork), os.getpid()
    interrupted, _ = in_thread(interrupt)
    try:
        found: object = compute()
    except WaitTimeout as error:
        found = str(error)
    finally:
        if os.getpid() != here:
            os._exit(7 if "forked" in str(found) else 9)
        signal.signal(signal.SIGUSR1, before)
    interrupted.result(PATIENCE)
    assert (found, first.result(PATIENCE)) == (1, 1)
    assert os.waitstatus_to_exitcode(os.waitpid(children.pop(), 0)[1]) == 7


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_in_a_thread_of_the_pool_ends_with_its_function(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has this thread only, and its caller is in the parent. It must not wait there for other computations."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 1e6)
    children: list[int] = []

    @guard.locked_cache()
    def forks() -> str:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        return "parent"

    assert forks() == "parent"
    assert os.waitstatus_to_exitcode(os.waitpid(children.pop(), 0)[1]) == 0
    assert forks.refresh() == "parent", "the parent has its thread and its pool"
    assert os.waitstatus_to_exitcode(os.waitpid(children.pop(), 0)[1]) == 0
