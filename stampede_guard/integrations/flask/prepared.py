"""What `before_request` functions have prepared for a view: names in `g`, attributes of `request`.

The computation of a view has none of them, and notes what the view looks for. A caller that has it gets a response of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from contextlib import suppress
from typing import Any

from flask import current_app, g, request
from werkzeug.local import LocalProxy

from stampede_guard.values.annotations import root_package
from stampede_guard.values.codec.attributes import per_class

__all__ = ["Prepared", "note_prepared", "prepared_for_caller"]

_ALL = "*"
_OF_REQUEST = "request."


class Prepared:
    """What a view looked for: `"user"` in `g`, `"request.user"` for an attribute, `"*"` and `"request.*"` for all."""

    def __init__(self) -> None:
        self.missed: set[str] = set()
        self.noted: list[_Noted] = []

    def left(self) -> list[str]:
        """Without what the view put there itself, as it does with a connection. A default of `setdefault` is left: a
        caller may have another value.
        """
        own = {f"{one.where}{name}" for one in self.noted for name in dict.keys(one) - one.defaults}
        return sorted(self.missed - own)


class _Noted(dict[str, Any]):
    """The attributes of an object that tells what was looked for and is not there."""

    def __init__(self, given: dict[str, Any], kind: type, where: str, prepared: Prepared) -> None:
        super().__init__(given)
        self._kind, self.where, self._prepared = kind, where, prepared
        self.defaults: set[str] = set()

    def look_for(self, name: object) -> None:
        """Not for what the class has: Werkzeug keeps the values of its properties here."""
        if isinstance(name, str) and not name.startswith("__"):
            if not super().__contains__(name) and not hasattr(self._kind, name):
                self._prepared.missed.add(f"{self.where}{name}")

    def note(self, name: str) -> None:
        self._prepared.missed.add(f"{self.where}{name}")

    def __getitem__(self, name: str) -> Any:
        self.look_for(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.look_for(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.look_for(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self.look_for(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if not super().__contains__(name):
            self.look_for(name)
            self.defaults.add(name)
        return super().setdefault(name, default)

    def __iter__(self) -> Iterator[str]:
        self.note(_ALL)
        return super().__iter__()

    def __len__(self) -> int:
        self.note(_ALL)
        return super().__len__()

    def __or__(self, other: Any) -> Any:
        self.note(_ALL)
        return super().__or__(other)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.note(_ALL)
        return super().keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.note(_ALL)
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.note(_ALL)
        return super().items()

    def copy(self) -> dict[str, Any]:
        self.note(_ALL)
        return super().copy()


def note_prepared() -> Prepared:
    """Let `g` and the request of the current context note what is looked for there."""
    prepared = Prepared()
    for proxy, where in ((g, ""), (request, _OF_REQUEST)):
        held = _behind(proxy)
        with suppress(TypeError, AttributeError):  # an application may have classes of its own, with slots
            kind = type(held)
            noted = _Noted(vars(held), kind, where, prepared)
            # Not by its own __setattr__: that of `g` stores a value.
            object.__setattr__(held, "__class__", _noting(kind))
            object.__setattr__(held, "__dict__", noted)
            prepared.noted.append(noted)
    return prepared


def prepared_for_caller(missed: list[str]) -> str | None:
    """The first of these that the current caller has in its own `g` or request, as the view reads it."""
    for name in missed:
        where, proxy = (_OF_REQUEST, request) if name.startswith(_OF_REQUEST) else ("", g)
        held = _behind(proxy)
        own = getattr(held, "__dict__", {})
        wanted = name.removeprefix(where)
        if wanted == _ALL:
            found = sorted(dict.keys(own) - _usual(held, where))
            if found:
                return f"{where or 'g.'}{found[0]}"
        elif dict.__contains__(own, wanted):
            return f"{where or 'g.'}{wanted}"
    return None


def _usual(held: Any, where: str) -> set[str]:
    """The attributes that a request has without `before_request` functions."""
    if not where:
        return set()
    plain = current_app.request_class(
        {"wsgi.url_scheme": "http", "REQUEST_METHOD": "GET", "SERVER_NAME": "a"}
    )
    names = {name for name in dict.keys(vars(held)) if hasattr(type(held), name)}
    return names | vars(plain).keys()


def _behind(proxy: Any) -> Any:
    return proxy._get_current_object() if isinstance(proxy, LocalProxy) else proxy


@per_class
def _noting(kind: Any) -> type:
    """Python reads attributes past `_Noted`, and asks `__getattr__` for those that are missing."""
    found: Callable[[Any, str], Any] | None = getattr(kind, "__getattr__", None)

    def look(self: Any, name: str) -> Any:
        held = vars(self)
        if isinstance(held, _Noted):
            held.look_for(name)
        if found is not None:
            return found(self, name)
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self)

    names = {"__getattr__": look, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**_defaults(kind), **names})


def _defaults(kind: type) -> dict[str, Any]:
    """Plain values of a user's class, such as `user = None`: a `before_request` function may give a request another."""
    return {
        name: _Default(name, value)
        for base in reversed(kind.__mro__)
        if root_package(base) not in ("builtins", "werkzeug", "flask")
        for name, value in vars(base).items()
        if not name.startswith("__") and not hasattr(value, "__get__")
    }


class _Default:
    """A value of the object itself goes before it, because there is no `__set__`."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    def __get__(self, held: Any, kind: type) -> Any:
        noted = getattr(held, "__dict__", None)
        if isinstance(noted, _Noted):
            noted.note(self._name)
        return self._value
