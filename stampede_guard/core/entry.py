"""What a store keeps for one key, as immutable data.

Times ending in `_us` are microseconds on the store's own clock; no other machine's clock is ever compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = [
    "EMPTY",
    "Entry",
    "Failure",
    "Freshness",
    "Lease",
    "Reading",
    "Record",
    "Slot",
    "Value",
    "freshness",
    "in_time",
    "is_fresh",
    "prune",
]

Freshness = Literal["fresh", "stale", "missing"]


class Reading(NamedTuple):
    """A stored value as a reader gets it, in one round trip together with its remaining time.

    `took_ms`: how long its computation took; 0 = unknown.
    """

    body: bytes
    token: int
    total_ms: int
    stale_ms: int
    remaining_ms: int
    took_ms: int = 0

    @property
    def is_fresh(self) -> bool:
        return is_fresh(self.remaining_ms, self.total_ms, self.stale_ms)


def is_fresh(remaining_ms: int, total_ms: int, stale_ms: int) -> bool:
    """The rule of freshness, for all readers. The scripts in Redis have the same one.

    A value without a lifetime (-1, an operator's PERSIST), or with more than its total (a clock step), is stale,
    never fresh.
    """
    return stale_ms < remaining_ms <= total_ms


def freshness(remaining_ms: int, total_ms: int, stale_ms: int) -> Freshness:
    """A remaining time of 0 ms means present. -2 means that the key is missing."""
    if remaining_ms == -2:
        return "missing"
    return "fresh" if is_fresh(remaining_ms, total_ms, stale_ms) else "stale"


@dataclass(frozen=True, slots=True)
class Value:
    body: bytes
    token: int
    total_ms: int
    stale_ms: int
    expires_us: int
    took_ms: int = 0

    def reading(self, now_us: int) -> Reading:
        remaining_ms = (self.expires_us - now_us) // 1000
        return Reading(self.body, self.token, self.total_ms, self.stale_ms, remaining_ms, self.took_ms)

    def is_fresh(self, now_us: int) -> bool:
        return is_fresh((self.expires_us - now_us) // 1000, self.total_ms, self.stale_ms)


@dataclass(frozen=True, slots=True)
class Failure:
    """A computation that left no value. It failed: for a moment no caller tries again.

    Or it `passes`: its value may not be stored, so for a moment callers do not wait for each other. `total_ms`: how
    long the moment is; 0 = unknown (stored by an older version).
    """

    body: bytes
    token: int
    expires_us: int
    passes: bool = False
    total_ms: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """What outlives leases. `epoch` is random: after an eviction, no earlier grant counts as a current one."""

    epoch: str
    last: int
    fence: int
    expires_us: int

    def admits(self, epoch: str, token: int) -> bool:
        """Whether a value with this token could be stored, unless there is a newer one."""
        return self.epoch == epoch and token >= self.fence


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one flight to compute. `inbox` is empty if the owner's subscription is not confirmed.

    `total_ms`: the time that its owner asked for; 0 = unknown (an older version's).
    """

    owner: str
    token: int
    epoch: str
    inbox: str
    expires_us: int
    missing_since_us: int | None = None
    total_ms: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """One computation beside the lease: a fallback, or a flight for an uncacheable key.

    A set of these cannot leak in a crash, unlike a counter. `total_ms`: the time that its owner was given; 0 = unknown
    (an older version's).
    """

    owner: str
    expires_us: int
    total_ms: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    value: Value | None = None
    failure: Failure | None = None
    record: Record | None = None
    lease: Lease | None = None
    waiters: frozenset[str] = frozenset()
    slots: tuple[Slot, ...] = ()

    @property
    def highest_token(self) -> int:
        """The largest token in any remaining part of this entry."""
        tokens = [part.token for part in (self.value, self.failure, self.lease) if part is not None]
        if self.record is not None:
            tokens.append(self.record.last)
        return max(tokens, default=0)


EMPTY = Entry()


def in_time(expires_us: int, total_ms: int, now_us: int) -> bool:
    """Whether something with this end may still count. It may not, if it has more time left than its total.

    In that case the server's clock was set back, or an operator changed its lifetime, and its age is unknown.
    `total_ms` 0: the total is unknown.
    """
    return not total_ms or expires_us - now_us <= total_ms * 1000


def prune(entry: Entry, now_us: int) -> Entry:
    """The entry without its expired parts, as the store's own expiry leaves it."""
    value, failure, record, lease, slots = entry.value, entry.failure, entry.record, entry.lease, entry.slots
    over = False
    if value is not None and value.expires_us <= now_us:
        value, over = None, True
    if failure is not None and failure.expires_us <= now_us:
        failure, over = None, True
    if record is not None and record.expires_us <= now_us:
        record, over = None, True
    if lease is not None and lease.expires_us <= now_us:
        lease, over = None, True
    if slots and any(slot.expires_us <= now_us for slot in slots):
        slots, over = tuple(slot for slot in slots if slot.expires_us > now_us), True
    return Entry(value, failure, record, lease, entry.waiters, slots) if over else entry
