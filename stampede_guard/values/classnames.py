"""Finds classes by the names in the store, where an attacker may have written them.

Nothing is imported and no code of the application runs. Only the dictionaries of modules and classes that are already
there are read: no module's `__getattr__`, no lazy module, no property, no metaclass.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stampede_guard.values.keys.naming import PROGRAMS, module_of, program_name

__all__ = ["members_of", "name_of", "named"]

_LONGEST_NAME = 500
_MODULE_DICT: Any = vars(types.ModuleType)["__dict__"]
_CLASS_DICT: Any = vars(type)["__dict__"]


def name_of(kind: type) -> tuple[str, str] | None:
    """Module and qualified name, the same in every process. None for a program without a name (-c, a notebook)."""
    module = module_of(kind)
    return None if module is None or module in PROGRAMS else (module, kind.__qualname__)


def members_of(kind: type) -> Mapping[str, Any]:
    """The dictionary of a class, whatever its metaclass says."""
    found: Mapping[str, Any] = _CLASS_DICT.__get__(kind)
    return found


def named(module: str, qualname: str, is_allowed: Callable[[Any], bool]) -> type | None:
    """The class that is already here under this name, and that `is_allowed`."""
    if not 0 < len(module) <= _LONGEST_NAME or not 0 < len(qualname) <= _LONGEST_NAME:
        return None
    for names in _modules(module):
        found = _within(names, qualname)
        if found is not None and is_allowed(found) and name_of(found) == (module, qualname):
            return found
    return None


def _modules(module: str) -> Iterator[Mapping[str, Any]]:
    for name in (module, *PROGRAMS):
        found = sys.modules.get(name)
        # Not `isinstance`, which may ask the object for its class.
        if not issubclass(type(found), types.ModuleType):
            continue
        names: Mapping[str, Any] = _MODULE_DICT.__get__(found)
        if name == module or program_name(names) == module:
            yield names


def _within(names: Mapping[str, Any], qualname: str) -> type | None:
    # A generic class of pydantic is in its module under its whole name: `Page[shop.Item]`.
    found: Any = names.get(qualname)
    if found is None:
        for part in qualname.split("."):
            found = names.get(part)
            if not issubclass(type(found), type):
                return None
            names = members_of(found)
    return found if issubclass(type(found), type) else None
