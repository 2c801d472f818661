"""SG606: Python's `hash()` in a key or a lock that several processes share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.salted import salted
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

_MESSAGES = {
    "key": "hash() of a text differs in each process: no other worker finds this key, and a restart loses it",
    "lock id": "hash() of a text differs in each process: workers take different locks, so none of them waits",
}


def check(module: Module) -> Iterator[Violation]:
    for call, function, what in salted(module):
        yield Violation(node=call, message=_MESSAGES[what], function=owned_name(function))


RULE = Rule(
    code="SG606",
    name="salted-hash-in-key",
    summary="Python's `hash()` in a key or a lock that several processes share",
    confidence="high",
    scope="fleet",
    hints=(
        (
            b" hash(",
            b"(hash(",
            b"{hash(",
            b"=hash(",
            b",hash(",
            b"[hash(",
            b"-hash(",
            b"\thash(",
            b"%hash(",
            b"+hash(",
        ),
        (
            *(
                b"redis",
                b"Redis",
                b"REDIS",
                b"valkey",
                b"Valkey",
                b"memcache",
                b"Memcache",
                b"core.cache",
                b"flask_cach",
            ),
            *(
                b"diskcache",
                b"dragonfly",
                b"keydb",
                re.compile(rb"rds(?<![a-zA-Z]rds)(?![a-z])"),
                re.compile(rb"rdb(?<![a-zA-Z]rdb)(?![a-z])"),
                b"rcli",
                re.compile(rb"mc\.(?<!\wmc\.)"),
                re.compile(rb"mc_(?<![a-z]mc_)"),
                b"_mc",
                b"setex(",
                b"setnx(",
            ),
            *(
                b"hget(",
                b"hset",
                b"sadd(",
                b"zadd(",
                b"lpush(",
                b"rpush(",
                b"push_cache(",
                b"mget(",
                b"incrby(",
                b"pexpire(",
                re.compile(rb"ex=(?<!\wex=)"),
                b"px=",
                b"nx=",
                b"exat=",
            ),
            *(b"advisory_", b"ADVISORY_", b"distributed_"),
        ),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "The built-in `hash()` of a text, or of an object, is part of a key in Redis, Memcached or Django's cache, "
            "or is the number of a lock."
        ),
        why=(
            "Python salts the hashes of texts anew in each process. Each worker has its own keys: it finds no entry of "
            "the others, deletes none of them, and each restart begins with an empty cache. Workers that mean the same "
            "lock take different ones."
        ),
        example='key = f"count:{hash(str(query))}"\nredis.setex(key, 60, count)',
        instead='key = f"count:{hashlib.sha256(str(query).encode()).hexdigest()}"',
        unless="One process has the store for itself, or `PYTHONHASHSEED` is set for all of them.",
        sure="High: the store is known by its name, its import or its commands. Numbers have the same hash everywhere "
        "and are left out.",
        fix="No automatic fix: a digest needs bytes, and only the program knows the text of its object.",
    ),
)
