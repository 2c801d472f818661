"""A plain caller that waits for a run is the thread in which the function of the run is called."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse, WaitTimeout
from stampede_guard.jobs.threads import CallersThread
from stampede_guard.jobs.threads import in_thread as run_in_thread

PATIENCE = 60.0
MAIN = threading.get_ident()


class Interrupted(BaseException):
    """As Ctrl-C or a soft time limit."""


class Running:
    """The part of a `Run` that matters here."""

    patience = 600.0
    goes_on = False

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def stop(self, why: str) -> None:
        self.stopped.append(why)


@contextmanager
def interruptions(left: threading.Event) -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        left.set()
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def a_run() -> Any:
    return Running()


def test_the_function_runs_in_the_callers_thread_and_the_coroutine_gets_its_result() -> None:
    thread = CallersThread()

    async def start() -> tuple[int, int]:
        return threading.get_ident(), await thread.run(threading.get_ident, name="n", run=a_run())

    loops, callers = thread.wait(start)
    assert callers == MAIN != loops


def test_a_coroutine_that_fails_without_calling_the_function_fails_the_caller() -> None:
    async def start() -> None:
        raise LookupError("no slot")

    with pytest.raises(LookupError, match="no slot"):
        CallersThread().wait(start)


def test_the_function_of_a_caller_that_has_left_is_never_called() -> None:
    """1. The coroutine is about to hand the function over. 2. The caller is interrupted. 3. Nobody takes it."""
    thread, run = CallersThread(), a_run()
    ran: list[int] = []
    left, ended = threading.Event(), threading.Event()

    async def start() -> None:
        signal.pthread_kill(MAIN, signal.SIGUSR1)
        assert left.wait(PATIENCE)
        try:
            await thread.run(lambda: ran.append(1), name="n", run=run)
        finally:
            ended.set()

    with interruptions(left), pytest.raises(Interrupted):
        thread.wait(start)
    assert ended.wait(PATIENCE)
    assert (ran, run.stopped) == ([], [])


def test_a_caller_that_is_interrupted_while_it_hands_over_leaves_no_coroutine_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, alive = portal().loop, []
    hand_over = loop.call_soon_threadsafe

    def interrupted(callback: Any, *args: Any, **more: Any) -> None:
        hand_over(callback, *args, **more)
        if callback.__name__ == "begin":
            raise Interrupted

    async def start() -> None:
        alive.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            alive.append("ended")

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    for _ in range(50):
        with pytest.raises(Interrupted):
            CallersThread().wait(start)
        for _ in range(3):
            portal().call(asyncio.sleep, 0)
        assert alive in ([], ["begun", "ended"])
        alive.clear()


def test_a_caller_is_refused_on_the_event_loop_that_it_would_wait_for() -> None:
    async def call() -> None:
        CallersThread().wait(_never)

    with pytest.raises(Misuse, match="wait for itself"):
        portal().call(call)


def end_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_child_that_the_function_forks_the_wait_ends_with_what_is_said_for_it() -> None:
    thread, children, here, found = CallersThread(), [], os.getpid(), ""

    def forks() -> str:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        return "parent"

    async def start() -> str:
        return await thread.run(forks, name="n", run=a_run())

    try:
        found = thread.wait(start, in_child=lambda: "child")
    finally:
        if os.getpid() != here:
            os._exit(7 if found == "child" else 9)
    assert (found, end_of(children.pop())) == ("parent", 7)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_during_the_wait_does_not_wait_for_the_parents_loop() -> None:
    thread, children, here, found = CallersThread(), [], os.getpid(), ""
    forked = threading.Event()

    def fork(*_: object) -> None:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        forked.set()

    async def start() -> str:
        signal.pthread_kill(MAIN, signal.SIGUSR1)
        await asyncio.get_running_loop().run_in_executor(None, forked.wait, PATIENCE)
        return "parent"

    before = signal.signal(signal.SIGUSR1, fork)
    try:
        found = thread.wait(start)
    except WaitTimeout as error:
        found = str(error)
    finally:
        if os.getpid() != here:
            os._exit(7 if "forked" in found else 9)
        signal.signal(signal.SIGUSR1, before)
    assert (found, end_of(children.pop())) == ("parent", 7)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_a_function_forks_in_its_own_thread_ends_with_the_thread() -> None:
    children: list[int] = []

    def forks() -> str:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        return "parent"

    assert asyncio.run(run_in_thread(forks, name="n", run=a_run())) == "parent"
    assert end_of(children.pop()) == 0


async def _never() -> None:
    raise AssertionError("it is not called")
