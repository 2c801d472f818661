"""Cached functions in class bodies: bound to an object or a class, their other methods are bound to it as well.

class Shop:
    @locked_cache(ttl=60)
    async def sales(self, day: str) -> int: ...

await shop.sales("mo"); await shop.sales.invalidate("mo"); await Shop.sales.invalidate(shop, "mo")
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from stampede_guard.callables import as_function
from stampede_guard.errors import Misuse

__all__ = ["ClassMethod", "Method", "in_its_place", "taken_from"]

_OF_A_CALL = frozenset({"invalidate", "refresh", "key", "keys", "explain", "__wrapped__"})
_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


class Method(functools.partial[Any]):
    """A partial, so that it is called as fast as a bound method and is a coroutine function where its function is."""

    def __get__(self, instance: Any, owner: type | None = None) -> Method:
        return self if instance is None else self.bound_to(instance)

    def bound_to(self, first: Any) -> Method:
        bound = type(self)(self.func, *self.args, first)
        for name in _NAMES:
            setattr(bound, name, getattr(self.func, name))
        return bound

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.func, name)
        if name not in _OF_A_CALL:
            return found
        if self.args:
            return functools.partial(found, *self.args)
        return self._with_a_class(found)

    def _with_a_class(self, found: Callable[..., Any]) -> Callable[..., Any]:
        """`@classmethod` around this hands over the class in calls only (from Python 3.13 on)."""
        if next(iter(inspect.signature(self.func).parameters), None) != "cls":
            return found

        @functools.wraps(found)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if "cls" not in kwargs and not (args and isinstance(args[0], type)):
                name = self.func.__qualname__
                raise Misuse(
                    f"{name}.{found.__name__}() is not told which class it is for: write @locked_cache above "
                    f"@classmethod, or give the class as the first argument"
                )
            return found(*args, **kwargs)

        return checked


class ClassMethod(Method):
    """Bound to the class, also when it is reached through an object."""

    def __get__(self, instance: Any, owner: type | None = None) -> Method:
        return self.bound_to(type(instance) if owner is None else owner)

    def bound_to(self, first: Any) -> Method:
        return Method(self.func).bound_to(first)


def taken_from(given: Any) -> Callable[..., Any]:
    """The function that a decorator was put on, which may be wrapped already. Raises `Misuse` for what is none."""
    if isinstance(given, classmethod | staticmethod):
        given = given.__func__
    if isinstance(given, property | functools.cached_property):
        raise Misuse("@locked_cache goes below @property, next to the function")
    return as_function(given)


def in_its_place(given: Any, wrapper: Any) -> Any:
    """What stands for `given`: as it was written in a class body, so it is bound."""
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
