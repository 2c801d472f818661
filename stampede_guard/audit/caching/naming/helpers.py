"""The project's own getters and setters, by the words of their names: `get_cached_user`, `cache_user`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from stampede_guard.audit.source.words import CACHE_WORDS

_PLAIN_READS, _PLAIN_WRITES = frozenset(("get", "hget", "mget")), frozenset(("set", "setex", "hset", "mset"))
PLAIN_VERBS = frozenset("set save put store write".split())
READ_WORDS = frozenset(
    "get read load fetch lookup retrieve check find try query hit peek obtain aget".split()
)
WRITE_WORDS = frozenset(
    "set save put store write add insert upsert populate persist update into aset cache push remember record "
    "fill".split()
)
NOT_ACCESS = frozenset(
    "key keys ttl timeout stats statistics config settings client backend prefix manager service "
    "instance size dir "
    "directory path file filename control headers header info connection conn pool url name "
    "invalidate clear delete "
    "remove flush or expire expiry age enabled status metrics hits lock version warm warmup evict reset decorator "
    "namespace property builder policy middleware engine session response_headers count drop purge".split()
)
_BEFORE_A_VERB = frozenset(("async", "try", "safe", "safely", "maybe"))
# Of these, words that may also be what is cached.
_SUBJECTS = frozenset("stats statistics metrics settings config status info service manager headers".split())
# These only after "cached": `get_cached_version` gives an entry, `cache_version` may be anything.
_CACHED_SUBJECTS = frozenset("version property policy file path url name info size engine middleware".split())
_FILLERS = (
    CACHE_WORDS
    | READ_WORDS
    | WRITE_WORDS
    | frozenset(
        "from to in into with by for the async sync data value result results json item entry object response".split()
    )
)


def subject(said: Iterable[str]) -> frozenset[str]:
    """What a helper is about: `get_cached_prices` and `set_cached_price` are about the same."""
    return frozenset(word.removesuffix("s") for word in frozenset(said) - _FILLERS)


def verb(said: tuple[str, ...]) -> str:
    """`cache_get_list` gets, `cache_user` caches."""
    after = next((i for i, word in enumerate(said) if word not in CACHE_WORDS | _BEFORE_A_VERB), 0)
    return said[after] if said[after] in READ_WORDS | WRITE_WORDS else said[0]


def is_no_access(said: tuple[str, ...]) -> bool:
    """`clear_cached_user` and `cache_stats` are no access; `get_cached_stats` and `get_system_stats` are."""
    found = NOT_ACCESS & {*said}
    if not found:
        return False
    if "cached" in said and found <= _SUBJECTS | _CACHED_SUBJECTS:
        return said[-1] == "cached"
    if not found <= _SUBJECTS:
        return True
    first = next(index for index, word in enumerate(said) if word in found)
    return first == 0 or said[first - 1] in _FILLERS


def helper_role(said: tuple[str, ...]) -> Literal["read", "write"] | None:
    """Whether a helper reads or writes. Its name, or its owner's name, contains a cache word."""
    first = verb(said)
    if first in READ_WORDS or said[-1] in ("get", "load", "read", "lookup") or first == "cached":
        return "read"
    if first in WRITE_WORDS or said[-1] in ("set", "put", "save", "store", "write"):
        return "write"
    # With a prefix: `horde_r_get_json`, `horde_r_setex_json`.
    reads, writes = _PLAIN_READS & {*said}, _PLAIN_WRITES & {*said}
    if bool(reads) == bool(writes):
        return None
    return "read" if reads else "write"
