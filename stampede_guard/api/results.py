"""What calls return besides plain values: `CallInfo` of `with_info`, and `MISSING` of `get` and `peek`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar

from stampede_guard.engine.engine import ServedFrom, Told
from stampede_guard.errors import Misuse

__all__ = ["MISSING", "CallInfo", "Missing", "info"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Missing(enum.Enum):
    """The type of `MISSING`. It has no truth value, because `None`, `0` and `""` are values, too."""

    MISSING = "MISSING"

    def __bool__(self) -> NoReturn:
        raise Misuse("MISSING is neither true nor false: write `if value is MISSING`")

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""There is no fresh value. Compare with `is`: a stored `None` is a value."""


@dataclass(frozen=True, slots=True)
class CallInfo(Generic[T_co]):
    """A value, and how this call got it. `age`: seconds since it was stored; 0.0 for one computed just now.

    `source` is `hit`, `l1`, `memory`, `stale`, `computed`, `collapsed`, `fallback` or `bypass`: see docs/values.md.
    """

    value: T_co
    source: ServedFrom
    age: float


def info(value: T, told: Told) -> CallInfo[T]:
    return CallInfo(value, told.source, told.age)


def uncached(value: T) -> CallInfo[T]:
    """Of a value that was computed without the cache."""
    return CallInfo(value, "bypass", 0.0)
