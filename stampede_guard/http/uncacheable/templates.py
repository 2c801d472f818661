"""The route templates that the framework has told (`/items/{id}`), found by the path of a request.

A tree of path segments, as bounded as the application's routes. A literal segment goes before a parameter, as
`/items/me` before `/items/{id}`. A lookup costs at most one step per segment.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from stampede_guard.http.requests.routes import Scope

__all__ = ["MOST_TEMPLATES", "RouteTemplates", "template_of"]

MOST_TEMPLATES = 1024
"""No further ones are learnt. An application has fewer routes, unless it makes them at run time."""

MOST_SEGMENTS = 8 * MOST_TEMPLATES
"""Of all templates together. A mount such as `/{tenant}` puts a text of clients into the templates below it."""

_PLAIN = (str, int, uuid.UUID)
"""Types of parameters whose text is what the path has. A float or a date may be spelt in several ways."""

T = TypeVar("T")


class _Segment(Generic[T]):
    __slots__ = ("literals", "parameter", "value")

    def __init__(self) -> None:
        self.literals: dict[str, _Segment[T]] = {}
        self.parameter: _Segment[T] | None = None
        self.value: T | None = None


class RouteTemplates(Generic[T]):
    """What is known per template. `new` makes it for a template that is seen for the first time."""

    def __init__(self, new: Callable[[], T]) -> None:
        self._new = new
        self._root: _Segment[T] = _Segment()
        self._count = 0
        self._segments = 0

    def find(self, path: str) -> T | None:
        """What is known of the template that a path meets; None if there is none."""
        place = self._root
        for segment in path.split("/"):
            following = place.literals.get(segment)
            if following is None:
                following = place.parameter if segment else None
                if following is None:
                    return None
            place = following
        return place.value

    def learn(self, template: str) -> T | None:
        """The same for a template; None if there are too many."""
        place = self._root
        for segment in template.split("/"):
            is_parameter = "{" in segment
            following = place.parameter if is_parameter else place.literals.get(segment)
            if following is None:
                if self._count >= MOST_TEMPLATES or self._segments >= MOST_SEGMENTS:
                    return None
                self._segments += 1
                following = _Segment()
                if is_parameter:
                    place.parameter = following
                else:
                    place.literals[segment] = following
            place = following
        if place.value is None and self._count < MOST_TEMPLATES:
            self._count += 1
            place.value = self._new()
        return place.value


def template_of(scope: Scope, path: str) -> str | None:
    """The template of the route that has answered, with the prefix of its mounts.

    FastAPI and new versions of Starlette tell the route (`scope["route"].path_format`). Otherwise it is made from
    `scope["path_params"]`. None if that is unclear, or if the path has other segments than the template.
    """
    params = scope.get("path_params") or {}
    route: Any = scope.get("route")
    told = getattr(route, "path_format", None)
    if not isinstance(told, str):
        made = _from_params(scope, path, params)
        return made if made is not None and _meets(made, path) else None
    root = str(scope.get("root_path") or "")
    of_mounts = {name: value for name, value in params.items() if f"{{{name}}}" not in told}
    # A mount such as `/{tenant}` puts its own parameters into the root path.
    for template in (told, f"{(root and _generalised(root, of_mounts)) or root}{told}"):
        if _meets(template, path):
            return template
    return None


def _from_params(scope: Scope, path: str, params: Mapping[str, Any]) -> str | None:
    if params:
        return _generalised(path, params)
    # A literal route. What is mounted answers paths that clients choose, and is no function or has a root path.
    return path if inspect.isroutine(scope.get("endpoint")) and not scope.get("root_path") else None


def _generalised(path: str, params: Mapping[str, Any]) -> str | None:
    """The path with the names of these parameters in place of their values; None if their places are unclear."""
    segments = path.split("/")
    for name, value in params.items():
        text = str(value) if isinstance(value, _PLAIN) else ""
        if not text or segments.count(text) != 1:
            return None
        segments[segments.index(text)] = f"{{{name}}}"
    return "/".join(segments)


def _meets(template: str, path: str) -> bool:
    wanted, given = template.split("/"), path.split("/")
    return len(wanted) == len(given) and all(
        bool(two) if "{" in one else one == two for one, two in zip(wanted, given, strict=True)
    )
