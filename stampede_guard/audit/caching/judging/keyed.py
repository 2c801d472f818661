"""Reads that only their key shows: another function is asked for the key under which the value is then stored."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.naming.helpers import READ_WORDS
from stampede_guard.audit.source.model import Function
from stampede_guard.audit.source.words import last, path, words

BY_KEY = frozenset(("by key",))


def asked_by_key(function: Function, writes: Iterable[Access]) -> Iterator[Access]:
    """`db.get_json_key(redis_key)`, where `db.redis.set(redis_key, ...)` stores: the key says what is read."""
    keys = {
        write.key[0].id
        for write in writes
        if write.what == "write" and not write.helper and write.sure and isinstance(write.key[0], ast.Name)
    }
    for call in function.calls:
        said = words(last(path(call.func)))
        asked = call.args[0] if call.args else None
        if (
            isinstance(asked, ast.Name)
            and asked.id in keys
            and "key" in words(asked.id)
            and said[0] in READ_WORDS
        ):
            yield Access(call, "read", "", (asked,), None, last(path(call.func)), BY_KEY, True)
