"""The complete state of an object beyond the content of a built-in base: every attribute, declared or not.

Key and computation agree only if all of it is in the key. So an object with state that Python cannot see is
refused.
"""

from __future__ import annotations

import functools
import struct
import sys
import types
from collections.abc import Container, Iterable
from typing import Any

from stampede_guard.values.annotations import field_names, live_kind, root_package
from stampede_guard.values.parts.classes import Unkeyable

__all__ = ["attributes", "is_record", "plain_object_problem", "refuse_hidden_state"]

_HEAP_TYPE = 1 << 9
_MANAGED_DICT = 1 << 4
_POINTER = struct.calcsize("P")
# The base class that holds the state of a model. Which fields were set explicitly does not make two models differ.
_PYDANTIC_SLOTS = ("__pydantic_extra__", "__pydantic_private__")
_NOT_STATE = frozenset(
    {"__dict__", "__weakref__", "__pydantic_fields_set__", "_attrs_cached_hash", *_PYDANTIC_SLOTS}
)
_READERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_RESOURCES = ("__enter__", "__aenter__", "__del__", "close", "aclose", "__next__", "__anext__", "__await__")
_PROXIES = ("__getattr__", "__getattribute__")
_PLAIN_OF_PYTHON = frozenset({"argparse.Namespace", "collections.UserDict", "collections.UserList",
                              "collections.UserString", "collections.ChainMap"})  # fmt: skip


def is_record(kind: type) -> bool:
    """Whether a class declares its fields: dataclass, pydantic, msgspec, attrs."""
    return field_names(kind) is not None


@functools.lru_cache(maxsize=2048)
def _layout(
    kind: type, content: type
) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...], Any, frozenset[str]]:
    """Declared fields in order; slots of the classes above the content; what reads the object's dictionary, if it has
    one; names of attributes that only cache others.

    A class may have a slot of the same name as its base. The base's slot is still there, so it gets another name.
    """
    slots: dict[str, Any] = {}
    cached: set[str] = set()
    known: set[str] = set()
    laid_out = _line_of_bases(kind)
    for base in kind.__mro__:
        if base in content.__mro__:
            continue
        names = set(_cached_by_attrs(base))
        for name, value in vars(base).items():
            if isinstance(value, types.MemberDescriptorType) and name not in _NOT_STATE and base in laid_out:
                if value not in slots.values():  # attrs lets a subclass use its base's again
                    slots[_free(name, slots)] = value
            elif isinstance(value, functools.cached_property) or type(value).__name__ == "cached_property":
                names.add(name)
        # What a subclass has under this name is what an object has.
        cached |= names - known
        known.update(vars(base))
    return field_names(kind) or (), tuple(slots.items()), _dictionary_of(kind), frozenset(cached)


def _cached_by_attrs(base: type) -> Iterable[str]:
    """The cached properties of a class with slots. attrs makes a slot of each, and a `__getattr__` that fills it."""
    getter = vars(base).get("__getattr__")
    if "__attrs_attrs__" not in vars(base) or not isinstance(getter, types.FunctionType):
        return ()
    names, values = getter.__code__.co_varnames[: getter.__code__.co_argcount], getter.__defaults__ or ()
    found = dict(zip(reversed(names), reversed(values), strict=False)).get("cached_properties")
    return found if isinstance(found, dict) else ()


def _free(name: str, taken: Container[str]) -> str:
    while name in taken:
        name += "@"
    return name


def _dictionary_of(kind: type) -> Any:
    """What reads the dictionary of an object, also if a class defines an attribute `__dict__` of its own."""
    if not kind.__dictoffset__:
        return None
    readers = (vars(base).get("__dict__") for base in kind.__mro__)
    return next((found for found in readers if isinstance(found, _READERS)), None)


def _line_of_bases(kind: type) -> set[type]:
    """The bases that define the object's memory layout.

    Other classes may be in the method resolution order by a trick, as in asyncpg's UUID. Reading one of their slots
    would read other memory.
    """
    found, base = set(), kind
    while base is not object:
        found.add(base)
        base = base.__base__ or object
    return found


def attributes(value: Any, content: type = object) -> dict[str, Any]:
    """Every attribute of the object itself: fields first, then all others by name. The attributes of a built-in
    `content` are left out.

    Also left out are cached values of a `cached_property`, and which fields of a model were set explicitly.
    """
    kind = type(value)
    names, slots, dictionary, cached = _layout(kind, content)  # type: ignore[arg-type]  # mypy takes a type for unhashable
    found: dict[str, Any] = {}
    for name, slot in slots:
        try:
            found[name] = slot.__get__(value, kind)
        except AttributeError:
            continue
    for name, item in (dictionary.__get__(value, kind) if dictionary else {}).items():
        found[_free(name, found)] = item  # an attribute with a slot is the slot's
    ordered = {name: found.pop(name) for name in names if name in found}
    ordered |= {name: found[name] for name in sorted(found, key=str) if name not in cached}
    if hasattr(kind, "__pydantic_fields_set__") or hasattr(kind, "__pydantic_extra__"):
        for name in _PYDANTIC_SLOTS:
            state = getattr(value, name, None)
            if state:
                ordered[name] = state
    return ordered


def refuse_hidden_state(kind: type, content: type = object) -> None:
    """Raises `Unkeyable` for a class whose objects have state without an attribute, as those written in C may have."""
    if isinstance(getattr(kind, "__struct_fields__", None), tuple):
        return  # msgspec's are written in C, and have only their fields
    for base in kind.__mro__:
        if base in content.__mro__ or base is object:
            continue
        if not base.__flags__ & _HEAP_TYPE or _grown(base) > _explained(base) or _has_unreadable_dict(base):
            raise Unkeyable(kind, "what it holds is not in attributes, so nobody can tell two of them apart")


def _grown(base: type) -> int:
    """The bytes that a class adds to each object. A number of its own of items is more than can be explained."""
    parent = base.__base__ or object
    if base.__itemsize__ != parent.__itemsize__:
        return sys.maxsize
    return base.__basicsize__ - max(parent.__basicsize__, object.__basicsize__)


def _explained(base: type) -> int:
    """The bytes of what Python itself adds: slots, a dict, a list of weak references.

    A dict or list that Python manages lies before the object, and counts nothing. Members of a class written in C may
    have any size, so they explain nothing: only such a class has members without `__slots__`.
    """
    parent = base.__base__ or object
    is_managed = base.__flags__ & _MANAGED_DICT
    pointers = int(bool(base.__dictoffset__) and not parent.__dictoffset__ and not is_managed)
    pointers += int(base.__weakrefoffset__ > 0 and not parent.__weakrefoffset__)
    if "__slots__" in vars(base):
        pointers += sum(isinstance(value, types.MemberDescriptorType) for value in vars(base).values())
    return _POINTER * pointers


def _has_unreadable_dict(base: type) -> bool:
    return bool(base.__dictoffset__) and _dictionary_of(base) is None


@functools.lru_cache(maxsize=2048)
def plain_object_problem(kind: type) -> str | None:
    """Why the attributes do not describe an object of this class; None if they do, as for a class given to
    `Depends`.
    """
    live = live_kind(kind)
    full = f"{kind.__module__}.{kind.__qualname__}"
    unknown = "it has no text that stays the same between processes"
    if live is not None or full.startswith(("fastapi.", "starlette.", "unittest.mock.")):
        return unknown
    if root_package(kind) in sys.stdlib_module_names and full not in _PLAIN_OF_PYTHON:
        return None if root_package(kind) == "__main__" else unknown
    if any(hasattr(kind, name) for name in _RESOURCES):
        return "it looks like something that is open (it can be closed, entered or awaited)"
    if any(name in vars(base) for name in _PROXIES for base in kind.__mro__ if base is not object):
        return "it answers for attributes that it does not have"
    try:
        refuse_hidden_state(kind)
    except Unkeyable as problem:
        return problem.reason
    return None
