"""Reads and writes of caches inside one function: the call, its object and its key."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Literal

from stampede_guard.audit.caching.imported import cache_module, followed_function, seen_in
from stampede_guard.audit.caching.locks import is_nx
from stampede_guard.audit.caching.naming.helpers import PLAIN_VERBS, helper_role, is_no_access, subject, verb
from stampede_guard.audit.caching.naming.methods import (
    EXPIRES,
    GROWING,
    METHODS,
    OF_A_CACHE,
    OF_A_VALUE,
    OPTIONS,
    method_kind,
)
from stampede_guard.audit.caching.receivers import keeps_for_a_request, kind, lives_for_one_request
from stampede_guard.audit.source.handed import handed
from stampede_guard.audit.source.model import Function, Module, argument, keyword_names
from stampede_guard.audit.source.words import CACHE_WORDS, is_cachy, last, names_in, path, text_of, words

_CLIENTS = frozenset("backend client conn connection store storage".split())


@dataclass(frozen=True, eq=False)
class Access:
    """One call that reads or writes a cache."""

    call: ast.expr
    what: Literal["read", "exists", "read-many", "write", "write-many"]
    receiver: str
    key: tuple[ast.expr, ...]
    value: ast.expr | None
    # For a helper of the project (`get_cached_user`): its name without the verb and the cache word ("user").
    helper: str
    topic: frozenset[str]
    sure: bool


def accesses(module: Module, function: Function) -> list[Access]:
    found = [access for call in function.calls if (access := access_of(module, function, call))]
    found += [access for compare in function.compares if (access := _membership(module, function, compare))]
    return sorted(found, key=lambda access: (access.call.lineno, access.call.col_offset))


def access_of(module: Module, function: Function, call: ast.Call) -> Access | None:
    made = handed(call)
    if made is not None:
        access = _access_of(module, function, made)
        return replace(access, call=call) if access is not None else None
    return _access_of(module, function, call)


def _access_of(module: Module, function: Function, call: ast.Call) -> Access | None:
    func = call.func
    if isinstance(func, ast.Attribute):
        plain = _plain(module, function, call, func)
        if plain is not None:
            return plain
        name, receiver = func.attr, path(func.value)
        if lives_for_one_request(module, func.value, function):
            return None
        if kind(module, func.value, function) == "no" and not is_cachy(name):
            return None
    elif isinstance(func, ast.Name):
        name, receiver = func.id, ""
    else:
        return None
    return _helper(module, function, call, name, receiver)


def _plain(module: Module, function: Function, call: ast.Call, func: ast.Attribute) -> Access | None:
    """`cache.get(key)`, `redis.setex(key, ttl, value)`: a method of the cache itself."""
    name = func.attr
    what = method_kind(name)
    if what is None:
        return None
    receiver_kind = kind(module, func.value, function)
    receiver = path(func.value)
    if receiver_kind == "no" or _in_pipeline(func.value):
        return None
    if what in ("read-many", "write-many"):
        value = argument(call, 0, "mapping", "data") if what == "write-many" else None
        return Access(call, what, receiver, (), value, "", frozenset(), receiver_kind == "cache")
    key, value = _key_and_value(call, name, what)
    if not key or (what == "write" and value is None):
        return None
    sure = receiver_kind == "cache" or _speaks_of_caching(call, name, key)
    return Access(call, what, receiver, key, value, "", frozenset(), sure)


def _in_pipeline(receiver: ast.expr) -> bool:
    """The `get` of a pipeline returns the pipeline. So only its writes and its result could matter."""
    return False if not isinstance(receiver, ast.Name) else receiver.id in ("request", "requests", "response")


def _key_and_value(call: ast.Call, name: str, what: str) -> tuple[tuple[ast.expr, ...], ast.expr | None]:
    key = argument(call, 0, "key", "name", "k", "cache_key", "id", "path") or next(
        (keyword.value for keyword in call.keywords if keyword.arg and keyword.arg.endswith("_key")), None
    )
    if key is None:
        return (), None
    if what != "write":
        second = argument(call, 1, "field") if name == "hget" else None
        return ((key, second) if second is not None else (key,)), None
    if name in ("setex", "psetex", "set_ex"):
        return (key,), argument(call, 2, "value", "val") or argument(call, 1, "value")
    if name in GROWING:
        return (key,), call.args[-1].value if isinstance(call.args[-1], ast.Starred) else None
    if name in ("hset", "hsetnx"):
        mapping = argument(call, 99, "mapping")
        field = argument(call, 1, "field", "key")
        value = argument(call, 2, "value")
        return ((key,), mapping) if mapping is not None else (((key, field) if field else (key,)), value)
    if _is_of_a_document(call):
        return (key,), argument(call, 2, "obj", "value")
    value = argument(call, 1, "value", "val", "data", "v", "obj", "item", "payload", "result", "content")
    return (key,), value if value is not None else _under_another_keyword(call, key)


def _is_of_a_document(call: ast.Call) -> bool:
    """RedisJSON, `redis.json().set(key, "$", value)`: the second argument is a place in the document."""
    return (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Call)
        and last(path(call.func.value.func)) == "json"
    )


def _under_another_keyword(call: ast.Call, key: ast.expr) -> ast.expr | None:
    """`cache.set(key, rates=rates)`: whatever is neither the key nor an option of the set."""
    return next(
        (
            keyword.value
            for keyword in call.keywords
            if keyword.arg and keyword.value is not key and keyword.arg not in EXPIRES | OPTIONS
        ),
        None,
    )


def _speaks_of_caching(call: ast.Call, name: str, key: tuple[ast.expr, ...]) -> bool:
    if name in ("setex", "psetex") or keyword_names(call) & EXPIRES:
        return True
    return any(is_cachy(part) for expr in key for part in text_of(expr).split())


def _membership(module: Module, function: Function, compare: ast.Compare) -> Access | None:
    """`key in cache`."""
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.In | ast.NotIn):
        return None
    container = compare.comparators[0]
    if not isinstance(container, ast.Name | ast.Attribute) or kind(module, container, function) != "cache":
        return None
    return Access(compare, "exists", path(container), (compare.left,), None, "", frozenset(), True)


def _helper(module: Module, function: Function, call: ast.Call, name: str, receiver: str) -> Access | None:
    """`get_cached_user(id)`, `redis_cache.set_cache(key, data)`: the project's own get and set."""
    said = words(name)
    imported = cache_module(module, name) if not receiver else ""
    of_a_cache = is_cachy(last(receiver)) or is_cachy(last(module.imports.get(receiver, "")))
    if not said or not (is_cachy(name) or imported or (receiver and of_a_cache)):
        return None
    if name[:1].isupper() or is_nx(call):
        return None
    own = module.callee(call, function)
    if is_no_access(said):
        return _write_by_its_body(module, call, name, said, own)
    if own is not None and keeps_for_a_request(own):
        return None
    topic = subject(said)
    keys = tuple(arg for arg in call.args if not isinstance(arg, ast.Starred))
    keys += tuple(keyword.value for keyword in call.keywords if keyword.arg and keyword.arg not in EXPIRES)
    if len(keys) > 1 and _is_client(keys[0]):
        keys = keys[1:]
    role = helper_role(said)
    if imported:
        seen = seen_in(module, imported, METHODS)
        if seen in ("read", "write"):
            role, topic = seen, subject(said[1:])
        elif seen == "neither" and not is_cachy(name):
            return None
    if role == "read":
        if gives_the_cache(module, function, call, said, own):
            return None
        return Access(call, "read", receiver, keys, None, name, topic, True)
    if role == "write" and keys:
        return Access(
            call, "write", receiver, keys[:-1] or keys, _helper_value(call, keys), name, topic, True
        )
    return None


def _write_by_its_body(
    module: Module, call: ast.Call, name: str, said: tuple[str, ...], own: Function | None
) -> Access | None:
    """`set_service_cache_key(key, value)`: its name speaks of keys, but it only stores its argument."""
    if said[0] not in PLAIN_VERBS or len(call.args) < 2:
        return None
    followed = (module, own) if own is not None else followed_function(module, name)
    if followed is None or len(followed[1].arguments) < 2:
        return None
    other, helper = followed
    inner = [
        access
        for made in helper.calls
        if isinstance(made.func, ast.Attribute) and (access := _plain(other, helper, made, made.func))
    ]
    given = [argument.arg for argument in helper.arguments]
    if len(inner) != 1 or inner[0].what != "write" or not inner[0].sure:
        return None
    if path(inner[0].key[0]) != given[0] or given[1] not in names_in(inner[0].value):
        return None
    return Access(call, "write", "", (call.args[0],), call.args[1], name, frozenset(), True)


def gives_the_cache(
    module: Module, function: Function, call: ast.Call, said: tuple[str, ...], own: Function | None
) -> bool:
    """`get_user_cache()` gives the cache itself, `get_cached_user()` an entry of it."""
    if verb(said) != "get":
        return False
    if own is not None and own.node.returns is not None and is_cachy(last(path(own.node.returns))):
        return True
    around = module.parents.get(call)
    if isinstance(around, ast.Attribute) and not (call.args and around.attr in OF_A_VALUE):
        return True
    bound = {
        name
        for _n, names, value in function.bindings
        if _bare(value) is call and len(names) == 1
        for name in names
    }
    if any(
        isinstance(used.func, ast.Attribute)
        and used.func.attr in OF_A_CACHE
        and path(used.func.value) in bound
        for used in function.calls
    ):
        return not (_is_dict_like(function, bound) or _is_asked_by_key(function, bound, call, said))
    nothing_given = not call.args and not call.keywords
    return nothing_given and own is None and (said[-1] in CACHE_WORDS or set(said[1:]) <= CACHE_WORDS)


def _is_dict_like(function: Function, bound: set[str]) -> bool:
    """`cached = get_cached_user(id)`, `cached.get("name")`: the entry is a dict that is only read by constants."""
    return all(
        used.func.attr == "get" and bool(used.args) and isinstance(used.args[0], ast.Constant)
        for used in function.calls
        if isinstance(used.func, ast.Attribute)
        and used.func.attr in METHODS
        and path(used.func.value) in bound
    )


def _is_asked_by_key(function: Function, bound: set[str], call: ast.Call, said: tuple[str, ...]) -> bool:
    """`known = get_cached_prices(ids)`, `known.get(id)`: many entries in a dict, which nobody writes to."""
    return (
        "cached" in said
        and said[-1] not in CACHE_WORDS
        and bool(call.args)
        and all(
            used.func.attr == "get"
            for used in function.calls
            if isinstance(used.func, ast.Attribute)
            and used.func.attr in OF_A_CACHE
            and path(used.func.value) in bound
        )
    )


def _bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _is_client(node: ast.expr) -> bool:
    """`cache_get(redis, key)`: the first argument is the store itself."""
    said = words(last(path(node))) if isinstance(node, ast.Name | ast.Attribute) else ()
    if not said:
        return False
    return said[-1] in CACHE_WORDS or (said[-1] in _CLIENTS and not CACHE_WORDS.isdisjoint(said))


def _helper_value(call: ast.Call, keys: tuple[ast.expr, ...]) -> ast.expr | None:
    """The helper may store all of its arguments: `set_cached(user_id, user, 300)`."""
    named = argument(call, 99, "value", "data", "result", "payload", "val", "response")
    if named is not None:
        return named
    candidates = [
        arg
        for arg in keys
        if not isinstance(arg, ast.Constant) or (isinstance(arg.value, bool) and arg is keys[-1])
    ]
    return ast.copy_location(ast.Tuple(elts=candidates, ctx=ast.Load()), call) if candidates else None
