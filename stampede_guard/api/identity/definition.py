"""Decide whether two functions are the same one, and whether a module has run again.

A name belongs to one definition: see `registry`. Two definitions are the same if they certainly compute the same:

1. They are the same function object, decorated with the same options. Or:
2. They are the same code in the same module, and everything else that the function can see is equal too: defaults, the
   variables of the functions around it, the object that a method or partial is bound to, the function that it wraps.

For (2), plain values (texts, numbers, dates, enums) are compared by type and value. Functions are compared by this same
rule, and all other objects by identity. A user's `__eq__` is never called. Whatever may differ counts as different: a
list or dict (it may change), a variable that is assigned more than once, a class that was made inside a function. So
`crud("orders")` and `crud("users")` are two functions. A function without such variables stays one function, however
often its `def` runs.

What a program gives to a function object (attributes, defaults) counts, too. If it comes after the decoration, nobody
knows what the next function will get. So a function that reads its own attributes is another one each time. So is one
whose helper lacks an attribute that it reads, or was changed after the decoration.

A definition replaces an older one if the module that made the older one has run again. That happens with
`importlib.reload`, with an import after the module was deleted from `sys.modules`, and with a notebook's cell.

How is it noticed? Each run of a module's top-level code has its own frame and its own code object. The runs that make
the newer function are on its stack. The file has run again if the run that made the older function is not among them,
but another run of the same file is. So two functions of one name in one run of a module are two functions. A function
of a module that was reloaded, edited or not, is still one.

Cells and prompts have no file, so any later cell may define a function again. It may do so by its own `def`. Or by a
factory that was written again, if the function sees the same values there. There, too, `crud("orders")` and
`crud("users")` are two functions.

All of this is found out at decoration. The user's objects are not kept alive for it.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from stampede_guard.api.identity.sameness import FunctionPart, Given, Parts, home_of
from stampede_guard.values.keys.naming import innermost, is_nameless

__all__ = ["Definition"]

_MOST_CALLERS = 8
_OURS = __name__.partition(".")[0]
_IMPORTING = ("importlib", "_frozen_importlib", "runpy")


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """One run of a module's top-level code. `home`: the module, if it is the one in `sys.modules`."""

    module: str
    file: str
    of_file: bool
    code: weakref.ref[types.CodeType]
    home: weakref.ref[types.ModuleType] | None

    def again(self, older: _Run, *, direct: bool) -> bool:
        """Whether this is a later run of the same code. `direct`: another cell or prompt counts, too."""
        if self.module != older.module or self.code is older.code:
            return False
        if self.of_file or older.of_file:
            return self.of_file and older.of_file and self.file == older.file
        return direct and self.home is not None and self.home is older.home


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """`place`: where the function is written. `callers`: the lines that made and decorated it, innermost first.

    `direct`: the function is not inside another function. `around`: the code of the function that makes it.
    `nameless`: in other processes its name may mean another function.
    """

    parts: tuple[Any, ...]
    place: str
    callers: tuple[str, ...]
    direct: bool
    around: weakref.ref[types.CodeType] | None
    nameless: bool
    runs: tuple[_Run, ...]
    fields: Mapping[str, Any]
    """Those of a `Policy` that its decorator names."""

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        options: Given,
        *,
        named: bool = False,
        fields: Mapping[str, Any] = MappingProxyType({}),
    ) -> Definition:
        """Call this while the function is being decorated: `callers` are read from the stack of this call."""
        frames = list(_frames())
        runs = tuple(_run(frame) for frame in frames if frame.f_code.co_name == "<module>")
        inner = innermost(function)
        parts = Parts(frames)
        around = parts.around(inner) if isinstance(inner, types.FunctionType) else None
        return cls(
            (parts.of(function), parts.of(options)),
            _place(inner),
            tuple(f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in frames[:_MOST_CALLERS]),
            "<locals>" not in getattr(inner, "__qualname__", "<locals>"),
            weakref.ref(around) if around is not None else None,
            not named and is_nameless(function),
            runs,
            fields,
        )

    def same(self, other: Definition) -> bool:
        """Whether both certainly compute the same, or one comes from a later run of the same code."""
        return self.parts == other.parts or self.is_newer_than(other) or other.is_newer_than(self)

    def is_like(self, other: Definition) -> bool:
        """Whether both are the same and come from the same run of a module, so that one can be kept for both."""
        mine, its = (each.runs[0].code if each.runs else None for each in (self, other))
        return mine is its and self.parts == other.parts

    def same_function(self, other: Definition) -> bool:
        """Whether both are the same function. The options of the decorator may differ."""
        return bool(self.parts[0] == other.parts[0])

    def is_newer_than(self, older: Definition) -> bool:
        """Whether the module that made the older definition has run again and made this one."""
        if not older.runs or any(run.code is older.runs[0].code for run in self.runs):
            return False
        direct = (self.direct and older.direct) or self._is_of_another_factory(older)
        return any(run.again(older.runs[0], direct=direct) for run in self.runs)

    def _is_of_another_factory(self, older: Definition) -> bool:
        """Whether its factory was written again, and the function sees the same values there as the older one."""
        mine, its = self.parts[0], older.parts[0]
        if self.around is None or older.around is None or self.around is older.around:
            return False
        return isinstance(mine, FunctionPart) and isinstance(its, FunctionPart) and mine.sees_as(its)

    def beside(self, other: Definition) -> tuple[str, str]:
        """The places of both, with as much detail as is needed to distinguish them."""
        if self.place != other.place:
            return self.place, other.place
        for mine, its in zip(self.callers, other.callers, strict=False):
            if mine != its:
                return f"{self.place} (decorated at {mine})", f"{other.place} (decorated at {its})"
        return self.place, other.place


def _frames() -> Iterator[types.FrameType]:
    """The frames of the user's code that is running now, innermost first."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package != _OURS and package not in _IMPORTING:
            yield frame
        frame = frame.f_back


def _run(frame: types.FrameType) -> _Run:
    names = frame.f_globals
    module, file = str(names.get("__name__")), frame.f_code.co_filename
    spec = names.get("__spec__")
    of_file = names.get("__file__") == file and isinstance(spec, importlib.machinery.ModuleSpec)
    # While a code object lives, `weakref.ref` returns the same reference each time. So references are compared by `is`.
    return _Run(module, file, of_file, weakref.ref(frame.f_code), home_of(names))


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__name__)}"
