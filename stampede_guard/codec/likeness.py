"""Whether a decoded value is what was encoded, and whether a value may be shared between callers."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import ipaddress
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Iterable, Mapping
from typing import Any

from stampede_guard.annotations import field_names

__all__ = ["difference", "is_immutable"]

_SEQUENCES = (list, tuple)
_LEAVES = frozenset({types.NoneType, bool, int, float, str, bytes})
_IMMUTABLE = frozenset(
    {
        types.NoneType, types.EllipsisType, bool, int, float, complex, str, bytes, range,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, zoneinfo.ZoneInfo,
        decimal.Decimal, uuid.UUID, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath,
        ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    }
)  # fmt: skip


def is_immutable(value: Any) -> bool:
    """Whether nobody can change the value, however deep: then all callers may hold the same object."""
    kind = type(value)
    if kind in _IMMUTABLE or isinstance(value, enum.Enum):
        return True
    if kind is frozenset or (isinstance(value, tuple) and not hasattr(value, "__dict__")):
        return all(map(is_immutable, value))
    if not is_frozen(kind):
        return False
    names = field_names(kind) or ()
    return all(is_immutable(getattr(value, name, None)) for name in names)


def is_frozen(kind: type) -> bool:
    """Whether the fields of a record class cannot be assigned."""
    if dataclasses.is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    config = getattr(kind, "__struct_config__", None) or getattr(kind, "model_config", None)
    return bool(config.get("frozen") if isinstance(config, dict) else getattr(config, "frozen", False))


def difference(original: Any, back: Any, where: str = "the result") -> str | None:
    """What a caller would notice had it got `back` instead of `original`; None if nothing.

    A declared type may stand in for one that holds no more than it: a list for a tuple, `1.0` for `1`, a
    model for a dict with the same content. Values are not part of the answer: it is logged.
    """
    kind = type(original)
    if kind is not type(back):
        return _conversion(original, back, where)
    if isinstance(original, _SEQUENCES):
        return _sequence(original, back, where)
    if isinstance(original, dict):
        return _mapping(original, back, where)
    if isinstance(original, datetime.datetime | datetime.time):
        return None if original == back and _same_zone(original, back) else f"{where}: its time zone is lost"
    names = field_names(kind)
    if names is not None:
        return _record(original, back, names, where)
    same = original == back or (original != original and back != back)
    return None if same else f"{where}: a {kind.__name__} comes back changed"


def _conversion(original: Any, back: Any, where: str) -> str | None:
    target = type(back)
    if isinstance(original, _SEQUENCES) and isinstance(back, _SEQUENCES):
        return _sequence(original, back, where)
    if isinstance(original, Mapping) and target is dict:
        return _mapping(original, back, where)
    if isinstance(original, dict) and field_names(target) is not None:
        return _dict_as_record(original, back, where)
    if isinstance(back, enum.Enum) and not isinstance(original, enum.Enum) and original == back.value:
        return None
    widened = target is float and type(original) is int
    narrowed = target in (int, str, float, bytes, set, frozenset) and isinstance(original, target)
    if (widened or narrowed) and original == back:
        return None
    return f"{where}: a {type(original).__name__} would come back as a {target.__name__}"


def _same_leaf(item: Any, other: Any) -> bool:
    kind = type(item)
    return kind is type(other) and kind in _LEAVES and bool(item == other)


def _sequence(original: Any, back: Any, where: str) -> str | None:
    if len(original) != len(back):
        return f"{where}: of {len(original)} items {len(back)} come back"
    for index, (item, other) in enumerate(zip(original, back, strict=True)):
        if _same_leaf(item, other):
            continue
        if found := difference(item, other, f"{where}[{index}]"):
            return found
    return None


def _mapping(original: Mapping[Any, Any], back: Mapping[Any, Any], where: str) -> str | None:
    if len(original) != len(back):
        return f"{where}: of {len(original)} keys {len(back)} come back"
    for (key, item), (other_key, other) in zip(original.items(), back.items(), strict=True):
        if not _same_leaf(key, other_key) and difference(key, other_key):
            return f"{where}: a key of type {type(key).__name__} comes back changed or in another place"
        if _same_leaf(item, other):
            continue
        if found := difference(item, other, f"{where}[...]"):
            return found
    return None


def _record(original: Any, back: Any, names: Iterable[str], where: str) -> str | None:
    for name in names:
        found = difference(getattr(original, name, None), getattr(back, name, None), f"{where}.{name}")
        if found:
            return found
    for state in ("__pydantic_extra__", "__pydantic_private__"):
        extra = getattr(original, state, None) or {}
        found = difference(extra, getattr(back, state, None) or {}, f"{where}.{state}")
        if found:
            return found
    return None


def _dict_as_record(original: dict[Any, Any], back: Any, where: str) -> str | None:
    aliases = {
        field.alias: name for name, field in getattr(type(back), "model_fields", {}).items() if field.alias
    }
    for key, item in original.items():
        name = aliases.get(key, key)
        if not isinstance(name, str) or not hasattr(back, name):
            return f"{where}: a {type(back).__name__} has no place for one of the keys of the dict"
        if found := difference(item, getattr(back, name), f"{where}.{name}"):
            return found
    return None


def _same_zone(original: Any, back: Any) -> bool:
    if isinstance(original.tzinfo, zoneinfo.ZoneInfo) or isinstance(back.tzinfo, zoneinfo.ZoneInfo):
        return bool(original.tzinfo == back.tzinfo and original.fold == back.fold)
    return bool(original.utcoffset() == back.utcoffset())
