"""Numbers and texts that equal a given one but have another type or form: each has its own key."""

from __future__ import annotations

import decimal
import enum
from collections.abc import Callable
from typing import Any

__all__ = ["equal_numbers", "to_places"]


def equal_numbers(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    def equal(value: Any) -> tuple[Any, ...]:
        if isinstance(value, enum.Enum):
            return (value.value,) if isinstance(value.value, kind) else ()
        if kind is str or kind is bytes:
            return (_BASES[kind](value),) if isinstance(value, kind) and type(value) is not kind else ()
        others: list[Any] = []
        for other in _NUMBERS.get(kind, ()):
            try:
                same = other(value)
                if same == value and type(same) is not type(value):
                    others.append(same)
            except (ValueError, TypeError, ArithmeticError):
                continue
        return tuple(others)

    return equal


_NUMBERS: dict[type, tuple[type, ...]] = {
    int: (int,),
    float: (int, float),
    decimal.Decimal: (int, decimal.Decimal),
    bool: (bool,),
}
_BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}


def to_places(value: decimal.Decimal, exponent: int) -> decimal.Decimal | None:
    """The same number, written with more or fewer zeros; None if it cannot be."""
    try:
        moved = value.quantize(decimal.Decimal((0, (1,), exponent)))
    except ArithmeticError:
        return None
    return moved if moved == value else None
