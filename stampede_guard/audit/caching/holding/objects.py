"""Locks that a client of a store makes: `redis.lock(name)`, `cache.lock(key)` of django-redis, `redis_lock.Lock`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stampede_guard.audit.caching.reexported import made_elsewhere
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, path, words

_CLIENT = re.compile(
    r"^(?:aio)?redis\b|^valkey\b|^django_redis\b|^flask_redis\b|^walrus\b|get_redis(?:_connection)?\(\)$"
)
_DJANGO = re.compile(r"^django\.core\.cache\.(?:cache|caches)\b")
_CLASS = re.compile(r"^(?:redis_lock\.Lock|redis\.(?:asyncio\.)?lock\.Lock|aioredis\.lock\.Lock)$")
# Names of clients. `redis_service` and `redis_helper` are classes of the project, whose locks may have a default.
_NAMES = frozenset("redis client conn connection r rds rdb rcli valkey".split())


@dataclass(frozen=True, eq=False)
class StoreLock:
    """The call that makes a lock."""

    call: ast.Call
    function: Function | None
    of: Literal["redis", "django", "class"]
    # Whether the client's origin is seen, and not only its name.
    sure: bool


def store_locks(module: Module) -> Iterator[StoreLock]:
    for call in module.calls_of("lock", "Lock"):
        function = module.owners.get(call)
        if _CLASS.match(module.resolve(call.func)) and len(call.args) + len(call.keywords) > 1:
            yield StoreLock(call, function, "class", True)
        elif (
            isinstance(call.func, ast.Attribute) and call.func.attr == "lock" and (call.args or call.keywords)
        ):
            receiver = call.func.value
            made = origin(module, receiver, function) or module.resolve(receiver)
            if _DJANGO.match(made):
                yield StoreLock(call, function, "django", True)
            elif _CLIENT.search(made) or _CLIENT.search(made_elsewhere(module, made)):
                yield StoreLock(call, function, "redis", True)
            elif _is_named_like_a_client(module, receiver, made):
                yield StoreLock(call, function, "redis", False)


def _is_named_like_a_client(module: Module, receiver: ast.expr, made: str) -> bool:
    """By its name alone, if no class of the project is seen behind it."""
    if any(last(made.removesuffix("()")) == cls.name for cls in module.classes) or made.endswith("()"):
        return False
    said = words(last(path(receiver)))
    return bool(said) and said[-1] in _NAMES and not {"redis", "valkey", "rds", "rcli"}.isdisjoint(said)
