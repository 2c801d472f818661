"""One entry as an operator sees it: plain data, in seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stampede_guard.values.processplace import ProcessPlace

__all__ = ["EntryView", "FailureView", "EntryLease", "RecordView", "SlotView", "State", "ValueView"]

State = Literal["fresh", "stale", "failed", "uncacheable", "computing", "empty", "unknown"]


@dataclass(frozen=True, slots=True)
class ValueView:
    """`left`: seconds until the value is gone. It is stale in the last `stale_ttl` of them. None = an operator
    removed the expiry.

    `size`: bytes of the body without its header. `body` is the requested start of the body.
    """

    token: int
    fresh: bool
    ttl: float
    stale_ttl: float
    left: float | None
    size: int
    body: bytes = field(default=b"", repr=False)

    @property
    def fresh_left(self) -> float | None:
        """Seconds for which the value stays fresh; 0 for a stale one, None for ever."""
        if not self.fresh:
            return 0.0
        return None if self.left is None else max(0.0, self.left - self.stale_ttl)

    @property
    def stale_left(self) -> float | None:
        """Seconds for which the value is served stale: from now, or after it was fresh. None: for ever."""
        return None if self.left is None else min(self.left, self.stale_ttl) if self.fresh else self.left


@dataclass(frozen=True, slots=True)
class FailureView:
    """`passes`: nothing failed. The last value could not be stored, so callers compute beside each other."""

    token: int
    left: float
    body: bytes = field(default=b"", repr=False)
    passes: bool = False


@dataclass(frozen=True, slots=True)
class RecordView:
    epoch: str
    last: int
    fence: int
    left: float


@dataclass(frozen=True, slots=True)
class EntryLease:
    """`since`: seconds that it has been held, from the token. `alive`: whether its owner listens, None = unknown.

    `holder`: where the owner's process runs. None if it had no confirmed subscription, or runs an older version.
    """

    owner: str
    token: int
    since: float
    left: float
    alive: bool | None
    holder: ProcessPlace | None = None


@dataclass(frozen=True, slots=True)
class SlotView:
    owner: str
    left: float


@dataclass(frozen=True, slots=True)
class EntryView:
    """`seen`: False if only the entry's name is known, because its server returned nothing else."""

    name: str
    value: ValueView | None = None
    failure: FailureView | None = None
    record: RecordView | None = None
    lease: EntryLease | None = None
    waiters: int = 0
    slots: tuple[SlotView, ...] = ()
    seen: bool = True

    @property
    def state(self) -> State:
        if not self.seen:
            return "unknown"
        if self.value is not None:
            return "fresh" if self.value.fresh else "stale"
        if self.failure is not None:
            return "uncacheable" if self.failure.passes else "failed"
        return "computing" if self.lease is not None else "empty"

    @property
    def exists(self) -> bool:
        return not self.seen or any(
            (self.value, self.failure, self.record, self.lease, self.waiters, self.slots)
        )
