"""The latest errors of this process's computations, for callers that find only their record in the store.

The record is for other processes. It lacks secrets, and values that JSON cannot express. Each record has an id.
The process that wrote it finds the error under this id, and gives its callers copies as it gives them to passengers.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from stampede_guard.values.errorcopies import bare_copy_of
from stampede_guard.values.forks import renew_in_children

__all__ = ["OWN_ERRORS", "OwnErrors"]

_MOST = 256
_LONGER = 5.0
"""In seconds. An error is kept for so much longer than its record. The record decides when callers no longer get it."""


class _OwnError(NamedTuple):
    error: BaseException
    clock: Callable[[], float]
    until: float

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.until


class OwnErrors:
    """One for the whole process, because its event loops share entries. The oldest errors are forgotten first."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: dict[tuple[str, str], _OwnError] = {}
        # Those that will call `_sweep`. A timer per error would stay for `error_ttl` after its error is gone.
        self._sweeping: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._lock = threading.Lock()
        renew_in_children(self, "_lock")

    def __len__(self) -> int:
        return len(self._kept)

    def new_id(self) -> str:
        return uuid.uuid4().hex

    def keep(
        self,
        entry: str,
        id: str,
        error: BaseException,
        seconds: float,
        *,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Keep a copy while the record may live. It has no traceback and no causes, which may hold large objects."""
        copied = bare_copy_of(error)
        if copied is None:
            return
        place = (entry, id)
        with self._lock:
            self._kept[place] = _OwnError(copied, clock, clock() + seconds + _LONGER)
            self._drop_oldest()
            sweeps = loop in self._sweeping
            self._sweeping.add(loop)
        if not sweeps:
            loop.call_later(_LONGER, self._sweep, loop)

    def recall(self, entry: str, id: str) -> Any:
        """The error that this process wrote into the store under this id, as the record of this entry. Else None."""
        kept = self._kept.get((entry, id))
        return None if kept is None else kept.error

    def forget(self) -> None:
        """Forget all: from now on, callers of this process get what other processes get."""
        with self._lock:
            self._kept.clear()

    def _drop_oldest(self) -> None:
        # An event loop that was closed no longer calls `_sweep`.
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= self._most and not self._kept[oldest].is_over:
                return
            del self._kept[oldest]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._kept = {place: kept for place, kept in self._kept.items() if not kept.is_over}
            if not self._kept:
                self._sweeping.discard(loop)
                return
        loop.call_later(_LONGER, self._sweep, loop)


OWN_ERRORS = OwnErrors()
