"""The advice in errors about parameters that cannot be part of a key. The cure that cannot mix up two users comes
first.

`unkeyed=` is never proposed for a parameter that may identify the user: a copied proposal would serve one user's
result to all. For every other parameter it comes last, with the condition under which it is correct.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from stampede_guard.values.annotations import root_package
from stampede_guard.values.keys.rows import identity_of
from stampede_guard.values.keys.sensitive import names_a_user

__all__ = ["for_object", "for_parameter", "for_request", "for_row", "is_request"]

_REQUESTS = ("Request", "HTTPConnection", "WebSocket", "BaseRequest")
# A connection to a database is the same for every user, whatever its name.
_DATABASES = frozenset(
    "aiomysql aiosqlite asyncpg motor psycopg psycopg2 psycopg_pool pymongo redis sqlalchemy sqlite3 sqlmodel valkey"
    .split()
)  # fmt: skip

_OF_USERS = frozenset(
    {"aiohttp", "boto3", "django", "flask", "graphql", "httpx", "litestar", "quart", "requests", "strawberry"}
)
"""Packages whose objects often belong to one user."""

_OF_DATABASES = frozenset({"conn", "connection", "cursor", "database", "db", "engine", "pool", "transaction"})
"""Names of parameters. A class `Session` may be a user's session, but a parameter `db` is not."""


@functools.lru_cache(maxsize=256)
def is_request(kind: type) -> bool:
    """Whether it is a request or a connection of a web framework."""
    return any(
        base.__name__ in _REQUESTS
        and root_package(base) in ("starlette", "fastapi", "aiohttp", "django", "flask", "litestar", "quart")
        for base in getattr(kind, "__mro__", ())
    )


def _bases(kinds: Sequence[type]) -> list[type]:
    return [base for kind in kinds for base in getattr(kind, "__mro__", (kind,))]


def _may_be_a_user(parameter: str, kinds: Sequence[type]) -> bool:
    packages = {root_package(base) for base in _bases(kinds)}
    if packages & _OF_USERS or any(map(is_request, kinds)):
        return True
    if packages & _DATABASES or packages & {"starlette"} or parameter in _OF_DATABASES:
        return False
    return names_a_user(parameter) or any(names_a_user(kind.__name__) for kind in kinds)


def for_parameter(parameter: str, kinds: Sequence[type]) -> str:
    """For a parameter whose value, or a value inside it, is of these classes."""
    if parameter in ("self", "cls"):
        return for_object(parameter, kinds)
    if any(base.__name__ == "HttpRequest" and root_package(base) == "django" for base in _bases(kinds)):
        return f"call the parameter `request` instead of {parameter!r}, and the function is a cached view"
    own = "or key=lambda ...: ... with the function's parameters, returning what the result does depend on"
    if _may_be_a_user(parameter, kinds):
        return (
            f"pass what the result depends on instead (an id, a name) as a parameter of its own; {own}, with whatever "
            f"tells two users apart"
        )
    return (
        f'resources={{"{parameter}": factory}} to open it inside the computation; {own}; '
        f'or unkeyed=("{parameter}",), only if every caller may get the result that was computed with another one\'s'
    )


def for_object(parameter: str, kinds: Sequence[type]) -> str:
    """For `self` and `cls`."""
    whose = "object" if parameter == "self" else "class"
    cures = []
    if parameter == "self":
        cures.append(
            "give its class a method `__cache_key__(self)` that returns what it does depend on (strings, numbers, "
            "a tuple of them)"
        )
    cures.append(f"key=lambda {parameter}, ...: ... returning what the result does depend on")
    if not any(names_a_user(kind.__name__) for kind in kinds):
        cures.append(f'or unkeyed=("{parameter}",), only if the result is the same for every {whose}')
    return "; ".join(cures)


def for_request(request: str, parameters: Sequence[str]) -> str:
    """A request identifies its user in many places. A copied `key=` works: it gets all arguments of the call."""
    if len(parameters) == 1:
        lists = [f'{request}.headers.getlist("{header}")' for header in ("authorization", "cookie")]
        parts = f"{' + '.join(lists)} + [{request}.url]"
    else:
        own = f'{request}.url, {request}.headers.get("authorization"), {request}.headers.get("cookie")'
        parts = f"({', '.join(own if name == request else name for name in parameters)})"
    return (
        f"take what the result depends on from the request as parameters of their own (a path or query parameter, a "
        f"dependency for the user) and leave {request!r} out; or write key=lambda {', '.join(parameters)}: {parts}, "
        f"with whatever else decides the result (key= takes every parameter)"
    )


def for_row(row: str, kind: type, parameters: Sequence[str]) -> str:
    """A row of a database has an identity, which a caller can give instead."""
    own = [f"{row}.{name}" for name in identity_of(kind)]
    identity = own[0] if len(own) == 1 else f"({', '.join(own)})"
    parts = [part for name in parameters for part in (own if name == row else [name])]
    key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return (
        f"take {identity} as the parameter instead (a dependency of its own can return it), and load the row inside "
        f"if you need it; or write key=lambda {', '.join(parameters)}: {key}, with whatever else decides the result"
    )
