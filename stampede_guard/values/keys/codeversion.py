"""`version="auto"`: a fingerprint of a function's code, so that pods with different code use different entries.

It is equal in every process that runs the same source on the same minor version of Python. It covers the function's
bytecode, its constants, names and default values, the functions and classes within it, the functions inside
`functools.wraps` and `functools.partial`, and the functions that it closes over. It leaves out line numbers, file
names, docstrings and annotations.

It does not cover functions that this one calls by a global name, nor values that it reads or closes over. Those may
differ between processes, and then no processes would share an entry. If the meaning of a result changes there,
write another `version=` by hand.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from stampede_guard.errors import KeyPartError

__all__ = ["AUTO", "code_version"]

AUTO = "auto"
"""As a version: use the function's `code_version`."""
_PLAIN = (int, float, complex, str, bytes, type(None), type(...))
_DEPTH = 20
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
"""Flags that change how the function runs. Other flags concern `__future__` imports and docstrings."""
_HAS_DOCSTRING = 0x4000000
"""A flag of code objects from Python 3.14 on, `inspect.CO_HAS_DOCSTRING`."""


def code_version(function: Callable[..., Any]) -> str:
    """Sixteen hex digits. Raises `KeyPartError` if there is no Python code, as for a builtin."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{sys.version_info[0]}.{sys.version_info[1]}".encode())
    codes = 0
    for wrapped in _layers(function):
        code = getattr(wrapped, "__code__", None)
        if type(code) is not CodeType:  # a mock says that it is one
            continue
        codes += 1
        digest.update(_text(code).encode("utf-8", "surrogatepass"))
        for given in (wrapped.__defaults__, wrapped.__kwdefaults__, _functions_closed_over(wrapped)):
            digest.update(_text(given).encode("utf-8", "surrogatepass"))
    if not codes:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        raise KeyPartError(
            f'version="auto" is made of a function\'s Python code, and {name} has none: write version="1", and change '
            "it when the meaning of the result changes"
        )
    return digest.hexdigest()


def _layers(function: Any) -> Iterator[Any]:
    """The function, and the functions that it wraps."""
    for _ in range(_DEPTH):
        if isinstance(function, functools.partial):
            function = function.func
            continue
        if inspect.ismethod(function):
            function = function.__func__
        if not hasattr(function, "__code__"):
            function = type(function).__call__
        yield function
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return


def _functions_closed_over(function: Any) -> list[CodeType]:
    """A decorator without `functools.wraps` closes over the decorated function."""
    found: list[CodeType] = []
    for cell in function.__closure__ or ():
        try:
            code = getattr(cell.cell_contents, "__code__", None)
        except ValueError:  # not filled yet
            continue
        if type(code) is CodeType:
            found.append(code)
    return found


def _text(value: Any, depth: int = 0) -> str:
    """Equal texts for equal code. For values that are neither code nor constants, only the type: a repr may hold an
    address.
    """
    if depth > _DEPTH:
        return "..."
    if type(value) is CodeType:
        return _code_text(value, depth)
    if type(value) in _PLAIN or isinstance(value, bool):
        return f"{type(value).__name__} {value!r}"
    if type(value) in (tuple, list):
        return f"{type(value).__name__}({','.join(_text(part, depth + 1) for part in value)})"
    if type(value) in (set, frozenset):
        # Sorted by text: the order of a set depends on the process.
        return f"set({','.join(sorted(_text(part, depth + 1) for part in value))})"
    if type(value) is dict:
        pairs = (f"{_text(key, depth + 1)}:{_text(held, depth + 1)}" for key, held in value.items())
        return f"dict({','.join(sorted(pairs))})"
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _code_text(code: CodeType, depth: int) -> str:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & _KINDS,
    )
    constants = code.co_consts
    if _has_docstring(code):
        constants = (None, *constants[1:]) if sys.version_info < (3, 14) else constants[1:]
    parts = (code.co_code.hex(), _text(constants, depth + 1), _text(names), _text(counts))
    return f"code({';'.join(parts)};{code.co_exceptiontable.hex()})"


def _has_docstring(code: CodeType) -> bool:
    """Whether the first constant is a docstring. Before 3.14, every function reserves that place for it. Generator
    expressions, comprehensions and lambdas may have another text there.
    """
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & _HAS_DOCSTRING)
    named = not code.co_name.startswith("<") and bool(code.co_flags & inspect.CO_NEWLOCALS)
    return named and bool(code.co_consts) and isinstance(code.co_consts[0], str)
