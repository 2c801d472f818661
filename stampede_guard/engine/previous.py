"""The old value, available inside the computation that replaces it. `If-None-Match` needs it.

@locked_cache(ttl=60, stale_ttl=3600)
async def feed(url: str) -> Feed:
    old = previous()
    answer = await client.get(url, headers={"If-None-Match": old.value.etag} if old else {})
    return UNCHANGED if answer.status_code == 304 else Feed.of(answer)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Never, cast

from stampede_guard.core.entry import Reading
from stampede_guard.errors import Misuse

__all__ = ["KNOWN", "OF_MANY", "UNCHANGED", "Previous", "Unchanged", "previous"]


class Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final[Never] = cast("Never", Unchanged())
"""Return it from a computation, whatever its annotation: the old value is still right and is stored again.

The old value gets a full lifetime. Without an old value this is an error (`Misuse`): return it only if `previous()` is
not None.
"""


class Previous:
    """The stored value while its successor is computed."""

    def __init__(self, reading: Reading, decode: Callable[[bytes], Any], *, now: float) -> None:
        self._reading = reading
        self._decode = decode
        self._read_at = now

    @property
    def value(self) -> Any:
        """Decoded again on each access, so the caller may change it."""
        return self._decode(self._reading.body)

    @property
    def age(self) -> float:
        """Seconds since it was stored, or since it was last found unchanged."""
        lived = (self._reading.total_ms - self._reading.remaining_ms) / 1000
        return max(0.0, lived) + max(0.0, time.monotonic() - self._read_at)

    @property
    def body(self) -> bytes:
        return self._reading.body

    @property
    def token(self) -> int:
        """It grows with each value that is stored under the key."""
        return self._reading.token


class _OfMany:
    """Marks a function that computes many entries, each with its own old value."""


OF_MANY: Final = _OfMany()
KNOWN: ContextVar[Previous | _OfMany | None] = ContextVar("stampede_guard_previous", default=None)


def previous() -> Previous | None:
    """The value that the running computation replaces. None if there is none, or outside of a computation.

    There is one while a stale value is served, and in `refresh()`. It was stored at the moment when this computation
    was allowed to begin, so it was never invalidated before. Raises `Misuse` in a function of `@cached_many`.
    """
    known = KNOWN.get()
    if isinstance(known, _OfMany):
        raise Misuse(
            "previous() is about one entry, but a function of @cached_many computes many at once: use @locked_cache"
        )
    return known
