"""The block form without an event loop: `with guard.sync.single("report:7", ttl=300) as entry`."""

from __future__ import annotations

import contextlib
import os
from contextvars import Token
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from stampede_guard.api.keyed.single import Single
from stampede_guard.api.results import CallInfo
from stampede_guard.engine.engine import CURRENT
from stampede_guard.engine.previous import Previous
from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse

__all__ = ["SyncSingle"]

T = TypeVar("T")


class SyncSingle(Generic[T]):
    """One caller finds that `missing` is True: it computes in its own thread, and calls `set` once.

    All others find `value`. Meanwhile, the event loop of plain functions renews the lease. The block may take
    `compute_timeout` seconds. In a process that was forked within the block, the block ends without an effect.
    """

    def __init__(self, entry: Single[T]) -> None:
        self._entry = entry
        self._process = 0
        self._outside: Token[Any] | None = None

    @property
    def missing(self) -> bool:
        """Whether this caller computes."""
        return self._entry.missing

    @property
    def previous(self) -> Previous | None:
        """What the new value replaces, if anything."""
        return self._entry.previous

    @property
    def value(self) -> T:
        """The value of the entry. Raises `Misuse` while it is missing."""
        return self._entry.value

    @property
    def info(self) -> CallInfo[T]:
        """The value, where it came from, and its age. Raises `Misuse` while the value is missing."""
        return self._entry.info

    def set(self, value: T) -> T:
        """Store the value and serve it to all waiting callers: see `Single.set`."""
        if self._process not in (0, os.getpid()):
            raise Misuse("entry.set() works only in the process that began the `with` block")
        return portal().call(self._entry.set, value)

    def __enter__(self) -> Self:
        self._process = os.getpid()
        portal().call(self._entry.__aenter__)
        if self._entry.missing:
            # The block is the computation: a call of the same entry inside it is an error, not a deadlock.
            self._outside = CURRENT.set(self._entry.flight)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._outside is not None:
            with contextlib.suppress(ValueError):  # the block ends in another context than it began in
                CURRENT.reset(self._outside)
        if self._process == os.getpid():
            portal().call(self._entry.__aexit__, kind, error, traceback)
