"""Under an eager task factory a task runs, within the call that makes it, up to where it first waits."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import soon


@types.coroutine
def _rest(coro: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    while True:
        thrown: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:
            thrown = error
        try:
            awaited = coro.send(None) if thrown is None else coro.throw(thrown)
        except StopIteration as done:
            return done.value


async def _outcome(value: Any, error: Exception | None) -> Any:
    if error is not None:
        raise error
    return value


def eager(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], *, context: Context | None = None
) -> asyncio.Task[Any]:
    """What asyncio.eager_task_factory of Python 3.12 does, as far as the guard can tell."""
    run = context.run if context is not None else lambda call, value: call(value)
    try:
        awaited = run(coro.send, None)
    except StopIteration as done:
        return asyncio.Task(_outcome(done.value, None), loop=loop)
    except Exception as error:
        return asyncio.Task(_outcome(None, error), loop=loop)
    return asyncio.Task(_rest(coro, awaited), loop=loop, context=context)


async def test_a_flight_that_lands_without_waiting_leaves_nothing_behind() -> None:
    factory: Any = getattr(asyncio, "eager_task_factory", None) or eager
    asyncio.get_running_loop().set_task_factory(factory)
    runs = 0

    async def fails() -> None:
        nonlocal runs
        runs += 1
        raise LookupError("no such project")

    async with StampedeGuard(MemoryStore(), policy=Policy(error_ttl=3600, wait_timeout=3600)) as guard:
        for _ in range(3):
            # From the second on the store's first answer is the failure, and nothing is waited for.
            with pytest.raises(Exception, match="no such project"):
                await soon(guard.get_or_compute("k", fails))
        assert runs == 1
        assert guard.engine.runtime().flights == {}
