"""Finds the class of another process's exception by its name, and makes an empty object of it.

The name comes from the store, where an attacker may have written it. No code of the application runs here, and nothing
is imported. Only the dictionaries of modules and classes that are already there are read: no module's `__getattr__`,
no lazy module, no property, no metaclass. The built-in base class makes the object. `__new__` and `__init__` of the
class are not called.

These classes are never made:

- What does not derive from `Exception`, and errors that end generators or tasks.
- The errors of this library: its own code gives them a meaning.
- Classes with a `__del__` or an unusual metaclass, because such code would run.
- Classes of C extensions with data of their own, `SyntaxError` and the `Unicode...` errors, because arbitrary data in
  them may crash the interpreter.
"""

from __future__ import annotations

import builtins
import concurrent.futures
import struct
import types
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from stampede_guard.errors import StampedeError
from stampede_guard.values.classnames import name_of, named
from stampede_guard.values.codec.attributes import per_class

__all__ = ["class_named", "empty", "fields_of", "is_makeable", "look_among", "slots_of"]

_HEAP_TYPE = 1 << 9
_POINTER = struct.calcsize("P")
_MOST_CLASSES = 2_000
"""The most subclasses of handled classes that are looked at."""
_GROUP: Any = BaseExceptionGroup
_ORDINARY: Final = frozenset({type, ABCMeta})
_NEVER = (
    StampedeError,
    StopIteration,
    StopAsyncIteration,
    # asyncio makes a cancellation of it.
    concurrent.futures.CancelledError,
    MemoryError,
)
_FIELDS: dict[type, dict[str, tuple[type, ...]]] = {
    OSError: {"errno": (int,), "strerror": (str,), "filename": (str,), "filename2": (str,)},
    ImportError: {"msg": (str,), "name": (str,), "path": (str,)},
    NameError: {"name": (str,)},
    AttributeError: {"name": (str,)},
    BaseExceptionGroup: {},
}
"""The built-in classes with fields in C, and the types of the fields that travel. `None` is always allowed."""

_handled: list[Callable[[], Iterable[object] | None]] = []


def look_among(classes: Callable[[], Iterable[object] | None]) -> None:
    """Also find these classes and their subclasses, for example those that were defined within a function.

    `classes` is forgotten when it returns None.
    """
    _handled.append(classes)


def class_named(module: str, qualname: str) -> type[Exception] | None:
    """The class, if it is already here under this name and can be made."""
    found = named(module, qualname, is_makeable)
    if found is not None:
        return found
    same = {
        one
        for one in _handled_classes()
        if one.__qualname__ == qualname and name_of(one) == (module, qualname)
    }
    return same.pop() if len(same) == 1 else None


def _handled_classes() -> Iterator[type[Exception]]:
    waiting: list[Any] = []
    for classes in list(_handled):
        found = classes()
        if found is None:
            _handled.remove(classes)
        else:
            waiting += found
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_CLASSES:
        kind = waiting.pop()
        if type(kind) not in _ORDINARY or kind in (Exception, BaseException) or id(kind) in seen:
            continue
        seen.add(id(kind))
        waiting += type.__subclasses__(kind)
        if is_makeable(kind):
            yield kind


def is_makeable(kind: type) -> bool:
    """Whether an object of this class can be made and filled without running code of the class."""
    return type(kind) in _ORDINARY and issubclass(kind, Exception) and _is_makeable(kind)


@per_class
def _is_makeable(kind: type) -> bool:
    if issubclass(kind, _NEVER) or any(
        base.__module__.partition(".")[0] == "stampede_guard" for base in kind.__mro__
    ):
        return False
    layout = _layout(kind)
    if vars(builtins).get(layout.__name__) is not layout or _fields(layout) is None:
        return False
    return all(_is_pure(base) for base in kind.__mro__ if base.__flags__ & _HEAP_TYPE)


@per_class
def _layout(kind: type) -> type:
    """The built-in class that defines the memory layout."""
    while kind.__flags__ & _HEAP_TYPE:
        assert kind.__base__ is not None
        kind = kind.__base__
    return kind


def _fields(layout: type) -> dict[str, tuple[type, ...]] | None:
    if layout.__basicsize__ == Exception.__basicsize__:
        return {}
    return next((fields for base, fields in _FIELDS.items() if issubclass(layout, base)), None)


def _is_pure(base: type) -> bool:
    """Whether a class was written in Python, and does nothing when its objects die or show their attributes."""
    names = vars(base)
    if "__del__" in names or type(names.get("__dict__", None)) not in (
        type(None),
        types.GetSetDescriptorType,
    ):
        return False
    members = sum(isinstance(member, types.MemberDescriptorType) for member in names.values())
    if members and "__slots__" not in names:
        return False
    before = base.__base__
    grown = base.__basicsize__ - before.__basicsize__ if before is not None else 0
    return grown <= _POINTER * (members + ("__weakref__" in names))


def empty(kind: type[Exception], message: str, members: list[Exception]) -> Exception:
    """An object of a class that `is_makeable`, without arguments and attributes. `members` are those of a group."""
    made: Any
    if issubclass(kind, _GROUP):
        made = _GROUP.__new__(kind, message, members)
    else:
        layout: Any = _layout(kind)
        made = layout.__new__(kind)
    if type(made) is not kind:
        raise TypeError
    rebuilt: Exception = made
    return rebuilt


def slots_of(kind: type) -> dict[str, Any]:
    """The descriptors of the `__slots__` of a class and its bases."""
    return {
        name: member
        for base in reversed(kind.__mro__)
        if base.__flags__ & _HEAP_TYPE
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    }


def fields_of(kind: type) -> dict[str, tuple[Any, tuple[type, ...]]]:
    """The fields of the built-in base class: `errno`, `filename`, ... Their descriptors and types."""
    layout = _layout(kind)
    fields = _fields(layout) or {}
    return {
        name: (next(vars(base)[name] for base in layout.__mro__ if name in vars(base)), types_)
        for name, types_ in fields.items()
    }
