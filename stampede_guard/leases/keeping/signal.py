"""A flag that is raised once. Code in its event loop can await it; any thread can check it or block on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator

__all__ = ["Signal"]


class Signal:
    """`if signal:`, `await signal` (returns `why`), or `signal.wait(seconds)` in a thread without the event loop."""

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
        """Block this thread until the flag is raised, at most `seconds`. Returns whether it was raised."""
        return self._flag.wait(seconds)

    def __await__(self) -> Generator[object, None, str]:
        # Shielded, because several tasks await this future.
        yield from asyncio.shield(self._future).__await__()
        return self.why

    def raise_it(self, why: str) -> None:
        """Raise the flag; call this in the event loop. Later calls do not change the reason."""
        if self._flag.is_set():
            return
        self.why = why
        self._flag.set()
        if not self._future.done():
            self._future.set_result(None)
        for call in self._calls:
            call()

    def then(self, call: Callable[[], object]) -> None:
        """Call `call()` directly when the flag is raised, or now if it already is."""
        if self._flag.is_set():
            call()
        else:
            self._calls.append(call)
