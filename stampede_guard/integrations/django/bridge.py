"""The way from Django's threads to the guard, which lives on the event loop of plain functions.

Under Django, a process has one runtime of the guard for all its threads and event loops. Under
WSGI, each request of an async view has an event loop of its own, which ends with the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from stampede_guard.engine.threads.desk import DESK, Desk
from stampede_guard.engine.threads.portal import portal
from stampede_guard.integrations.django.lazy import evaluate

__all__ = ["AsyncCaller", "Caller", "submit", "wait"]

T = TypeVar("T")


def wait(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the coroutine function, run on the guard's event loop. The caller's thread waits."""
    return portal().call(function)


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run it on the guard's event loop. Cancelling the future cancels the coroutine."""
    return asyncio.run_coroutine_threadsafe(coroutine, portal().loop)


class Caller:
    """One call of a plain function. Its computation runs in the caller's own thread, so in the caller's transaction.

    `key` holds the parts of its key. They are made in the caller's thread, too: elsewhere, Django has other languages.
    """

    def __init__(self, function: Callable[..., Any], key: Any = None) -> None:
        self.key = key
        self._function = function
        self._desk: Desk | None = None

    async def compute(self, args: Any, kwargs: Any) -> Any:
        """On the guard's event loop: hand the computation to the caller's thread, in the flight's context."""
        assert self._desk is not None
        return await self._desk.run(lambda: self._function(*args, **kwargs))

    def call(self, face: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the cached function. This thread waits, and computes if it is asked to."""

        evaluate((args, kwargs, self.key))

        async def served() -> Any:
            self._desk = DESK.get()
            return await face(*args, **kwargs, stampede_guard_caller=self)

        return portal().call_here(served)


class AsyncCaller:
    """The same for a coroutine function: it computes on its caller's event loop."""

    def __init__(self, function: Callable[..., Awaitable[Any]], key: Any = None) -> None:
        self.key = key
        self._function = function
        self._loop = asyncio.get_running_loop()

    async def compute(self, args: Any, kwargs: Any) -> Any:
        context = copy_context()

        async def run() -> Any:
            return await asyncio.create_task(self._run(args, kwargs), context=context)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))

    async def _run(self, args: Any, kwargs: Any) -> Any:
        from asgiref.sync import ThreadSensitiveContext, sync_to_async

        # The ORM gets a thread of its own, with connections of its own, which are closed before the thread ends.
        async with ThreadSensitiveContext():
            try:
                return await self._function(*args, **kwargs)
            finally:
                await sync_to_async(_close)()

    async def call(self, face: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return await asyncio.wrap_future(submit(face(*args, **kwargs, stampede_guard_caller=self)))


def _close() -> None:
    from django.core.cache import close_caches
    from django.db import connections

    close_caches()
    connections.close_all()
