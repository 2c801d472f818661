"""What the code of a function does with variables that it shares with functions inside it or around it."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Iterator

__all__ = ["attributes_read", "set_on", "stays"]

_READS = ("LOAD_ATTR", "LOAD_METHOD")
_SETS = ("STORE_ATTR", "DELETE_ATTR")
_LOADS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of all functions that are written in this one."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _inside(const)


def _assignments(code: types.CodeType, name: str) -> list[dis.Instruction]:
    """The statements of this code that assign the variable."""
    return [step for step in dis.get_instructions(code) if step.argval == name and _stores(step)]


def _is_assigned_within(code: types.CodeType, name: str) -> bool:
    """Whether a function that is written in this one may assign the variable."""
    return any(name in each.co_freevars and _assignments(each, name) for each in _inside(code))


def stays(code: types.CodeType, name: str, running: list[types.FrameType]) -> bool:
    """Whether the variable of this code keeps its present value. `running`: the frames of the code."""
    stores = _assignments(code, name)
    if _is_assigned_within(code, name):
        return False
    if len(running) == 1 and all(_is_over(store, running[0]) for store in stores):
        # For example `settings = settings or default()`: it has been assigned and will not be assigned again.
        return True
    if len(stores) > 1:
        return False
    return not stores or (name not in _parameters(code) and not _in_a_loop(code, stores[0]))


def attributes_read(code: types.CodeType, name: str) -> tuple[set[str], bool]:
    """Attributes that this code reads of the object in the variable, and whether it does more than read and call it:
    it may then pass the object to code that reads others.
    """
    names: set[str] = set()
    passed = False
    for each in (code, *_inside(code)):
        if name not in (*each.co_freevars, *each.co_cellvars):
            continue
        before, steps = None, list(dis.get_instructions(each))
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if step.opname in _LOADS and step.argval == name:
                if after is not None and after.opname in _READS:
                    names.add(str(after.argval))
                elif not _is_called(before, after):
                    passed = True
            before = step
    return names, passed


def set_on(code: types.CodeType, name: str, running: list[types.FrameType]) -> bool:
    """Whether this code, or a function that is written in it, may still set an attribute of what is in the variable."""
    for each in (code, *_inside(code)):
        before = None
        for step in dis.get_instructions(each):
            if step.opname in _SETS and before is not None and before.argval == name:
                frames = running if each is code else []
                if len(frames) != 1 or not _is_over(step, frames[0]):
                    return True
            before = step
    return False


def _is_called(before: dis.Instruction | None, after: dis.Instruction | None) -> bool:
    beside = before if sys.version_info < (3, 13) else after
    return beside is not None and beside.opname == "PUSH_NULL"


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
