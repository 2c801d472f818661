"""Exact bytes for values of Python's own types: the decoded value is equal, with the same types and order.

The bytes are MessagePack. Types without a MessagePack form (tuples, sets, wide integers, dates with their zones)
are extension types, numbered below. Only exact types are accepted: a subclass would come back as its base.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
import zoneinfo
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from msgspec import msgpack

from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import (
    comes_from,
    cure_of_django,
    cure_of_live,
    is_mapped,
    live_kind,
    root_package,
    title_of,
)

__all__ = ["EXACT_TYPES", "Other", "dumps", "lift", "lift_with", "loads", "refusal"]

# The numbers are part of the stored format: never give one a new meaning. 13 marks stamps, 14
# compressed values, 15 records: see `values.codec.stamped`, `.compressed` and `.records`. 100 marks Django's fragments.
(
    _WIDE_INT,
    _WILD_STR,
    _TUPLE,
    _SET,
    _FROZENSET,
    _DATETIME,
    _DATE,
    _TIME,
    _TIMEDELTA,
    _DECIMAL,
    _UUID,
    _PAIRS,
) = range(1, 13)

_LEAVES = frozenset({NoneType, bool, float, bytes})
_DEEPEST = 200  # safe for the stack of every supported interpreter

EXACT_TYPES: tuple[type, ...] = (
    bytes, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID,
)  # fmt: skip


Other = Callable[[Any, Callable[[Any], Any]], Any]
"""Lowers a value of another type, with the function that lowers its parts. Raises `UnsupportedValue`."""


def dumps(value: Any, other: Other | None = None) -> bytes:
    """The bytes of a value. Raises `UnsupportedValue`, which names the type, if the value would not come back the
    same.
    """
    try:
        return msgpack.encode(_lower(value, 0, other))
    except (OverflowError, ValueError) as error:
        raise UnsupportedValue(f"the result is too large to be stored: {error}") from error


def loads(data: bytes) -> Any:
    """The value of bytes made by `dumps`. Raises any error that damaged bytes cause."""
    return _loads(data)


def _lower(value: Any, depth: int, other: Other | None) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind in _LEAVES:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else _wide(value)
    if depth > _DEEPEST:
        raise UnsupportedValue(f"the result is nested more than {_DEEPEST} levels deep, or holds itself")
    depth += 1
    if kind is dict:
        keys = [key if type(key) is str and key.isascii() else _lower(key, depth, other) for key in value]
        pairs = zip(keys, [_lower(item, depth, other) for item in value.values()], strict=True)
        # an extension cannot be a key here, although its value can
        return (
            msgpack.Ext(_PAIRS, msgpack.encode(list(pairs)))
            if msgpack.Ext in map(type, keys)
            else dict(pairs)
        )
    if kind is list:
        return [_lower(item, depth, other) for item in value]
    if kind is tuple or kind is set or kind is frozenset:
        code = _TUPLE if kind is tuple else _SET if kind is set else _FROZENSET
        return msgpack.Ext(code, msgpack.encode([_lower(item, depth, other) for item in value]))
    lower = _LOWERED.get(kind)
    if lower is None:
        if other is None:
            raise refusal(value)
        return other(value, lambda inner: _lower(inner, depth, other))
    code, content = lower(value)
    return msgpack.Ext(code, msgpack.encode(content))


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return msgpack.Ext(_WILD_STR, value.encode("utf-8", "surrogatepass"))
    return value


def _wide(value: int) -> msgpack.Ext:
    return msgpack.Ext(_WIDE_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _zone(value: datetime.datetime | datetime.time) -> Any:
    zone = value.tzinfo
    if zone is None:
        return None
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is not None:
        return zone.key
    if type(zone) is datetime.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]  # the only place that tells a given name
        return [_microseconds(offset), *name]
    offset = value.utcoffset()
    if root_package(type(zone)) == "pydantic_core" and offset is not None:
        return [_microseconds(offset)]
    raise UnsupportedValue(
        f"a {type(value).__name__} in the result has a time zone of type {root_package(type(zone))} "
        f"{type(zone).__name__}; use zoneinfo.ZoneInfo or datetime.timezone"
    )


def _microseconds(length: datetime.timedelta) -> int:
    return length // datetime.timedelta(microseconds=1)


def _moment(value: Any) -> list[Any]:
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, _zone(value)]


_LOWERED: dict[type, Callable[[Any], tuple[int, Any]]] = {
    datetime.datetime: lambda value: (_DATETIME, _moment(value)),
    datetime.date: lambda value: (_DATE, value.toordinal()),
    datetime.time: lambda value: (_TIME, _moment(value)),
    datetime.timedelta: lambda value: (_TIMEDELTA, [value.days, value.seconds, value.microseconds]),
    decimal.Decimal: lambda value: (_DECIMAL, str(value)),
    uuid.UUID: lambda value: (_UUID, value.bytes),
}


def _lift_zone(zone: Any) -> datetime.tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return zoneinfo.ZoneInfo(zone)
    offset, *name = zone
    return datetime.timezone(datetime.timedelta(microseconds=offset), *name)


def _lift_datetime(content: Any) -> datetime.datetime:
    text, fold, zone = content
    return datetime.datetime.fromisoformat(text).replace(tzinfo=_lift_zone(zone), fold=fold)


def _lift_time(content: Any) -> datetime.time:
    text, fold, zone = content
    return datetime.time.fromisoformat(text).replace(tzinfo=_lift_zone(zone), fold=fold)


_LIFTED: dict[int, Callable[[Any], Any]] = {
    _PAIRS: dict,
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DATETIME: _lift_datetime,
    _DATE: datetime.date.fromordinal,
    _TIME: _lift_time,
    _TIMEDELTA: lambda content: datetime.timedelta(*content),
    _DECIMAL: decimal.Decimal,
    _UUID: lambda content: uuid.UUID(bytes=content),
}


def lift(code: int, data: memoryview) -> Any:
    """The value of an extension type: the hook for a MessagePack decoder."""
    return lift_with(_loads, code, data)


def lift_with(loads: Callable[[Any], Any], code: int, data: memoryview) -> Any:
    """The same, with the decoder of the value's parts."""
    if code == _WIDE_INT:
        return int.from_bytes(data, "big", signed=True)
    if code == _WILD_STR:
        return bytes(data).decode("utf-8", "surrogatepass")
    return _LIFTED[code](loads(data))


_loads = msgpack.Decoder(ext_hook=lift).decode


def refusal(value: Any) -> UnsupportedValue:
    """The error for a value that these bytes cannot hold. It states what to write instead."""
    kind = type(value)
    name = title_of(kind)
    if live_kind(kind) is not None:
        return UnsupportedValue(
            f"the function returned a {name}, which cannot be stored and given to other callers; {cure_of_live(kind)}"
        )
    if root_package(kind) in ("numpy", "pandas", "pyarrow"):
        cure = "call .item() on a single number" if hasattr(value, "item") and not _has_length(value) else ""
        return UnsupportedValue(
            f"the result holds a {name}; "
            + (
                cure
                or f"if it is the whole result, annotate the function: -> {kind.__name__} (docs/values.md)"
            )
        )
    if hasattr(value, "_mapping"):  # a Row of SQLAlchemy
        return UnsupportedValue(
            f"the result holds a {name}; return plain dictionaries instead: dict(row._mapping)"
        )
    if isinstance(value, Mapping) or hasattr(value, "keys"):
        return UnsupportedValue(f"the result holds a {name}; return plain dictionaries instead: dict(row)")
    if comes_from(kind, "django"):
        return UnsupportedValue(f"the result holds a {name}, an object of Django; {cure_of_django(kind)}")
    if is_mapped(kind):
        return UnsupportedValue(
            f"the result holds a {name}, a row of a session that its callers do not have; annotate the function with "
            "the data that they need (a pydantic model, dataclass, TypedDict, msgspec.Struct ...), or return Python's "
            "own types"
        )
    return UnsupportedValue(
        f"the result holds a {name}, which cannot be stored exactly without a return annotation that describes it; "
        f"annotate the function (a pydantic model, dataclass, TypedDict, msgspec.Struct, enum ...), "
        f"return Python's own types, or ask for pickle by name: pickle=True"
    )


def _has_length(value: Any) -> bool:
    try:
        len(value)
    except TypeError:
        return False
    return True
