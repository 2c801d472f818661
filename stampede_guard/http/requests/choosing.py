"""Which route applies to a request, and which requests bypass the route of their path."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from stampede_guard.http.requests.entries import Target
from stampede_guard.http.requests.routes import CacheRoute, Scope
from stampede_guard.http.requests.settings import Settings

__all__ = ["RouteChoice", "Routing"]

log = logging.getLogger("stampede_guard")


class RouteChoice(NamedTuple):
    """`part` is the text that the route's key function adds to the key. `passed`: why the matching route does not
    apply to this request; None if no route matched or it applies.
    """

    route: CacheRoute | None = None
    part: str = ""
    passed: str | None = None


class Routing:
    """The routes of one middleware, and the faults of their key functions that the log has already reported."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._told: set[tuple[int, type]] = set()

    def choose(self, scope: Scope, names: AbstractSet[bytes], target: Target) -> RouteChoice:
        """The first route that matches, unless it does not apply to a request with fields of these names. A POST and a
        QUERY are checked when their body is known.
        """
        path = target.path.encode("latin-1")
        for route in self._settings.routes:
            if scope["method"] in route.methods and route.matches(path):
                if self._settings.credentials(names, route):
                    return RouteChoice(passed="credentials")
                has_body = scope["method"] in ("POST", "QUERY")
                return RouteChoice(route) if has_body else self.by_key(route, scope)
        return RouteChoice()

    def by_key(self, route: CacheRoute, scope: Scope) -> RouteChoice:
        """Decided by the route's key function. If it fails, only caching is lost for this request: it goes to the
        application, and shares no entry with requests that have a key.
        """
        if route.key is None:
            return RouteChoice(route)
        try:
            part: object = route.key(scope)
            # The text of another object may contain its address, and the next user's object may have the same
            # address.
            if part is not None and not isinstance(part, str | int):
                if inspect.iscoroutine(part):
                    part.close()
                raise TypeError(f"it returned a {type(part).__name__}, and not a text or None")
        except Exception as error:
            self._tell(route, error)
            return RouteChoice(passed="key failed")
        return RouteChoice(passed="key") if part is None else RouteChoice(route, str(part))

    def _tell(self, route: CacheRoute, error: Exception) -> None:
        first = (id(route), type(error)) not in self._told
        self._told.add((id(route), type(error)))
        log.log(
            logging.ERROR if first else logging.DEBUG,
            "the key function of CacheRoute(%r) failed, and its request went past the route: %r",
            route.pattern,
            error,
            exc_info=error if first else None,
        )
