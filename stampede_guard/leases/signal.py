"""A flag that is raised once: to be awaited in its event loop, and to be looked at or waited for in any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator

__all__ = ["Signal"]


class Signal:
    """`if signal:`, `await signal` (gives `why`), or `signal.wait(seconds)` in another thread than the event loop's."""

    def __init__(self) -> None:
        self.why = ""
        self._flag = threading.Event()
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self._flag.is_set()

    def is_set(self) -> bool:
        return self._flag.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Block this thread until it is raised, or so many seconds; whether it was."""
        return self._flag.wait(seconds)

    def __await__(self) -> Generator[object, None, str]:
        # Shielded, because the future is everybody's.
        yield from asyncio.shield(self._future).__await__()
        return self.why

    def raise_it(self, why: str) -> None:
        """In the event loop. The first reason stays."""
        if self._flag.is_set():
            return
        self.why = why
        self._flag.set()
        if not self._future.done():
            self._future.set_result(None)
        for call in self._calls:
            call()

    def then(self, call: Callable[[], object]) -> None:
        """`call()` when it is raised, in the same step; at once if it has been."""
        if self._flag.is_set():
            call()
        else:
            self._calls.append(call)
