"""Which values callers may share: those that are immutable at every depth.

"Frozen" is less than that. A frozen dataclass or pydantic model keeps its attributes in a dictionary. A
`cached_property`, a private attribute or `object.__setattr__` can add new ones there. So only Python's own
immutable types are shared, tuples, frozensets and named tuples of them, and frozen structs of msgspec. All other
values are decoded for each caller.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import pathlib
import types
import uuid
import zoneinfo
from typing import Any

from stampede_guard.values.codec.attributes import per_class

__all__ = ["is_frozen_struct", "is_immutable", "is_plain_tuple"]

_DEEPEST = 50
_IMMUTABLE = frozenset(
    {
        types.NoneType, types.EllipsisType, bool, int, float, complex, str, bytes, range,
        datetime.date, datetime.timedelta, datetime.timezone, zoneinfo.ZoneInfo,
        decimal.Decimal, uuid.UUID, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath,
        ipaddress.IPv4Address, ipaddress.IPv6Address,
    }
)  # fmt: skip
_MOMENTS = frozenset({datetime.datetime, datetime.time})


def is_immutable(value: Any, depth: int = 0) -> bool:
    """Whether the value is immutable at every depth, so that all callers may hold the same object."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return True
    if depth > _DEEPEST:
        return False
    if kind in _MOMENTS:
        # A zone of a user's own class may be mutable.
        return is_immutable(value.tzinfo, depth + 1)
    if isinstance(value, enum.Enum):
        # Each decoding gives the same member anyway, but not the same list of members.
        return is_immutable(value._value_, depth + 1)
    if kind is frozenset or is_plain_tuple(kind):
        items = frozenset.__iter__(value) if kind is frozenset else tuple.__iter__(value)
        return all(is_immutable(item, depth + 1) for item in items)
    if is_frozen_struct(kind):
        names: tuple[str, ...] = kind.__struct_fields__
        return all(is_immutable(getattr(value, name, None), depth + 1) for name in names)
    return False


@per_class
def is_plain_tuple(kind: type) -> bool:
    """A tuple or a named tuple. A subclass of one may have attributes beside its items."""
    return issubclass(kind, tuple) and not _has_room(kind)


@per_class
def is_frozen_struct(kind: type) -> bool:
    """A struct of msgspec that cannot be changed, not even by `object.__setattr__`."""
    config = getattr(kind, "__struct_config__", None)
    return getattr(config, "frozen", False) is True and not _has_room(kind, kind.__struct_fields__)  # type: ignore[attr-defined]


def _has_room(kind: type, fields: tuple[str, ...] = ()) -> bool:
    """Whether values of a class can hold more than their items or `fields`."""
    return any(
        name == "__dict__" or (isinstance(member, types.MemberDescriptorType) and name not in fields)
        for base in kind.__mro__
        if base is not object
        for name, member in vars(base).items()
    )
