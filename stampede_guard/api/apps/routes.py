"""The routes of the applications that guards were installed in, and what they say about cached functions.

They are looked up when a value is computed, so it does not matter whether `install` or a route came first.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "Endpoint",
    "Installed",
    "endpoint_of",
    "installed_apps",
    "mounted_in",
    "routes_of",
    "was_cached",
]

_ATTRIBUTE = "__stampede_guard_installed__"
_MOST_LEVELS = 20
_NO_MODEL: Any = object()

_apps: list[weakref.ref[Any]] = []


class Installed:
    """What is known about one application. The application holds it, so both end together."""

    def __init__(self, app: Any) -> None:
        self._app = weakref.ref(app)
        self.has_served = False
        """Whether its routes are complete."""
        self.answers = False
        """Whether it has the handlers of errors."""
        self.reported: set[str] = set()
        self._count = -1
        self._models: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    @classmethod
    def of(cls, app: Any) -> Installed:
        """That of an application, which is known from now on."""
        found: Installed | None = vars(app).get(_ATTRIBUTE)
        if found is None:
            found = cls(app)
            vars(app)[_ATTRIBUTE] = found
            _apps[:] = [*(one for one in _apps if one() is not None), weakref.ref(app)]
        return found

    def models_of(self, endpoint: Any) -> tuple[Any, ...]:
        """The response models of the routes with this endpoint."""
        app = self._app()
        if app is None:
            return ()
        if not self.has_served or self._count != len(app.router.routes):
            count, found = len(app.router.routes), dict[int, tuple[Any, tuple[Any, ...]]]()
            for route in routes_of(app):
                model = getattr(route, "response_model", _NO_MODEL)
                function = getattr(route, "endpoint", None)
                if model is _NO_MODEL or function is None:
                    continue
                known = found.get(id(function), (function, ()))[1]
                if not any(model is one or model == one for one in known):
                    found[id(function)] = (function, (*known, model))
            # At once: another thread may be asking.
            self._models, self._count = found, count
        function, models = self._models.get(id(endpoint), (None, ()))
        return models if function is endpoint else ()


def installed_apps() -> Iterator[Any]:
    """The living applications, in the order of `install`."""
    for reference in _apps:
        app = reference()
        if app is not None:
            yield app


def routes_of(app: Any) -> Iterator[Any]:
    """All routes of an application, also those of included routers and of mounted applications."""
    return _within(getattr(app, "routes", ()), 0)


def _within(routes: Any, level: int) -> Iterator[Any]:
    if level > _MOST_LEVELS:
        return
    for route in list(routes):
        # FastAPI 0.116 and earlier copy the routes of an included router. Later ones refer to the router.
        router = getattr(route, "original_router", None)
        inner = getattr(route if router is None else router, "routes", None)
        if inner:
            yield from _within(inner, level + 1)
        elif hasattr(route, "endpoint"):
            yield route


def mounted_in(app: Any) -> Iterator[Any]:
    """The applications of FastAPI and Starlette that are mounted in this one, and in those."""
    yield from _mounted(getattr(app, "routes", ()), 0)


def _mounted(routes: Any, level: int) -> Iterator[Any]:
    if level > _MOST_LEVELS:
        return
    for route in list(routes):
        inner = getattr(route, "_base_app", getattr(route, "app", None))  # below the middleware of the mount
        if hasattr(inner, "add_exception_handler") and hasattr(inner, "router"):
            yield inner
        router = getattr(route, "original_router", None)
        yield from _mounted(getattr(route if router is None else router, "routes", None) or (), level + 1)


class Endpoint:
    """One cached function, as routes know it. A call gives the response models of its routes."""

    def __init__(self) -> None:
        self._function: Callable[[], Any] = _nothing
        self.title = ""
        self.left_out: frozenset[str] = frozenset()
        """The parameters that are not in the key."""
        self.key_is_unknown = False
        """Whether a function, or context variables, decide what else is in the key."""

    def is_made(self, function: Any, original: Any) -> None:
        """The wrapper under the decorator has been made. Routes refer to it, or by mistake to the original."""
        self._function = weakref.ref(function)
        with contextlib.suppress(TypeError):  # an object that cannot be a weak key
            _endpoints[function] = self
            _originals.add(original)

    def __call__(self) -> tuple[Any, ...]:
        function = self._function()
        found: list[Any] = []
        if function is not None:
            for app in installed_apps():
                for model in Installed.of(app).models_of(function):
                    if not any(model is one or model == one for one in found):
                        found.append(model)
        return tuple(found)

    def overridden(self, dependency: Any) -> Any:
        """What stands in the place of a dependency: `app.dependency_overrides` of the newest application with a route.

        The overrides of an application that is mounted in another one are its own, as FastAPI's are. For a function
        without a route: of the newest application that overrides the dependency.
        """
        apps, function = [*installed_apps()][::-1], self._function()
        own = [app for app in apps if function is not None and Installed.of(app).models_of(function)]
        inner = {id(one) for app in own for one in mounted_in(app)}
        own.sort(key=lambda app: id(app) not in inner)
        for app in own[:1] or apps:
            overrides = getattr(app, "dependency_overrides", None)
            try:
                if overrides and dependency in overrides:
                    return overrides[dependency]
            except TypeError:  # a dependency that cannot be hashed cannot be overridden
                break
        return dependency


def endpoint_of(function: Any) -> Endpoint | None:
    """What is known about a cached function. None for all others."""
    try:
        return _endpoints.get(function)
    except TypeError:
        return None


def was_cached(function: Any) -> bool:
    """Whether a cached function was made of this one. Nobody may refer to that one any more."""
    try:
        return function in _originals
    except TypeError:
        return False


def _nothing() -> None:
    return None


_endpoints: weakref.WeakKeyDictionary[Any, Endpoint] = weakref.WeakKeyDictionary()
_originals: weakref.WeakSet[Any] = weakref.WeakSet()
