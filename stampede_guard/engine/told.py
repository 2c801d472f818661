"""How one call was served, for a caller that wants to know. Ordinary calls carry no such note."""

from __future__ import annotations

from typing import Literal

from stampede_guard.core.entry import Reading

__all__ = ["ServedFrom", "Told", "age_of"]

ServedFrom = Literal["hit", "l1", "memory", "stale", "computed", "collapsed", "fallback", "bypass"]
"""Where a value came from.

`hit`        a fresh value in the store
`l1`         this process's own copy of it (`l1_ttl`)
`memory`     the value that this process saw last, because the store is away
`stale`      an older value, while a newer one is computed or cannot be had
`computed`   this call's own computation
`collapsed`  a computation of another call, in this process or in another
`fallback`   a computation beside a holder that was too slow
`bypass`     a computation without the store, because of the mode: `bypass`, `off` or `shadow`
"""


class Told:
    """One call's note. `age`: seconds since the value was stored. 0.0 for a value computed just now."""

    __slots__ = ("age", "source")

    def __init__(self) -> None:
        self.source: ServedFrom = "computed"
        self.age = 0.0

    def note(self, source: ServedFrom, age: float = 0.0) -> None:
        self.source, self.age = source, age

    def seen(self, reading: Reading, *, in_memory: bool, fresh: bool) -> None:
        """A value was found before any flight. A wait that follows has the last word."""
        self.note("stale" if not fresh else "memory" if in_memory else "hit", age_of(reading))


def age_of(reading: Reading) -> float:
    """Seconds since this value was stored, as its remaining time shows it."""
    return max(0.0, (reading.total_ms - reading.remaining_ms) / 1000)
