"""`run_exclusive`: at most one call of a function runs at a time, in all processes and pods.

    @leases.run_exclusive("import", overlap="skip")
    async def import_all(): ...

`overlap` is what a call does while another one runs:

| overlap | the call |
|---|---|
| `skip` | returns `SKIPPED` at once |
| `queue` | waits for its turn, at most `wait` seconds; then it raises `LeaseTaken` |
| `replace` | asks the running call to stop, and runs after it; the running call is cancelled and raises `LeaseLost` |

In a run of the job of the same name, which holds that lease, each of them raises `ReentrantCall`. While the back end
is away, nothing runs: the call raises `StoreError`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, overload

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import LeaseTaken, Misuse, PolicyError, ReentrantCall
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.hold import Hold
from stampede_guard.leases.keeping.reporting import title_of
from stampede_guard.leases.lease import Lease, PlainLease
from stampede_guard.leases.nested import refuse_own
from stampede_guard.leases.owner import called

if TYPE_CHECKING:
    from stampede_guard.leases.client import Leases

__all__ = ["SKIPPED", "Overlap", "RunExclusive", "Skipped", "current_lease"]

P = ParamSpec("P")
R = TypeVar("R")

CoroutineFunction = Callable[P, Coroutine[Any, Any, R]]
Overlap = Literal["skip", "queue", "replace"]
OVERLAPS = ("skip", "queue", "replace")
_CURRENT: ContextVar[tuple[Lease | PlainLease, ...]] = ContextVar("stampede_guard_exclusive", default=())


class Skipped:
    """The type of `SKIPPED`, which is falsy."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "SKIPPED"

    def __reduce__(self) -> str:
        # The name of the one object. Task queues pickle results, and callers write `result is SKIPPED`.
        return "SKIPPED"


SKIPPED: Final = Skipped()
"""The result of a call that did not run, because another one runs."""


def current_lease() -> Lease | PlainLease | None:
    """The lease of the exclusive function that runs now, for example for its token."""
    leases = _CURRENT.get()
    return leases[-1] if leases else None


class RunExclusive:
    """Made by `Leases.run_exclusive`. Decorates a coroutine function, or a plain one that is called in a thread."""

    def __init__(
        self,
        client: Leases,
        name: str,
        timing: Timing,
        *,
        overlap: Overlap,
        at_least_for: float,
        wait: float,
    ) -> None:
        if overlap not in OVERLAPS:
            raise PolicyError("overlap", overlap, f"write one of {', '.join(OVERLAPS)}")
        self._client = client
        self._name = name
        self._timing = timing
        self._overlap = overlap
        self._at_least_for = at_least_for
        self._wait = wait

    @overload
    def __call__(self, function: CoroutineFunction[P, R]) -> CoroutineFunction[P, R | Skipped]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R | Skipped]: ...

    def __call__(self, function: Callable[P, Any]) -> Callable[P, Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await self.run(functools.partial(function, *args, **kwargs))

            return call
        if isinstance(function, staticmethod | classmethod):
            raise Misuse(
                f"run_exclusive decorates the function itself: write @{type(function).__name__} above it, not below"
            )
        if not inspect.isroutine(function) or checks.gives_values(function):
            raise Misuse(
                f"run_exclusive decorates functions, async def or def, not a {type(function).__name__}"
            )

        @functools.wraps(function)
        def plain_call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return self.run_plain(functools.partial(function, *args, **kwargs))

        return plain_call

    async def run(self, function: Callable[[], Awaitable[R]]) -> R | Skipped:
        """Run a callable without the decorator."""
        self._refuse_to_wait_for_itself()
        async with contextlib.AsyncExitStack() as stack:
            lease = await self._entered(stack)
            if lease is None:
                return SKIPPED
            before = _CURRENT.set((*_CURRENT.get(), lease))
            try:
                return await function()
            finally:
                _CURRENT.reset(before)
        raise AssertionError("a hold suppresses no exception")

    def run_plain(self, function: Callable[[], R]) -> R | Skipped:
        """As `run`, in a thread without an event loop. `current_lease().stopping` is raised when it must stop."""
        self._refuse_to_wait_for_itself()
        with contextlib.ExitStack() as stack:
            lease = self._entered_plain(stack)
            if lease is None:
                return SKIPPED
            before = _CURRENT.set((*_CURRENT.get(), lease))
            try:
                return function()
            finally:
                _CURRENT.reset(before)
        raise AssertionError("a hold suppresses no exception")

    def _refuse_to_wait_for_itself(self) -> None:
        refuse_own(self._client, self._name)
        running = [lease.name for lease in _CURRENT.get() if lease.remaining() > 0]
        if self._overlap != "skip" and self._name in running:
            raise ReentrantCall(
                f"{self._name!r} waits for itself: the running call of that name calls it again"
            )

    def _entered_plain(self, stack: contextlib.ExitStack) -> PlainLease | None:
        if self._overlap != "queue":
            try:
                return stack.enter_context(self._hold(wait=0.0))
            except LeaseTaken as taken:
                if self._overlap == "skip":
                    return None
                portal().call(self._ask_to_leave, taken.token)
        return stack.enter_context(self._hold(wait=self._wait))

    async def _entered(self, stack: contextlib.AsyncExitStack) -> Lease | None:
        if self._overlap != "queue":
            try:
                return await stack.enter_async_context(self._hold(wait=0.0))
            except LeaseTaken as taken:
                if self._overlap == "skip":
                    return None
                await self._ask_to_leave(taken.token)
        return await stack.enter_async_context(self._hold(wait=self._wait))

    def _hold(self, *, wait: float) -> Hold:
        title = title_of(self._name, self._client.prefix)
        return Hold(
            self._client, self._name, self._timing, wait=wait, at_least_for=self._at_least_for, title=title
        )

    async def _ask_to_leave(self, token: int) -> None:
        part = self._client.part()
        await part.backend.force(
            self._name,
            token=token,
            by=f"a newer call by {called(part.owner)}",
            now=False,
            audited=False,
            timeout=self._timing.request_timeout,
        )
