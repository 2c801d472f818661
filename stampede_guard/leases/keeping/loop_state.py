"""The state of `Leases` in one event loop: the back end, the listeners for hints and the running tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.engine.hooks import Hooks
from stampede_guard.errors import StoreError
from stampede_guard.leases.keeping.world import World, generation
from stampede_guard.leases.messages import Answer, LeaseGranted, Owner, Withheld
from stampede_guard.leases.protocol import Backend

if TYPE_CHECKING:
    from stampede_guard.leases.keeping.keeper import Keeper

__all__ = ["LoopState", "log"]

T = TypeVar("T")

log = logging.getLogger("stampede_guard.leases")


class LoopState:
    """`prefix` is put before every name. Closing waits for running tasks; each request has its own time-out."""

    def __init__(
        self, backend: Backend, *, world: World, owner: Owner, hooks: Hooks | None = None, prefix: str = ""
    ) -> None:
        self.backend = backend
        self.world = world
        self.owner = owner
        self.hooks = Hooks() if hooks is None else hooks
        self.prefix = prefix
        self.generation = generation()
        self.users = 0
        """The number of open lifespans."""
        self.keepers: set[Keeper] = set()
        """Keepers that believed when they last checked the clock. Other threads must copy this set first."""
        self._withheld = False
        self.before_closing: dict[Callable[[], Awaitable[object]], None] = {}
        """Functions to await before this part closes: they end what uses the part."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: dict[str, dict[Callable[[], object], None]] = {}
        self._called: dict[str, Callable[[int], object]] = {}
        backend.on_freed(self._freed)
        on_called = getattr(backend, "on_called", None)
        self._hears_calls = on_called is not None
        if on_called is not None:
            on_called(self._call)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run `work` in its own task, which no caller's cancellation ends. Whatever awaits the task gets its errors."""
        task = asyncio.get_running_loop().create_task(work, name=f"stampede_guard {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def leave(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        """As `begin`, for work that is not awaited: an error is logged."""
        self.begin(work, name=name).add_done_callback(_log_error)

    async def carry_out(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """The result of `work`. A cancelled caller does not end `work`: a cancelled request costs its connection."""
        task = self.begin(work, name=name)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(_log_error)
            raise
        return task.result()

    def tell_withheld(self, answer: Answer) -> None:
        """Log once when the back end starts to withhold leases, and once when it grants again.

        Otherwise an operator would not know why the waiters get nothing.
        """
        if isinstance(answer, Withheld):
            if not self._withheld:
                log.warning(
                    "the back end grants no lease for another %.0f s: %s", answer.remaining, answer.why
                )
            self._withheld = True
        elif isinstance(answer, LeaseGranted) and self._withheld:
            self._withheld = False
            log.info("the back end grants leases again")

    def unsent(self, asking: asyncio.Task[Any]) -> bool:
        """Whether this request still waits for a connection, in back ends that limit their connections."""
        unsent: Callable[[asyncio.Task[Any]], bool] | None = getattr(self.backend, "unsent", None)
        return unsent is not None and not asking.done() and unsent(asking)

    def listen(self, name: str, call: Callable[[], object]) -> Callable[[], None]:
        """Call `call()` at each hint that the lease was freed. The returned function ends this."""
        # A dict keeps the order of registration.
        calls = self._waiting.setdefault(name, {})
        calls[call] = None

        def end() -> None:
            calls.pop(call, None)
            if not calls and self._waiting.get(name) is calls:
                del self._waiting[name]

        return end

    def listen_for_call(self, name: str, holder: str, call: Callable[[int], object]) -> Callable[[], None]:
        """Call `call(ahead)` when it may be this waiter's turn. The returned function ends this."""
        if not self._hears_calls:
            # A third-party back end that only reports freed leases.
            return self.listen(name, lambda: call(-1))
        self._called[holder] = call

        def end() -> None:
            self._called.pop(holder, None)

        return end

    def _call(self, holder: str, ahead: int) -> None:
        if (call := self._called.get(holder)) is not None:
            call(ahead)

    @property
    def hears(self) -> bool:
        """Whether the back end can currently notify a waiter of its turn."""
        return bool(getattr(self.backend, "hears", False))

    def _freed(self, name: str) -> None:
        for call in tuple(self._waiting.get(name, ())):
            call()

    async def pause(self, seconds: float) -> None:
        """Sleep on the world's clock, for at least one iteration of the event loop."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancel = self.world.later(seconds, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            cancel()

    @property
    def busy(self) -> int:
        """The number of unfinished tasks, for tests and for closing."""
        return len(self._tasks)

    async def aclose(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.backend.aclose()


def _log_error(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, StoreError):
        log.warning("background task %r failed: %s", task.get_name(), error)
    elif error is not None:
        log.error("%s failed", task.get_name(), exc_info=error)
