"""A guard for code without an event loop: a script, a Celery task, a plain function, several threads at once."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from stampede_guard.api.keyed.plans import computation_of
from stampede_guard.api.keyed.syncsingle import SyncSingle
from stampede_guard.api.keyed.values import KeyedEntry
from stampede_guard.api.keywords import LookOptions, SetOptions, ValueOptions
from stampede_guard.api.results import MISSING, CallInfo, Missing, info, uncached
from stampede_guard.engine.engine import Told, tagged
from stampede_guard.engine.plan import Run
from stampede_guard.engine.threads.desk import DESK
from stampede_guard.engine.threads.portal import portal
from stampede_guard.engine.threads.surroundings import surroundings_of_caller
from stampede_guard.errors import Misuse
from stampede_guard.options import ALL, takes_options
from stampede_guard.policy import check_fields
from stampede_guard.values.codec import settled

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.api.types import Invalidation
    from stampede_guard.engine.engine import Stored

__all__ = ["SyncGuard"]

T = TypeVar("T")
D = TypeVar("D")


class SyncGuard:
    """The object `guard.sync`: the guard's own methods, called through the event loop of plain functions.

    The calling thread waits. Any number of threads may call at once, and so may a forked process. Where an event loop
    runs, these methods would block it: they raise `Misuse`, which says what to write instead. They use the connections
    of plain functions: see `guard.close`.

    A `compute` is a plain function, or a coroutine function. A plain one runs in a thread of the guard, in a clean
    context. With `in_thread=False` it runs in the calling thread: see `locked_cache`. A coroutine function runs in the
    event loop of plain functions.
    """

    def __init__(self, guard: StampedeGuard) -> None:
        self._guard = guard

    @overload
    def get_or_compute(
        self,
        key: str,
        compute: Callable[[], object],
        *,
        type: builtins.type[T],
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @overload
    def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Coroutine[Any, Any, T]],
        *,
        type: Any = Any,
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @overload
    def get_or_compute(
        self,
        key: str,
        compute: Callable[[], T],
        *,
        type: Any = Any,
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @takes_options("guard.sync.get_or_compute", own=ALL, refuse=check_fields)
    def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Any],
        *,
        type: Any = Any,
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> Any:
        """The same as `await guard.get_or_compute(key, compute)`, with its options, results and errors."""
        return self.get_or_compute_with_info(key, compute, type=type, in_thread=in_thread, **options).value

    @takes_options("guard.sync.get_or_compute_with_info", own=ALL, refuse=check_fields)
    def get_or_compute_with_info(
        self,
        key: str,
        compute: Callable[[], Any],
        *,
        type: Any = Any,
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> CallInfo[Any]:
        """The same as `await guard.get_or_compute_with_info(key, compute)`."""
        self._refuse_loop("get_or_compute")
        guard, told = self._guard, Told()

        async def call(entry: KeyedEntry, run: Run) -> CallInfo[Any]:
            return info(await guard.serve_entry(entry, run, told), told)

        made: CallInfo[Any] = self._computing(call, key, compute, type, options, in_thread, uncached)
        return made

    @takes_options("guard.sync.refresh", own=ALL, refuse=check_fields)
    def refresh(
        self,
        key: str,
        compute: Callable[[], Any],
        *,
        type: Any = Any,
        in_thread: bool = True,
        **options: Unpack[ValueOptions],
    ) -> Any:
        """The same as `await guard.refresh(key, compute)`."""
        self._refuse_loop("refresh")
        engine = self._guard.engine

        async def call(entry: KeyedEntry, run: Run) -> Any:
            return await engine.refresh(entry.plan, entry.name, tagged(run, entry.tags))

        return self._computing(call, key, compute, type, options, in_thread)

    @overload
    def single(
        self, key: str, *, type: builtins.type[T], **options: Unpack[ValueOptions]
    ) -> SyncSingle[T]: ...

    @overload
    def single(self, key: str, *, type: Any = Any, **options: Unpack[ValueOptions]) -> SyncSingle[Any]: ...

    @takes_options("guard.sync.single", own=ALL, refuse=check_fields)
    def single(self, key: str, *, type: Any = Any, **options: Unpack[ValueOptions]) -> SyncSingle[Any]:
        """`with guard.sync.single(key, ttl=300) as entry`: the same as `async with guard.single(...)`.

        The block computes in the calling thread.
        """
        self._refuse_loop("single")
        return SyncSingle(self._guard.single(key, type=type, **options))

    @overload
    def get(self, key: str, *, type: builtins.type[T], **options: Unpack[LookOptions]) -> T | Missing: ...

    @overload
    def get(
        self, key: str, *, type: builtins.type[T], default: D, **options: Unpack[LookOptions]
    ) -> T | D: ...

    @overload
    def get(
        self, key: str, *, type: Any = Any, default: object = MISSING, **options: Unpack[LookOptions]
    ) -> Any: ...

    @takes_options("guard.sync.get", own=ALL)
    def get(
        self, key: str, *, type: Any = Any, default: Any = MISSING, **options: Unpack[LookOptions]
    ) -> Any:
        """The same as `await guard.get(key)`."""
        self._refuse_loop("get")
        guard: Any = self._guard
        asked: Any = {"type": type, "default": default, **options}
        return portal().call(guard.get, key, **asked)

    @takes_options("guard.sync.set", own=ALL, refuse=check_fields)
    def set(self, key: str, value: Any, *, type: Any = Any, **options: Unpack[SetOptions]) -> Stored:
        """The same as `await guard.set(key, value)`."""
        self._refuse_loop("set")
        return portal().call(self._guard.set, key, value, type=type, **options)

    @takes_options("guard.sync.invalidate", own=ALL)
    def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """The same as `await guard.invalidate(key)`."""
        self._refuse_loop("invalidate")
        return portal().call(self._guard.invalidate, key, type=type)

    @takes_options("guard.sync.invalidate_tag", own=ALL)
    def invalidate_tag(self, tag: str) -> Invalidation:
        """The same as `await guard.invalidate_tag(tag)`."""
        self._refuse_loop("invalidate_tag")
        return portal().call(self._guard.invalidate_tag, tag)

    def _computing(
        self,
        call: Callable[[KeyedEntry, Run], Coroutine[Any, Any, Any]],
        key: str,
        compute: Callable[[], Any],
        type: Any,
        options: Any,
        in_thread: bool,
        in_child: Callable[[Any], Any] | None = None,
    ) -> Any:
        if not isinstance(in_thread, bool):
            raise Misuse(f"in_thread={in_thread!r} is not allowed: it must be True or False")
        is_async = any(map(inspect.iscoroutinefunction, (compute, compute.__class__.__call__)))
        if is_async and not in_thread:
            raise Misuse("in_thread=False is for plain functions, and compute() is a coroutine function")
        entry = self._guard.entry(key, type, options, not in_thread)
        engine = self._guard.engine
        if is_async or not callable(compute):
            return portal().call(call, entry, computation_of(compute))
        entry = entry._replace(plan=replace(entry.plan, in_thread=True))
        surroundings, name = surroundings_of_caller(), entry.plan.title
        plain = functools.partial(_plain, compute)
        if surroundings is not None:
            plain = functools.partial(surroundings, plain, name)

        async def at_portal() -> Any:
            desk = DESK.get() if not in_thread else None
            if desk is None:
                return await call(entry, engine.runs.in_thread(plain))
            return await call(entry, functools.partial(desk.run, lambda: settled(entry.plan.codec, plain())))

        return portal().call(at_portal) if in_thread else portal().call_here(at_portal, in_child=in_child)

    def _refuse_loop(self, method: str) -> None:
        if asyncio._get_running_loop() is not None:
            form = "async with" if method == "single" else "await"
            raise Misuse(
                f"guard.sync.{method}(...) would block the event loop that runs in this thread: write "
                f"`{form} guard.{method}(...)`"
            )


def _plain(compute: Callable[[], Any]) -> Any:
    result = compute()
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise Misuse(
            "guard.sync.get_or_compute(key, compute) got an awaitable from compute(): give it the coroutine function "
            "itself, or a plain function that returns the value"
        )
    return result
