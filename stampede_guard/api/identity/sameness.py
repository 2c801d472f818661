"""The parts of a value for a comparison in `definition`. Parts are equal only if the values surely mean the same.

Objects are compared by identity and not kept alive. A part that cannot be known is never equal to another.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from stampede_guard.api.identity.bytecode import attributes_read, set_on, stays
from stampede_guard.values.annotations import is_marker
from stampede_guard.values.keys.naming import innermost
from stampede_guard.values.parts.parts import digest, text_of

__all__ = ["FunctionPart", "Given", "Parts", "home_of", "mark_cached"]

_DEEPEST = 12
_CACHED = "__stampede_guard_cached__"
_OURS = frozenset({
    "invalidate", "refresh", "key", "keys", "explain", "with_info", "peek", "set", "set_mode", "__signature__",
    "__wrapped__",
})  # fmt: skip
"""Attributes that `functools.wraps` and this library's decorators set. Marks of this library have its name."""
_FIXED = frozenset({
    types.NoneType, bool, int, float, complex, str, bytes, datetime.date, datetime.datetime, datetime.time,
    datetime.timedelta, decimal.Decimal, uuid.UUID,
})  # fmt: skip
"""Types of immutable values. They are compared by type and text."""


def home_of(names: dict[str, Any]) -> weakref.ref[types.ModuleType] | None:
    """The module in `sys.modules` that has this namespace."""
    module = sys.modules.get(str(names.get("__name__")))
    return weakref.ref(module) if module is not None and getattr(module, "__dict__", None) is names else None


def _home_part(names: dict[str, Any]) -> Any:
    """Equal for a module and for the same module imported again from the same file."""
    if home_of(names) is None:
        return _SameHeld(names)
    return ("module", names["__name__"], names.get("__file__"))


def _module_part(module: types.ModuleType) -> Any:
    """As `_home_part`. A program may load many modules of one name, such as plugins, without `sys.modules`."""
    return _Same(module) if home_of(vars(module)) is None else _home_part(vars(module))


def _class_part(kind: type) -> Any:
    """Equal for a class and for the same class of the same module imported again."""
    module = sys.modules.get(kind.__module__)
    found: Any = module
    for name in kind.__qualname__.split("."):
        # While a decorator of the class runs, nothing has its name yet.
        found = getattr(found, name, kind)
    if module is None or found is not kind or "<locals>" in kind.__qualname__:
        return _Same(kind)
    return ("class", kind.__module__, kind.__qualname__, getattr(module, "__file__", None))


class _Unknown:
    """Never equal to another. Each use needs a new one, because a tuple treats an element as equal to itself."""

    __slots__ = ()


class _Same:
    """An object, compared by identity and not kept alive."""

    __slots__ = ("_at",)

    def __init__(self, thing: object) -> None:
        self._at = weakref.ref(thing)

    __hash__ = None  # type: ignore[assignment]  # never used as a key

    def __eq__(self, other: object) -> bool:
        thing = self._at()
        return thing is not None and isinstance(other, _Same) and thing is other._at()


class _SameHeld:
    """An object, compared by identity. Only for a few lasting objects that allow no weak references."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameHeld) and self._thing is other._thing


class _Cached:
    """`function`: the owner of this mark. `functools.wraps` copies the mark to other functions."""

    __slots__ = ("function", "parts")

    def __init__(self, function: types.FunctionType, parts: tuple[Any, ...]) -> None:
        self.function = weakref.ref(function)
        self.parts = parts


def mark_cached(function: types.FunctionType, guard: object, name: str, parts: tuple[Any, ...]) -> None:
    """Mark a cached function for functions that refer to it. Its own variables are objects of this library.

    Two cached functions are the same if their originals are the same, and guard and name are the same.
    """
    vars(function)[_CACHED] = _Cached(function, (None if guard is None else _Same(guard), name, *parts))


class FunctionPart:
    """Equal for the same function object, or for equal parts, if `later` says the same of the functions as at first.

    `settings`: what may change later. They are among the parts, too.
    """

    __slots__ = ("_at", "_later", "_parts", "_settings")

    def __init__(
        self,
        function: types.FunctionType,
        parts: tuple[Any, ...],
        settings: tuple[Any, ...] = (),
        later: Callable[[Parts, types.FunctionType], tuple[Any, ...]] | None = None,
    ) -> None:
        self._at = weakref.ref(function)
        self._parts = parts
        self._settings = settings
        self._later = later

    def sees_as(self, other: FunctionPart) -> bool:
        """Whether everything except the code is equal."""
        return self._parts[1:] == other._parts[1:]

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionPart):
            return False
        function = self._at()
        if function is not None and function is other._at():
            return True
        return self._parts == other._parts and self._is_as_it_was() and other._is_as_it_was()

    def _is_as_it_was(self) -> bool:
        """Where one has been changed after its decoration, the next one may still be changed."""
        function = self._at()
        if function is None or self._later is None:
            return True
        return self._later(Parts([]), function) == self._settings


class Parts:
    """Represents values by parts that are equal only if the values surely mean the same."""

    def __init__(self, frames: list[types.FrameType]) -> None:
        self._frames = frames
        self._known: dict[int, Any] = {}

    def of(self, value: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            return _Unknown()
        if _is_fixed(value):
            return digest(text_of(value))
        if id(value) not in self._known:
            # A placeholder until the part is known, for values that refer to themselves.
            self._known[id(value)] = _Unknown()
            self._known[id(value)] = self._of(value, depth + 1)
        return self._known[id(value)]

    def _of(self, value: Any, depth: int) -> Any:
        if type(value) is types.FunctionType:  # a mock may only say that it is one
            cached = vars(value).get(_CACHED)
            if cached is not None and cached.function() is value:
                own = self.attributes(value, depth)
                return ("cached", cached.parts, FunctionPart(value, own, own, Parts.attributes))
            settings = self.settings(value, depth)
            return FunctionPart(value, (*self._function(value, depth), *settings), settings, Parts.settings)
        if isinstance(value, types.MethodType):
            return ("method", self.of(value.__self__, depth), self.of(value.__func__, depth))
        if isinstance(value, functools.partial):
            return (
                "partial",
                *self._all((value.func, *value.args), depth),
                *self._named(value.keywords, depth),
            )
        if isinstance(value, type):
            return _class_part(value)
        if isinstance(value, types.ModuleType):
            return _module_part(value)
        if isinstance(value, ContextVar):
            return _SameHeld(value)
        if is_marker(value):
            dependency = getattr(value, "dependency", None)
            return (
                "marker",
                type(value).__qualname__,
                repr(value) if dependency is None else self.of(dependency, depth),
            )
        if type(value) is tuple:
            return ("tuple", *self._all(value, depth))
        if isinstance(value, Given):
            return ("options", *self._named(value, depth))
        try:
            return _Same(value)
        except TypeError:
            return _Unknown()

    def _all(self, values: typing.Iterable[Any], depth: int) -> list[Any]:
        return [self.of(value, depth) for value in values]

    def _named(self, values: typing.Mapping[str, Any], depth: int) -> list[Any]:
        return [(name, self.of(value, depth)) for name, value in sorted(values.items())]

    def _function(self, function: types.FunctionType, depth: int) -> tuple[Any, ...]:
        code = function.__code__
        method, _, _ = code.co_qualname.rpartition("<locals>.")[2].rpartition(".")
        in_local_class = bool(method) and "<locals>" in code.co_qualname
        home = _home_part(function.__globals__)
        return (
            code,
            home,
            _Unknown() if in_local_class else None,
            *self._annotations(function, depth),
            *(
                self._variable(function, name, cell, depth)
                for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
            ),
            self.of(getattr(function, "__wrapped__", None), depth),
        )

    def settings(self, function: types.FunctionType, depth: int = 0) -> tuple[Any, ...]:
        """What a program may give to a function object later, too."""
        return (
            *self._all(function.__defaults__ or (), depth),
            *self._named(function.__kwdefaults__ or {}, depth),
            *self.attributes(function, depth),
        )

    def attributes(self, function: types.FunctionType, depth: int = 0) -> tuple[Any, ...]:
        """Attributes that the program itself has set."""
        return tuple(
            ("attribute", name, self._contents(value, depth))
            for name, value in sorted(vars(function).items(), key=lambda item: str(item[0]))
            if not _is_ours(name)
        )

    def _contents(self, value: Any, depth: int) -> Any:
        """A list or dict of marks is written once and read by frameworks. It counts as it is now."""
        if depth > _DEEPEST:
            return _Unknown()
        if type(value) in (list, tuple):
            return (type(value).__name__, *(self._contents(item, depth + 1) for item in value))
        if type(value) is dict and all(type(name) is str for name in value):
            return ("dict", *((name, self._contents(item, depth + 1)) for name, item in value.items()))
        return self.of(value, depth)

    def _annotations(self, function: types.FunctionType, depth: int) -> list[Any]:
        try:
            found = dict(function.__annotations__)
        except Exception:  # from Python 3.14 on, evaluated now: it runs code that can raise anything
            return []
        return [(name, self._annotation(kind, depth)) for name, kind in sorted(found.items())]

    def _annotation(self, kind: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            return _Unknown()
        if typing.get_origin(kind) is typing.Annotated:
            return (self._annotation(kind.__origin__, depth + 1), *self._all(kind.__metadata__, depth))
        arguments = typing.get_args(kind)
        if arguments:
            return (repr(typing.get_origin(kind)), *(self._annotation(part, depth + 1) for part in arguments))
        return self.of(kind, depth) if isinstance(kind, type | str) else repr(kind)

    def _variable(self, function: types.FunctionType, name: str, cell: types.CellType, depth: int) -> Any:
        """The part for a variable of a surrounding function."""
        try:
            value = cell.cell_contents
        except ValueError:
            # Not assigned yet. The running statement will assign the function's own name. Attributes come later still.
            itself = name == function.__name__ and self._assigned_once(function, name)
            read, passed = attributes_read(function.__code__, name)
            return ("itself",) if itself and not passed and all(map(_is_usual, read)) else _Unknown()
        part = self.of(value, depth)
        if type(value) is types.FunctionType:
            return FunctionPart(value, (part, *self._attributes_seen(function, name, value, depth)))
        return part if not _is_fixed(value) or self._assigned_once(function, name) else _Unknown()

    def _attributes_seen(
        self, function: types.FunctionType, name: str, value: types.FunctionType, depth: int
    ) -> list[Any]:
        """The attributes that a function reads of another one. They are unknown if they may still be set."""
        outer = self.around(function)
        if outer is not None and set_on(outer, name, self._running(outer)):
            return [_Unknown()]
        read = sorted(each for each in attributes_read(function.__code__, name)[0] if not _is_usual(each))
        return [self.of(vars(value)[each], depth) if each in vars(value) else _Unknown() for each in read]

    def _assigned_once(self, function: types.FunctionType, name: str) -> bool:
        """Whether the variable keeps its present value."""
        outer = self.around(function)
        if outer is None or name not in outer.co_cellvars:
            return False
        return stays(outer, name, self._running(outer))

    def _running(self, code: types.CodeType) -> list[types.FrameType]:
        return [frame for frame in self._frames if frame.f_code is code]

    def around(self, function: types.FunctionType) -> types.CodeType | None:
        """The code of the function that creates this one. That function is running, or is found by its name."""
        code = function.__code__
        for frame in self._frames:
            if code in frame.f_code.co_consts:
                return frame.f_code
        found: Any = function.__globals__
        for name in code.co_qualname.rpartition(".<locals>.")[0].split("."):
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        found = getattr(innermost(found), "__code__", None)
        return found if isinstance(found, types.CodeType) and code in found.co_consts else None


class Given(dict[str, Any]):
    """The options given to a decorator. Equal if all of them are equal."""


def _is_ours(name: object) -> bool:
    return name in _OURS or str(name).startswith("__stampede_guard_")


def _is_usual(name: str) -> bool:
    """Whether this attribute says nothing more than which function it is."""
    return _is_ours(name) or hasattr(types.FunctionType, name)


def _is_fixed(value: object) -> bool:
    kind = type(value)
    return kind in _FIXED or (isinstance(value, enum.Enum) and "<locals>" not in kind.__qualname__)
