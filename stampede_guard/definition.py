"""What makes two functions the same one, and when a module has run anew.

A name belongs to one definition: see `registry`. Two definitions are the same if they surely compute the same:

1. the same function object, decorated with the same options, or
2. the same code in the same module, where everything else that the function can see is equal too: defaults, the
   variables of the functions around it, what a method or partial is bound to, what it wraps.

For (2) plain values (texts, numbers, dates, enums) are compared by type and value, functions by this same rule, and all
other objects by identity; never by a user's `__eq__`. What cannot be known counts as different: a list or dict, which
may change; a variable that is assigned more than once; a class that was made inside a function. So `crud("orders")`
and `crud("users")` are two, and a function without such variables stays one however often its `def` is run.

A definition takes the place of an older one if the module that made the older one has run again: `importlib.reload`,
a module deleted from `sys.modules` and imported anew, a notebook's cell. How that is told: code at the top level of a
module runs in a frame with a code object of its own for each run. If the run that made the older function is not
among those that are making the newer one, and another run of the same file is, the file has run anew. Two functions
of one name in one run of a module are therefore two, and the same module reloaded, edited or not, is one. Cells and
prompts have no file, so any later one may define a function again: by a `def` of its own, or by a factory that has been
written anew and makes it see the same. There too, `crud("orders")` and `crud("users")` are two.

Everything here is found out at decoration and kept without keeping the user's objects alive.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stampede_guard.keys.naming import innermost, is_nameless
from stampede_guard.sameness import FunctionPart, Given, Parts, home_of

__all__ = ["Definition"]

_MOST_CALLERS = 8
_OURS = __name__.partition(".")[0]
_IMPORTING = ("importlib", "_frozen_importlib", "runpy")


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Code at the top level of a module, running. `home`: the module, if it is the one in `sys.modules`."""

    module: str
    file: str
    of_file: bool
    code: weakref.ref[types.CodeType]
    home: weakref.ref[types.ModuleType] | None

    def again(self, older: _Run, *, direct: bool) -> bool:
        """Whether this is a later run of what ran then. `direct`: it may also be another cell or prompt."""
        if self.module != older.module or self.code is older.code:
            return False
        if self.of_file or older.of_file:
            return self.of_file and older.of_file and self.file == older.file
        return direct and self.home is not None and self.home is older.home


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """`place` is where the function is written, `callers` the lines that made it and decorated it, innermost first.

    `direct`: it is no function within a function. `around`: the one that it is made in. `nameless`: other processes
    have another one of its name.
    """

    parts: tuple[Any, ...]
    place: str
    callers: tuple[str, ...]
    direct: bool
    around: weakref.ref[types.CodeType] | None
    nameless: bool
    runs: tuple[_Run, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], options: Given, *, named: bool = False) -> Definition:
        """To be called while the function is being decorated: the callers are those of this call."""
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
        )

    def same(self, other: Definition) -> bool:
        """Whether both surely compute the same, or one is of a later run of the same code."""
        return self.parts == other.parts or self.is_newer_than(other) or other.is_newer_than(self)

    def is_like(self, other: Definition) -> bool:
        """The same, made by the same run of a module: one can be kept for both."""
        mine, its = (each.runs[0].code if each.runs else None for each in (self, other))
        return mine is its and self.parts == other.parts

    def same_function(self, other: Definition) -> bool:
        """But for the options of the decorator."""
        return bool(self.parts[0] == other.parts[0])

    def is_newer_than(self, older: Definition) -> bool:
        """Whether the module that made the older one has run again for this one."""
        if not older.runs or any(run.code is older.runs[0].code for run in self.runs):
            return False
        direct = (self.direct and older.direct) or self._is_of_another_factory(older)
        return any(run.again(older.runs[0], direct=direct) for run in self.runs)

    def _is_of_another_factory(self, older: Definition) -> bool:
        """Whether the function that makes it has been written anew, and it sees there what the older one saw."""
        mine, its = self.parts[0], older.parts[0]
        if self.around is None or older.around is None or self.around is older.around:
            return False
        return isinstance(mine, FunctionPart) and isinstance(its, FunctionPart) and mine.sees_as(its)

    def beside(self, other: Definition) -> tuple[str, str]:
        """The places of both, as far as is needed to tell them apart."""
        if self.place != other.place:
            return self.place, other.place
        for mine, its in zip(self.callers, other.callers, strict=False):
            if mine != its:
                return f"{self.place} (decorated at {mine})", f"{other.place} (decorated at {its})"
        return self.place, other.place


def _frames() -> Iterator[types.FrameType]:
    """Of the user's code that is running now, innermost first."""
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
    # A plain reference to a code object is the same reference as long as that lives, so these are compared by `is`.
    return _Run(module, file, of_file, weakref.ref(frame.f_code), home_of(names))


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__name__)}"
