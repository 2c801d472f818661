"""The part of `Leases` that belongs to one event loop: the back end, who waits for a hint, what still runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.errors import StoreError
from stampede_guard.hooks import Hooks
from stampede_guard.leases.backend import Backend
from stampede_guard.leases.words import Answer, Granted, Owner, Withheld
from stampede_guard.leases.world import World, generation

if TYPE_CHECKING:
    from stampede_guard.leases.keeper import Keeper

__all__ = ["Part", "log"]

T = TypeVar("T")

log = logging.getLogger("stampede_guard.leases")


class Part:
    """`prefix` stands before every name. Closing waits for what was begun: each request has a time-out of its own."""

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
        """Lifespans that go on."""
        self.keepers: set[Keeper] = set()
        """Those that believe, or did when they looked last; to be copied in other threads."""
        self._withheld = False
        self.before_closing: dict[Callable[[], Awaitable[object]], None] = {}
        """What is built on this part and has to end before it does."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: dict[str, dict[Callable[[], object], None]] = {}
        self._called: dict[str, Callable[[int], object]] = {}
        backend.on_freed(self._freed)
        on_called = getattr(backend, "on_called", None)
        self._hears_calls = on_called is not None
        if on_called is not None:
            on_called(self._call)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """In a task of our own, which no caller's cancellation ends; its errors are for whoever awaits it."""
        task = asyncio.get_running_loop().create_task(work, name=f"stampede_guard {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def leave(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        """The same for what nobody awaits: an error is a line in the log."""
        self.begin(work, name=name).add_done_callback(_log_error)

    async def carry_out(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """What it returns or raises. Cancelled, it goes on: a request that is torn off costs its connection."""
        task = self.begin(work, name=name)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.add_done_callback(_log_error)
            raise
        return task.result()

    def tell_withheld(self, answer: Answer) -> None:
        """Once, and once when it is over: who waits would not know why nothing is granted."""
        if isinstance(answer, Withheld):
            if not self._withheld:
                log.warning("no lease is granted for another %.0f s: %s", answer.remaining, answer.why)
            self._withheld = True
        elif isinstance(answer, Granted) and self._withheld:
            self._withheld = False
            log.info("leases are granted again")

    def unsent(self, asking: asyncio.Task[Any]) -> bool:
        """Whether a question that was begun still waits for a connection, where the back end has few of them."""
        unsent: Callable[[asyncio.Task[Any]], bool] | None = getattr(self.backend, "unsent", None)
        return unsent is not None and not asking.done() and unsent(asking)

    def listen(self, name: str, call: Callable[[], object]) -> Callable[[], None]:
        """`call()` at each hint that the lease was freed; what is returned ends it."""
        # In the order in which they came.
        calls = self._waiting.setdefault(name, {})
        calls[call] = None

        def end() -> None:
            calls.pop(call, None)
            if not calls and self._waiting.get(name) is calls:
                del self._waiting[name]

        return end

    def listen_for_call(self, name: str, holder: str, call: Callable[[int], object]) -> Callable[[], None]:
        """`call(ahead)` when this waiter's turn may have come; what is returned ends it."""
        if not self._hears_calls:
            # A back end of somebody else's, which tells only of what was freed.
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
        """Whether a waiter would hear at present that its turn has come."""
        return bool(getattr(self.backend, "hears", False))

    def _freed(self, name: str) -> None:
        for call in tuple(self._waiting.get(name, ())):
            call()

    async def pause(self, seconds: float) -> None:
        """On the world's clock; at least one turn of the event loop."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cancel = self.world.later(seconds, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            cancel()

    @property
    def busy(self) -> int:
        """Tasks that have not ended, for tests and for closing."""
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
        log.warning("in the background: %s, which failed: %s", task.get_name(), error)
    elif error is not None:
        log.error("%s failed", task.get_name(), exc_info=error)
