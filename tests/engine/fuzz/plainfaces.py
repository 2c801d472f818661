"""Plain decorated functions for the fuzz of real threads: in the guard's threads, and in the thread of their caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from stampede_guard import StampedeGuard

__all__ = ["PLAIN_KEYS", "PlainFaces"]

PLAIN_KEYS = ("p", "d")
"""`p`: computed in a thread of the guard. `d`: in the thread of its caller."""


class PlainFaces:
    """The functions of one guard. `begin(key)` and `end(number)` note a computation; `end` may raise its error."""

    def __init__(
        self,
        guard: StampedeGuard,
        fields: dict[str, Any],
        *,
        work: float,
        begin: Callable[[str], int],
        end: Callable[[int], str],
        wrong: list[str],
    ) -> None:
        self._wrong = wrong
        self._here = threading.local()

        def computed(key: str) -> str:
            number = begin(key)
            time.sleep(work)
            return end(number)

        @guard.locked_cache(name="plain", **fields)
        def plain(key: str) -> str:
            self._look_at_thread(key, callers=False)
            return computed(key)

        @guard.locked_cache(name="desk", in_thread=False, **fields)
        def desk(key: str) -> str:
            self._look_at_thread(key, callers=True)
            return computed(key)

        self._faces: dict[str, Any] = {"p": plain, "d": desk}

    def _look_at_thread(self, key: str, *, callers: bool) -> None:
        if getattr(self._here, "calls", None) != (key if callers else None):
            self._wrong.append(f"{key} is computed in {threading.current_thread().name}")

    def call(self, kind: str, key: str, value: Callable[[], str]) -> Any:
        face = self._faces[key]
        self._here.calls = key
        try:
            match kind:
                case "refresh":
                    return face.refresh(key)
                case "invalidate":
                    return face.invalidate(key)
                case "set":
                    return face.set(value(), key)
                case "peek":
                    return face.peek(key)
                case _:
                    return face(key)
        finally:
            self._here.calls = None
