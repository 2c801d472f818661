"""Finds the routes of an application whose cache cannot work, and says what to write instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

from stampede_guard.api.apps.routes import Endpoint, Installed, endpoint_of, routes_of, was_cached
from stampede_guard.errors import Misuse
from stampede_guard.values.keys.sensitive import names_one_user

__all__ = ["report"]

log = logging.getLogger("stampede_guard")

_CREDENTIALS = frozenset({"authorization", "cookie", "x-api-key", "x-auth-token", "x-csrf-token"})
_MOST_LEVELS = 20


def report(app: Any, installed: Installed, *, strict: bool) -> None:
    """Write a WARNING for each such route that was not reported before. With `strict`, raise `Misuse` instead."""
    found = []
    for route in routes_of(app):
        for problem in _problems(route):
            if problem not in installed.reported:
                installed.reported.add(problem)
                found.append(problem)
    if found and strict:
        raise Misuse(" ".join(found))
    for problem in found:
        log.warning("%s", problem)


def _problems(route: Any) -> Iterator[str]:
    function = getattr(route, "endpoint", None)
    endpoint = endpoint_of(function)
    if endpoint is not None:
        yield from _shared_between_users(route, endpoint)
        return
    if was_cached(function):
        yield _undecorated(route, function)


def _title(route: Any) -> str:
    methods = ",".join(sorted(getattr(route, "methods", None) or ())) or "route"
    return f"{methods} {getattr(route, 'path', '')}"


def _undecorated(route: Any, function: Any) -> str:
    name = getattr(function, "__qualname__", "the function")
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    holder = getattr(module, name, None) if name.isidentifier() else None
    if holder is not function and getattr(holder, "__wrapped__", None) is function:
        why = "the cache stands above the route's decorator"
    else:
        why = "the route was given the function itself, or the cache stands above the route's decorator"
    return (
        f"{_title(route)} computes for each request, although {name}() is cached: {why}. Write the route above and the "
        f"cache below, next to the function (@app.get(...), then @locked_cache(...), then def), or give the route the "
        f"function that the cache returned."
    )


def _shared_between_users(route: Any, endpoint: Endpoint) -> Iterator[str]:
    dependant = getattr(route, "dependant", None)
    if dependant is None or endpoint.key_is_unknown:
        return
    of_users = list(_of_users(dependant))
    if any(name not in endpoint.left_out for name in of_users):
        # The key holds a user, so each has an entry.
        return
    for name in of_users:
        yield (
            f"{_title(route)} shares one entry of {endpoint.title}() between users: {name!r} depends on the user of "
            f"a request and is not in the key. The first user's result is served to all. Put {name!r} into the key "
            f"(take it out of unkeyed=, or name it in key=). If the result is the same for all users, check the user "
            f"in the route, dependencies=[Depends(...)], and not in the function."
        )


def _of_users(dependant: Any) -> Iterator[str]:
    """The parameters of an endpoint that depend on the user of the request."""
    for one in dependant.dependencies:
        name = getattr(one, "name", None)
        # A dependency without a name is one of the route's own: it is checked for each request.
        if name is not None and (names_one_user(name) or _reads_a_user(one, 0)):
            yield name
    for field in (*dependant.header_params, *dependant.cookie_params):
        if names_one_user(field.name) or _is_credential(field):
            yield field.name


def _reads_a_user(dependant: Any, level: int) -> bool:
    if level > _MOST_LEVELS:
        return False
    call = getattr(dependant, "call", None)
    if any(
        base.__name__ == "SecurityBase" and base.__module__.startswith("fastapi.")
        for base in type(call).__mro__
    ):
        return True
    if dependant.cookie_params or any(map(_is_credential, dependant.header_params)):
        return True
    return any(_reads_a_user(inner, level + 1) for inner in dependant.dependencies)


def _is_credential(field: Any) -> bool:
    return str(getattr(field, "alias", "")).lower() in _CREDENTIALS
