"""Splits names into words. Names carry most of the meaning of code."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

CACHE_WORDS = frozenset(
    "cache cached caches caching cacher redis rediss aioredis memcache memcached mc valkey diskcache rds rdb "
    "dragonfly keydb kvstore memo memoize memoized memcachier lrucache ttlcache rediscache".split()
)
# Each cache word contains one of these, which are fast to search for.
CACHE_STEMS = ("cach", "redis", "memo", "mc", "valkey", "rds", "rdb", "dragonfly", "keydb", "kvstore")
LOCK_WORDS = frozenset("lock locks mutex mutexes rlock redlock singleflight locking filelock keylock".split())
# `scheduler_leader` is an election, `leader_board` and `team_leader` are not.
_BESIDE_LEADER = frozenset(
    "leader is the my our key id name election elect elected scheduler worker node instance cron job jobs lease "
    "process service redis current".split()
)
_NO_CACHES = frozenset("nocache uncached noncached".split())
_NO_LOCKS = frozenset("block blocks unlock clock clocks deadlock wedlock".split())


@lru_cache(maxsize=20_000)
def words(name: str) -> tuple[str, ...]:
    """`getCachedUser`, `get_cached_user` -> ("get", "cached", "user")."""
    return tuple(word.lower() for word in _WORD.findall(name))


def is_cachy(name: str) -> bool:
    return any(
        word in CACHE_WORDS or (word.endswith(("cache", "redis", "cached")) and word not in _NO_CACHES)
        for word in words(name)
    )


def is_locky(name: str) -> bool:
    said = words(name)
    if "leader" in said and _BESIDE_LEADER.issuperset(said):
        return True
    return any(word in LOCK_WORDS or (word.endswith("lock") and word not in _NO_LOCKS) for word in said)


def path(node: ast.expr | None) -> str:
    """A receiver as text: `self.redis`, `get_redis()`, `caches[]`; "" if it has no name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            before = path(value)
            return f"{before}.{attr}" if before else f"?.{attr}"
        case ast.Call(func=func):
            before = path(func)
            return f"{before}()" if before else ""
        case ast.Subscript(value=value):
            before = path(value)
            return f"{before}[]" if before else ""
        case ast.Await(value=value):
            return path(value)
        case _:
            return ""


def last(dotted: str) -> str:
    """The name that describes the object: `self.redis` -> redis, `app.get_cache()` -> get_cache."""
    return dotted.rstrip("()[]").rpartition(".")[2]


def text_of(node: ast.AST | None) -> str:
    """Everything readable in an expression: names, attributes, strings."""
    if node is None:
        return ""
    parts: list[str] = []
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                parts.append(name)
            case ast.Constant(value=str(value)):
                parts.append(value[:200])
            case ast.keyword(arg=str(name)):
                parts.append(name)
            case _:
                pass
    return " ".join(parts)


def names_in(node: ast.AST | None) -> set[str]:
    """The names in an expression; `self.rows` is a name, too."""
    if node is None:
        return set()
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.value, ast.Name)
            and inner.value.id in ("self", "cls")
        ):
            found.add(f"{inner.value.id}.{inner.attr}")
    return found
