"""What a fleet did per function and minute: where it is stored, and how it is read.

Each minute of a namespace is one hash, `{shop:stats:29412345}`. A field is a kind and a function's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

__all__ = ["KEPT_MS", "MINUTE", "FunctionSums", "from_fields", "minute_name", "to_fields"]

MINUTE = 60.0
KEPT_MS = 25 * 3600 * 1000
"""How long the sums of a minute are kept: a day, and an hour for those who look back a day."""


@dataclass(slots=True)
class FunctionSums:
    """`micros`: microseconds in all computations that ended, failed ones included."""

    hits: int = 0
    stale: int = 0
    misses: int = 0
    computations: int = 0
    failed: int = 0
    micros: int = 0

    def __iadd__(self, other: FunctionSums) -> FunctionSums:
        for name in KINDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
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


KINDS = tuple(field.name for field in fields(FunctionSums))


def minute_name(namespace: str, minute: int) -> str:
    """The name of a minute's sums. No entry uses its key, because the keys of entries have a suffix."""
    return f"{namespace}:stats:{minute}"


def to_fields(sums: Mapping[str, FunctionSums]) -> dict[str, int]:
    """Fields and numbers of a hash, without zeros."""
    return {
        f"{kind}:{title}": number
        for title, row in sums.items()
        for kind in KINDS
        if (number := getattr(row, kind))
    }


def from_fields(minutes: Iterable[Mapping[bytes, bytes]]) -> dict[str, FunctionSums]:
    """The sums of several minutes, by function. Ignores what other programs have written."""
    found: dict[str, FunctionSums] = {}
    for stored in minutes:
        for name, number in stored.items():
            kind, colon, title = name.decode("utf-8", "replace").partition(":")
            if colon and kind in KINDS and number.isdigit():
                row = found.setdefault(title, FunctionSums())
                setattr(row, kind, getattr(row, kind) + int(number))
    return found
