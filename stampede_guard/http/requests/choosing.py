"""Which route applies to a request, and which requests bypass the route of their path."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from stampede_guard.http.requests.entries import Target
from stampede_guard.http.requests.exchange import as_fields
from stampede_guard.http.requests.requester import SAFE
from stampede_guard.http.requests.routes import CacheRoute, Scope
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.users.cookies import read_cookies
from stampede_guard.http.users.naming import user_digest
from stampede_guard.http.users.outside import has_user

__all__ = ["RouteChoice", "Routing", "knows_users"]

log = logging.getLogger("stampede_guard")

MOST_VALUE_BYTES = 4096
"""Bytes of a cookie in the key."""


def knows_users(route: CacheRoute | None) -> bool:
    """Whether the operator has said by what its users differ, or that they do not matter."""
    if route is None:
        return False
    told = route.key is not None or bool(route.key_cookies) or route.cookies == "ignore"
    return told or not SAFE.issuperset(route.names)


class RouteChoice(NamedTuple):
    """`part` is the text that the route's key function adds to the key. `passed`: why the matching route does not
    apply to this request; None if no route matched or it applies. `user`: a digest of the one whose private entries
    are asked; empty = those of all; None = it is unclear who it is, so nothing is stored or served.
    """

    route: CacheRoute | None = None
    part: str = ""
    passed: str | None = None
    user: str | None = ""


class Routing:
    """The routes of one middleware, and the faults of their key functions that the log has already reported."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._told: set[tuple[int, type]] = set()
        self.has_users = settings.private_to is not None or any(route.private_to for route in settings.routes)

    def choose(self, scope: Scope, fields: Fields, names: AbstractSet[bytes], target: Target) -> RouteChoice:
        """The first route that matches, unless it does not apply to a request with fields of these names. A POST and a
        QUERY are checked when their body is known.
        """
        path = target.path.encode("latin-1")
        for route in self._settings.routes:
            if scope["method"] in route.methods and route.matches(path):
                user = self._user(route, scope, fields) if self.has_users else ""
                if user is None:
                    return RouteChoice(passed="user", user=None)
                if not user and self._has_credentials(route, fields, names):
                    return RouteChoice(passed="credentials")
                if not user and not knows_users(route) and has_user(scope):
                    return RouteChoice(passed="credentials")
                has_body = scope["method"] in ("POST", "QUERY")
                choice = RouteChoice(route) if has_body else self.by_key(route, scope)
                return choice._replace(user=user) if user else choice
        user = self._user(None, scope, fields) if self.has_users else ""
        return RouteChoice(passed="user" if user is None else None, user=user)

    def _has_credentials(self, route: CacheRoute, fields: Fields, names: AbstractSet[bytes]) -> bool:
        known = self._settings.credentials(names, route)
        if route.cookie_names and known == {b"cookie"}:
            found = read_cookies(fields, route.cookie_names)
            return found is None or found.others
        return bool(known)

    def _user(self, route: CacheRoute | None, scope: Scope, fields: Fields) -> str | None:
        naming = self._settings.naming(route)
        if naming is None:
            return ""
        try:
            return user_digest(naming, scope, fields)
        except Exception as error:
            self._tell(route, error, "private_to")
            return None

    def by_key(self, route: CacheRoute, scope: Scope) -> RouteChoice:
        """Decided by the route's key function, and by the cookies in its key. If it fails, only caching is lost for
        this request: it goes to the application, and shares no entry with requests that have a key.
        """
        choice = RouteChoice(route) if route.key is None else self._by_function(route, route.key, scope)
        if not route.cookie_names or choice.route is None:
            return choice
        found = read_cookies(as_fields(scope["headers"]), route.cookie_names)
        if found is None or any(len(value) > MOST_VALUE_BYTES for value in found.named.values()):
            return RouteChoice(passed="cookies")
        # Also without a cookie: so no result of the function can look like a cookie.
        return RouteChoice(route, repr((sorted(found.named.items()), choice.part)) + found.places)

    def _by_function(
        self, route: CacheRoute, key: Callable[[Scope], str | None], scope: Scope
    ) -> RouteChoice:
        try:
            part: object = key(scope)
            # The text of another object may contain its address, and the next user's object may have the same
            # address.
            if part is not None and not isinstance(part, str | int):
                if inspect.iscoroutine(part):
                    part.close()
                raise TypeError(f"it returned a {type(part).__name__}, and not a text or None")
        except Exception as error:
            self._tell(route, error, "the key function")
            return RouteChoice(passed="key failed")
        return RouteChoice(passed="key") if part is None else RouteChoice(route, str(part))

    def _tell(self, route: CacheRoute | None, error: Exception, what: str) -> None:
        first = (id(route), type(error)) not in self._told
        self._told.add((id(route), type(error)))
        log.log(
            logging.ERROR if first else logging.DEBUG,
            "%s of %s failed, and its request went past it: %r",
            what,
            "the middleware" if route is None else f"CacheRoute({route.pattern!r})",
            error,
            exc_info=error if first else None,
        )
