"""The parts of a value for a comparison in `definition`. Parts are equal only if the values surely mean the same.

Objects are compared by identity and not kept alive. A part that cannot be known is never equal to another.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import enum
import functools
import inspect
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from stampede_guard.values.annotations import is_marker
from stampede_guard.values.keys.naming import innermost
from stampede_guard.values.parts.parts import digest, text_of

__all__ = ["FunctionPart", "Given", "Parts", "home_of", "mark_cached"]

_DEEPEST = 12
_CACHED = "__stampede_guard_cached__"
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
    """Equal for the same function object, or for equal parts."""

    __slots__ = ("_at", "_parts")

    def __init__(self, function: object, parts: tuple[Any, ...]) -> None:
        self._at = weakref.ref(function)
        self._parts = parts

    def sees_as(self, other: FunctionPart) -> bool:
        """Whether everything except the code is equal."""
        return self._parts[1:] == other._parts[1:]

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionPart):
            return False
        function = self._at()
        return (function is not None and function is other._at()) or self._parts == other._parts


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
                return ("cached", cached.parts)
            return FunctionPart(value, self._function(value, depth))
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
            *self._all(function.__defaults__ or (), depth),
            *self._named(function.__kwdefaults__ or {}, depth),
            *self._annotations(function, depth),
            *(
                self._variable(function, name, cell, depth)
                for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
            ),
            self.of(getattr(function, "__wrapped__", None), depth),
        )

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
            # Not assigned yet. The running statement will assign the function's own name.
            itself = name == function.__name__ and self._assigned_once(function, name)
            return ("itself",) if itself else _Unknown()
        part = self.of(value, depth)
        return part if not _is_fixed(value) or self._assigned_once(function, name) else _Unknown()

    def _assigned_once(self, function: types.FunctionType, name: str) -> bool:
        """Whether the variable keeps its present value."""
        outer = self.around(function)
        if outer is None or name not in outer.co_cellvars:
            return False
        stores = [step for step in dis.get_instructions(outer) if step.argval == name and _stores(step)]
        if any(_stores_within(code, name) for code in _inside(outer)):
            return False
        running = [frame for frame in self._frames if frame.f_code is outer]
        if len(running) == 1 and all(_is_over(store, running[0]) for store in stores):
            # For example `settings = settings or default()`: it has been assigned and will not be assigned again.
            return True
        if len(stores) > 1:
            return False
        return not stores or (name not in _parameters(outer) and not _in_a_loop(outer, stores[0]))

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


def _is_fixed(value: object) -> bool:
    kind = type(value)
    return kind in _FIXED or (isinstance(value, enum.Enum) and "<locals>" not in kind.__qualname__)


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _inside(const)


def _stores_within(code: types.CodeType, name: str) -> bool:
    if name not in code.co_freevars:
        return False
    return any(step.argval == name and _stores(step) for step in dis.get_instructions(code))


def _stores(step: dis.Instruction) -> bool:
    return step.opname in ("STORE_DEREF", "DELETE_DEREF")


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    variadic = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]


def _is_over(store: dis.Instruction, frame: types.FrameType) -> bool:
    """Whether this statement has run in the frame and will not run again."""
    return store.offset < frame.f_lasti and not _in_a_loop(frame.f_code, store)


def _in_a_loop(code: types.CodeType, store: dis.Instruction) -> bool:
    return any(
        "JUMP_BACKWARD" in step.opname and step.argval <= store.offset <= step.offset
        for step in dis.get_instructions(code)
    )
