"""Whether other processes see what a call stores: a server behind it, and no dictionary of this process."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.model import Function, Module, keyword_names
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import path, words

_SERVERS = re.compile(
    r"redis|valkey|memcache|\bdjango\.core\.cache|flask_cach|diskcache|dragonfly|keydb", re.IGNORECASE
)
_SHORT = frozenset(("redis", "rds", "rdb", "rcli", "valkey", "memcached", "mc"))
_COMMANDS = frozenset("setex psetex setnx hset hget hsetnx sadd zadd rpush lpush mget incrby pexpire".split())
_OPTIONS = frozenset(("ex", "px", "nx", "exat"))


def is_shared(module: Module, call: ast.Call, function: Function | None) -> bool:
    """Whether a method is called on a client of a store that several processes use, as far as this file shows."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _COMMANDS or keyword_names(call) & _OPTIONS:
        return True
    return is_server(module, call.func.value, function)


def is_server(module: Module, receiver: ast.expr, function: Function | None) -> bool:
    """By its name, or by what made it: `self.redis`, `caches["default"]`, `cache` of `django.core`."""
    said = {word for part in path(receiver).split(".") for word in words(part)}
    if said & _SHORT:
        return True
    return bool(_SERVERS.search(origin(module, receiver, function) or module.resolve(receiver)))


def names_a_server(dotted: str) -> bool:
    """`shop.redis`: a module of the project about such a store."""
    return bool(_SERVERS.search(dotted))
