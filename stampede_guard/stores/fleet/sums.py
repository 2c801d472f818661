"""What a fleet did, per function: the numbers that processes add up, and what they tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stampede_guard.stores.fleet.histogram import BUCKETS, quantile

__all__ = ["COUNTS", "FunctionSums", "from_fields", "sums_of", "to_fields"]

COUNTS = (
    "hits", "stale", "misses", "computations", "failed", "micros", "collapsed", "fallbacks", "takeovers", "timeouts"
)  # fmt: skip
LISTS = ("took", "waited")


def _no_durations() -> list[int]:
    return [0] * BUCKETS


@dataclass(slots=True)
class FunctionSums:
    """`micros`: microseconds in all computations that ended, failed ones included.

    `took` and `waited` are histograms (`stampede_guard.stores.fleet.histogram`): of computations, and of the waits of
    callers without a hit. `collapsed`: callers that another caller's computation served, as `Collapsed` counts them.
    """

    hits: int = 0
    stale: int = 0
    misses: int = 0
    computations: int = 0
    failed: int = 0
    micros: int = 0
    collapsed: int = 0
    fallbacks: int = 0
    takeovers: int = 0
    timeouts: int = 0
    took: list[int] = field(default_factory=_no_durations)
    waited: list[int] = field(default_factory=_no_durations)

    def __iadd__(self, other: FunctionSums) -> FunctionSums:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in LISTS:
            mine, theirs = getattr(self, name), getattr(other, name)
            for index, number in enumerate(theirs):
                mine[index] += number
        return self

    @property
    def calls(self) -> int:
        return self.hits + self.stale + self.misses

    @property
    def hit_rate(self) -> float | None:
        """The share of calls that were served a stored value, fresh or stale. None without calls."""
        return (self.hits + self.stale) / self.calls if self.calls else None

    @property
    def saved(self) -> int:
        """Computations that plain functions would have run in addition."""
        return max(0, self.calls - self.computations)

    @property
    def saved_seconds(self) -> float | None:
        """The seconds of those, at the mean duration of the window. None if nothing was computed in it."""
        return self.saved * self.micros / self.computations / 1e6 if self.computations else None

    def took_quantile(self, share: float) -> float | None:
        """Seconds that this share of the computations did not exceed, approximately. None without computations."""
        return quantile(self.took, share)

    def waited_quantile(self, share: float) -> float | None:
        """The same for the waits of callers without a hit."""
        return quantile(self.waited, share)


def to_fields(sums: Mapping[str, FunctionSums]) -> dict[str, int]:
    """Fields and numbers of a hash, without zeros."""
    found: dict[str, int] = {}
    for title, row in sums.items():
        for kind in COUNTS:
            if number := getattr(row, kind):
                found[f"{kind}:{title}"] = number
        for kind in LISTS:
            for index, number in enumerate(getattr(row, kind)):
                if number:
                    found[f"{kind}{index}:{title}"] = number
    return found


def from_fields(slots: Iterable[Mapping[bytes, bytes]]) -> dict[str, FunctionSums]:
    """The sums of several slots, by function. Ignores what other programs have written."""
    found: dict[str, FunctionSums] = {}
    for stored in slots:
        for name, number in stored.items():
            kind, colon, title = name.decode("utf-8", "replace").partition(":")
            if not colon or not number.isdigit() or len(number) > LONGEST_NUMBER:
                continue
            if kind in COUNTS:
                row = found.setdefault(title, FunctionSums())
                setattr(row, kind, getattr(row, kind) + int(number))
            elif kind in _PLACES:
                word, index = _PLACES[kind]
                getattr(found.setdefault(title, FunctionSums()), word)[index] += int(number)
    return found


def sums_of(slot: Mapping[bytes, bytes], title: str) -> FunctionSums | None:
    """The sums of one function in a slot, without a look at the others. None if it has none."""
    names = [f"{kind}:{title}".encode("utf-8", "replace") for kind in (*COUNTS, *_PLACES)]
    return from_fields([{name: slot[name] for name in names if name in slot}]).get(title)


LONGEST_NUMBER = 18
_PLACES = {f"{word}{index}": (word, index) for word in LISTS for index in range(BUCKETS)}
