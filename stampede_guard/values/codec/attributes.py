"""Attributes of an object beside the fields of its class. No declared type has a place for them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from stampede_guard.values.annotations import root_package

__all__ = ["NO_FIELDS", "attributes_of", "is_standard", "own_slots", "per_class"]

R = TypeVar("R")

NO_FIELDS: frozenset[str] = frozenset()

_BOOKKEEPING = frozenset({"_sa_instance_state", "__pydantic_private__", "__orig_class__"})
"""Internal state of SQLAlchemy, and of pydantic's root models; what `typing` keeps of a call `Page[int](...)`. It is
not part of the object's value.
"""
_HEAP_TYPE = 1 << 9
_STANDARD = frozenset(
    {"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo", "collections"}
)


def per_class(find: Callable[[type], R]) -> Callable[[type], R]:
    """Caches a function of a class, for the most recently used classes."""
    return cast("Callable[[type], R]", functools.lru_cache(maxsize=512)(find))


def is_standard(kind: type) -> bool:
    """Whether a class is one of Python's own that are written in Python. Their slots hold cached values."""
    return root_package(kind) in _STANDARD


def attributes_of(value: Any, fields: frozenset[str]) -> dict[str, Any]:
    """By name, without the `fields` and without cached values of a `cached_property`."""
    kind = type(value)
    found: dict[str, Any] = {}
    held = _dictionary(value)
    if held and not (len(held) == len(fields) and fields.issuperset(held)):
        left_out = _cached_properties(kind)
        found = {
            name: item
            for name, item in held.items()
            if name not in fields and name not in left_out and name not in _BOOKKEEPING
        }
    for name, slot in own_slots(kind):
        if name not in fields:
            try:
                found[name] = slot.__get__(value)
            except AttributeError:  # never set
                continue
    return found


def _dictionary(value: Any) -> dict[str, Any] | None:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None


@per_class
def own_slots(kind: type) -> tuple[tuple[str, types.MemberDescriptorType], ...]:
    """The `__slots__` of a class and its bases that are written in Python."""
    return tuple(
        (name, member)
        for base in kind.__mro__
        # attrs adds its own slots for cached properties
        if base.__flags__ & _HEAP_TYPE and "__attrs_attrs__" not in vars(base) and not is_standard(base)
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType) and not name.startswith("__")
    )


@per_class
def _cached_properties(kind: type) -> frozenset[str]:
    """Recognised by the name of their class, because Django, werkzeug and others have their own."""
    return frozenset(
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if any(one.__name__ == "cached_property" for one in type(member).__mro__)
    )
