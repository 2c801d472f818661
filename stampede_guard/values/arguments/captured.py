"""Copies of arguments that a computation may read after the caller has changed its own.

Copied are the values in a key: collections, records, and objects that are described by their attributes, at every
depth. Shared are immutable values, and values whose copy would be another thing: an object with a `__cache_key__`,
an open connection.
"""

from __future__ import annotations

import collections
import contextvars
import copy
import datetime
import decimal
import enum
import fractions
import re
import sys
import types
import uuid
import zoneinfo
from array import array
from collections.abc import Callable
from typing import Any

from stampede_guard.values.parts.parts import is_copied_whole, is_plain_object, is_scalar
from stampede_guard.values.parts.rows import is_row
from stampede_guard.values.parts.state import attributes

__all__ = ["IMMUTABLE", "Copying", "all_immutable"]

IMMUTABLE: frozenset[type] = frozenset(
    {
        types.NoneType, bool, int, float, complex, str, bytes, range, slice, types.EllipsisType, datetime.datetime,
        datetime.date, datetime.time, datetime.timedelta, datetime.timezone, zoneinfo.ZoneInfo, decimal.Decimal,
        fractions.Fraction, uuid.UUID, re.Pattern, contextvars.ContextVar, types.FunctionType,
    }
)  # fmt: skip


def all_immutable(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all of these are immutable. Then nothing needs to be copied, or checked again later."""
    # A loop: each call without a hit runs it, and a generator would cost as much as three more arguments.
    for value in args:
        if type(value) not in IMMUTABLE:
            return False
    return not kwargs or all(type(value) in IMMUTABLE for value in kwargs.values())


class Copying:
    """Copies of several values. `live`: a mutable value was shared.

    `objects`: also copy plain objects, whose attributes are in the key. Not with `key=`: such an object may be
    anything, and stays the same object.
    """

    def __init__(self, *, objects: bool = True) -> None:
        self.live = False
        self._objects = objects

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in IMMUTABLE:
            return value
        try:
            copied = _COPIERS.get(kind)
            if copied is not None:
                return copied(self, value)
            if isinstance(value, enum.Enum | type) or is_scalar(kind):
                return value
            if is_copied_whole(kind) and (self._objects or not is_plain_object(kind)):
                return self._object(value)
        except Exception:  # a class's own way of copying may raise anything
            pass
        self.live = True
        return value

    def items(self, values: Any) -> list[Any]:
        return [self.of(value) for value in values]

    def pairs(self, value: Any) -> list[tuple[Any, Any]]:
        return [(self.of(key), self.of(item)) for key, item in value.items()]

    def same_or(self, value: Any, made: Callable[[Any], Any]) -> Any:
        """For a collection that is immutable itself, but may contain mutable items."""
        items = self.items(value)
        return value if all(one is other for one, other in zip(items, value, strict=True)) else made(items)

    def _object(self, value: Any) -> Any:
        copied = copy.copy(value)
        if copied is value:
            self.live = True
            return value
        copied, is_new = self._filled(value, copied)
        for name, item in attributes(value).items():
            if name == "_state" and is_row(type(value)):
                # Django's copy has one of its own. Its related rows are in no key, and may refer to this row again.
                continue
            own = self.of(item)
            if name in getattr(value, "__dict__", ()):
                # Needed if a library's own way of copying omits it.
                copied.__dict__[name] = own
            elif own is item and not is_new:
                continue
            elif hasattr(type(copied), "__struct_fields__"):
                sys.modules["msgspec"].structs.force_setattr(copied, name, own)
            else:
                object.__setattr__(copied, name, own)
        return copied

    def _filled(self, value: Any, copied: Any) -> tuple[Any, bool]:
        """The shallow copy of a collection with copies of its items, and whether it was made anew for them.

        The methods are those of the built-in class: what a subclass does in its own is done already.
        """
        base = next((base for base in _BASES if isinstance(value, base)), None)
        if base is None:
            return copied, False
        if issubclass(base, dict):
            before = [*base.items(value)]
            pairs = [(self.of(key), self.of(item)) for key, item in before]
            if any(key is not old for (key, _), (old, _) in zip(pairs, before, strict=True)):
                base.clear(copied)
            for key, item in pairs:
                base.__setitem__(copied, key, item)
            return copied, False
        before = [*base.__iter__(value)]
        items = self.items(before)
        if all(one is other for one, other in zip(items, before, strict=True)):
            return copied, False
        if base in (tuple, frozenset):
            return base.__new__(type(value), items), True
        base.clear(copied)
        getattr(base, "update" if base is set else "extend")(copied, items)
        return copied, False


_BASES: tuple[Any, ...] = (collections.OrderedDict, dict, list, tuple, set, frozenset, collections.deque)
_COPIERS: dict[type, Callable[[Copying, Any], Any]] = {
    list: Copying.items,
    dict: lambda copying, value: dict(copying.pairs(value)),
    tuple: lambda copying, value: copying.same_or(value, tuple),
    set: lambda copying, value: set(copying.items(value)),
    frozenset: lambda copying, value: copying.same_or(value, frozenset),
    bytearray: lambda copying, value: bytearray(value),
    array: lambda copying, value: value[:],
    types.MappingProxyType: lambda copying, value: types.MappingProxyType(dict(copying.pairs(value))),
    types.SimpleNamespace: lambda copying, value: types.SimpleNamespace(
        **{name: copying.of(item) for name, item in vars(value).items()}
    ),
    collections.deque: lambda copying, value: collections.deque(copying.items(value), value.maxlen),
    collections.OrderedDict: lambda copying, value: collections.OrderedDict(copying.pairs(value)),
    collections.defaultdict: lambda copying, value: collections.defaultdict(
        value.default_factory, copying.pairs(value)
    ),
}
