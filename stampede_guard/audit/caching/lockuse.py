"""Whether a key of the store is used as a lock: its name decides, and the functions that take and free it."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.words import is_locky, path, text_of, words

_EXTRA = frozenset(
    "running inprogress semaphore election elected mutex claim busy processing singleton quorum".split()
)
# Keys that only look like locks: marks of what was seen, limits, locked accounts. Whole words, or two in a row.
_NOT = frozenset(
    "secret nonce idempotent idempotency dedup dedupe deduplicate deduplication seen processed apikey jti replay "
    "throttle cooldown ratelimit lockout login unique notified block".split()
)
_THROTTLES = frozenset(
    "throttle throttled throttling ratelimit ratelimited cooldown debounce debounced".split()
)
_NOT_PAIRS = frozenset(
    "api key|once per|rate limit|locked until|locked account|locked user|locked out|account lock|user locked".split(
        "|"
    )
)


def key_text(function: Function | None, key: ast.expr | None) -> str:
    """The key as written, with the value of its local name."""
    text = text_of(key)
    if function is not None and isinstance(key, ast.Name):
        for scope in function.chain():
            values = [value for _n, names, value in scope.bindings if names == [key.id]]
            text = " ".join((text, *(text_of(value) for value in values)))
    return text


def says_lock(text: str) -> bool:
    return any(is_locky(part) for part in re.split(r"[^A-Za-z0-9_]+", text) if part)


def says_busy(text: str) -> bool:
    return any(word in _EXTRA for part in re.split(r"[^A-Za-z0-9_]+", text) for word in words(part))


def is_other(text: str) -> bool:
    for part in re.split(r"[^A-Za-z0-9_-]+", text):
        said = words(part)
        if not _NOT.isdisjoint(said) or any(" ".join(pair) in _NOT_PAIRS for pair in pairwise(said)):
            return True
    return False


def limits_a_rate(function: Function) -> bool:
    """`rate_limited(function)`, `throttle`: by the names of the function and of those around it."""
    said = words(around(function))
    return not _THROTTLES.isdisjoint(said) or any(
        pair[0] == "rate" and "limit" in pair[1] for pair in pairwise(said)
    )


def around(function: Function | None) -> str:
    """The names of the function and of its class."""
    if function is None:
        return ""
    cls = owner_class(function)
    return " ".join([*(f.name for f in function.chain()), cls.name if cls is not None else ""])


def is_lock_key(function: Function | None, key: ast.expr | None) -> bool:
    """Whether the name of the key, or of the function that takes it, is that of a lock."""
    text = key_text(function, key)
    if is_other(text):
        return False
    if says_lock(text):
        return True
    names = around(function)
    return not is_other(names) and (says_lock(names) or says_busy(text))


def deletes(function: Function) -> list[ast.Call]:
    return [
        call
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("delete", "unlink", "adelete", "expire", "pexpire")
    ]


def siblings(module: Module, function: Function) -> list[Function]:
    """The functions that may free a lock that this one takes: those of its class, or of the file."""
    cls = owner_class(function)
    return [f for f in module.functions if owner_class(f) is cls]


def same_spelling(
    one: Function | None, key: ast.expr | None, other: Function | None, second: ast.expr | None
) -> bool:
    return (
        bool(path(key) and path(key) == path(second)) or key_text(one, key) == key_text(other, second) != ""
    )
