"""Cached functions in class bodies. When one is bound to an object or a class, its other methods are bound, too.

With `@locked_cache(ttl=60)` above `async def sales(self, day: str)` in a class, these calls work:
`await shop.sales("mo")`, `await shop.sales.invalidate("mo")` and `await Shop.sales.invalidate(shop, "mo")`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from stampede_guard.api.decorators.callables import as_function
from stampede_guard.errors import Misuse

__all__ = ["ClassMethod", "Method", "in_its_place", "taken_from"]

_OF_A_CALL = frozenset(
    {"invalidate", "refresh", "with_info", "peek", "set", "key", "keys", "explain", "__wrapped__"}
)
_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


class Method(functools.partial[Any]):
    """A partial: a call is as fast as a bound method's, and it is a coroutine function if its function is one."""

    # Pydantic takes an attribute of a model for a field without an annotation, unless its class is of this module.
    __module__ = functools.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Method:
        return self if instance is None else self.bound_to(instance)

    def bound_to(self, first: Any) -> Method:
        bound = type(self)(self.func, *self.args, first)
        for name in _NAMES:
            setattr(bound, name, getattr(self.func, name))
        return bound

    def __reduce__(self) -> Any:
        """For pickle and copies: as Python's own methods, by name. The function itself is not found under its name."""
        return (getattr, (self.args[0], self.__name__)) if self.args else self.__qualname__

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.func, name)
        if name not in _OF_A_CALL:
            return found
        if self.args:
            if name == "set":
                return functools.partial(_set_with, found, self.args)
            return functools.partial(found, *self.args)
        return self._with_a_class(found)

    def _with_a_class(self, found: Callable[..., Any]) -> Callable[..., Any]:
        """From Python 3.13 on, a `@classmethod` around this passes the class only to calls, not to other methods."""
        if next(iter(inspect.signature(self.func).parameters), None) != "cls":
            return found

        @functools.wraps(found)
        def checked(*args: Any, **kwargs: Any) -> Any:
            # A value to set comes first.
            first = args[1:2] if found.__name__ == "set" else args[:1]
            if "cls" not in kwargs and not (first and isinstance(first[0], type)):
                name = self.func.__qualname__
                raise Misuse(
                    f"{name}.{found.__name__}() does not know the class: write @locked_cache above @classmethod, or "
                    f"pass the class as the first argument"
                )
            return found(*args, **kwargs)

        return checked


def _set_with(
    found: Callable[..., Any], bound: tuple[Any, ...], value: Any, /, *args: Any, **kwargs: Any
) -> Any:
    return found(value, *bound, *args, **kwargs)


class ClassMethod(Method):
    """Bound to the class, also when a caller gets it from an object."""

    __module__ = functools.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Method:
        return self.bound_to(type(instance) if owner is None else owner)

    def bound_to(self, first: Any) -> Method:
        return Method(self.func).bound_to(first)


def taken_from(given: Any) -> Callable[..., Any]:
    """The function under a decorator, which may be wrapped already. Raises `Misuse` without one."""
    if isinstance(given, classmethod | staticmethod):
        given = given.__func__
    if isinstance(given, property | functools.cached_property):
        raise Misuse("@locked_cache goes below @property, next to the function")
    return as_function(given)


def in_its_place(given: Any, wrapper: Any) -> Any:
    """The wrapper in the form of `given`, so that Python binds it like the original in a class body."""
    if isinstance(given, staticmethod):
        return staticmethod(wrapper)
    if isinstance(given, classmethod):
        return ClassMethod(wrapper)
    owner = getattr(wrapper, "__qualname__", "").rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        return wrapper
    method = Method(wrapper)
    for name in _NAMES:
        setattr(method, name, getattr(wrapper, name))
    return method
