"""Deletions of cache entries, and whether they wait for the commit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import CACHE_WORDS, is_cachy, is_locky, last, path, text_of, words

_DELETES = frozenset("delete delete_many adelete adelete_many unlink delete_pattern invalidate clear".split())
_VERBS = frozenset("invalidate clear delete evict purge flush bust expire remove drop reset".split())
# One-time secrets and counters: nothing that the database also has.
_NO_COPIES = re.compile(
    r"otp|token|code|lock|attempt|session|verif|nonce|state|captcha|rate|throttl|login|limit|pending|queue|job|task|"
    r"progress|running|temp|draft|password|reset|challenge|heartbeat|online|typing|request_?cache",
    re.IGNORECASE,
)
_BY_PATTERN = re.compile(r"\*[\"'],?\s*\)")
# What takes its keys literally. A class of the project may understand patterns.
_OF_A_CLIENT = re.compile(r"^(?:redis|aioredis|valkey|coredis)\b|^django\.core\.cache\b")
LATER = frozenset("on_commit run_on_commit after_commit add_task call_later after_this_request defer".split())


@dataclass(frozen=True, eq=False)
class Deletion:
    call: ast.Call
    # The function or lambda between the deletion and the function that is read, if there is one.
    key: ast.expr | None


def deletions(module: Module, function: Function) -> list[Deletion]:
    """The deletions in a function's own statements, by a cache's method or by a helper that says so."""
    return [found for call in function.calls if (found := _deletion(module, function, call))]


def _deletion(module: Module, function: Function, call: ast.Call) -> Deletion | None:
    func = call.func
    key = call.args[0] if call.args else _key_of(call)
    if isinstance(func, ast.Attribute) and func.attr in _DELETES:
        if kind(module, func.value, function) != "cache" or (key is None and func.attr != "clear"):
            return None
        said = text_of(key) if key is not None else ""
    elif isinstance(func, ast.Attribute | ast.Name):
        name = last(path(func))
        spoken = words(name)
        if not spoken or spoken[0] not in _VERBS or name[:1].isupper():
            return None
        if CACHE_WORDS.isdisjoint(spoken) and not (
            isinstance(func, ast.Attribute)
            and key is not None
            and _is_own_cache(module, func.value, function)
        ):
            return None
        said = f"{name} {text_of(key)}"
    else:
        return None
    if _NO_COPIES.search(said) or any(is_locky(part) for part in said.split()):
        return None
    return Deletion(call, key)


def by_pattern(module: Module) -> Iterator[tuple[Function, ast.Call, str]]:
    """`redis.delete("user:*")`: Redis and Django's caches take the star as a letter of the key."""
    for function in module.functions_with(_BY_PATTERN):
        for call in function.calls:
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in (
                "delete",
                "unlink",
                "adelete",
            ):
                continue
            key = call.args[0] if len(call.args) == 1 else None
            if key is None:
                continue
            ends = key.values[-1] if isinstance(key, ast.JoinedStr) and key.values else key
            if not isinstance(ends, ast.Constant) or not str(ends.value).endswith("*"):
                continue
            if module.source.count(str(ends.value)) > 1:
                continue  # the file stores or names just this key
            if _OF_A_CLIENT.search(origin(module, call.func.value, function)):
                yield function, call, ast.unparse(key)


def _key_of(call: ast.Call) -> ast.expr | None:
    """`cache.delete(base_key=...)`."""
    return next((k.value for k in call.keywords if k.arg is not None and k.arg.endswith("key")), None)


def _is_own_cache(module: Module, receiver: ast.expr, function: Function) -> bool:
    """`AccessCache(org).delete_policy(user)`: a method of the project's class for a cache."""
    made = origin(module, receiver, function)
    return is_cachy(last(made.removesuffix("()"))) and kind(module, receiver, function) == "cache"


def waits(module: Module, call: ast.Call, function: Function) -> bool:
    """`transaction.on_commit(lambda: cache.delete(key))`."""
    for node in module.up(call):
        if node is function.node:
            return False
        if isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.Call) and last(path(node.func)) in LATER:
            return True
    return False
