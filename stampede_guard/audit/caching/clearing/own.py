"""Memories of one process that are cleared where a change concerns all processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.caching.clearing.reached import (
    answers_a_request,
    changes_rows,
    is_a_program,
    is_a_task,
)
from stampede_guard.audit.caching.entries.shared import is_shared
from stampede_guard.audit.caching.imported import built, follow, followed_function
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path, words

CLEARS = re.compile(
    r"cache_(?:clear|invalidate)\s*\(|cache\w*\.(?:clear|pop)\s*\(|\bdel\s+\w*cache", re.IGNORECASE
)
_LRU = re.compile(r"^functools\.(?:lru_cache|cache)$|^async_lru\.alru_cache$")
_LRU_THAT_EXPIRES = re.compile(r"alru_cache\([^()\n]{0,200}\bttl\s*=")
VERBS = tuple(
    "clear invalidate reset bust evict flush purge forget drop delete remove refresh reload".split()
)
_VERBS = frozenset(VERBS)
_HELPERS = re.compile(
    rf"\b_?(?:{'|'.join(sorted(_VERBS))})_\w*cache|cache_?(?:clear|invalidate|reset)\w*\s*\(", re.I
)
_DICTS = re.compile(
    r"^(?:dict|(?:collections\.)?(?:OrderedDict|defaultdict)|cachetools\.\w+|(?:\w+\.)*(?:TTLCache|LRUCache|LFUCache))$"
)
# Words of an expiry. A dict whose file has none of them keeps its entries until the process ends.
_EXPIRES = re.compile(r"ttl|expir|monotonic|time\.time|max_?age|TTLCache", re.IGNORECASE)
# The other processes are told.
_TOLD = frozenset("publish apublish broadcast notify pg_notify send_each emit xadd".split())


@dataclass(frozen=True, eq=False)
class Cleared:
    call: ast.AST
    function: Function
    # What is cleared, and whether its entries end some time.
    name: str
    expires: bool
    is_a_memo: bool


def cleared(module: Module) -> Iterator[Cleared]:
    functions = dict.fromkeys((*module.functions_with(CLEARS), *module.functions_with(_HELPERS)))
    for function in functions:
        found = list(_in(module, function))
        if found and _concerns_all(module, function, found):
            yield found[0]


def _concerns_all(module: Module, function: Function, found: list[Cleared]) -> bool:
    if is_a_program(module, function) or _tells(function):
        return False
    if answers_a_request(module, function) or is_a_task(function) or changes_rows(function):
        return True
    # It also deletes or replaces the copy that all processes share.
    return any(one.is_a_memo for one in found) and any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("delete", "delete_many", "unlink", "set", "setex", "hset")
        and is_shared(module, call, function)
        for call in function.calls
    )


def _tells(function: Function) -> bool:
    return any(not _TOLD.isdisjoint(words(last(path(call.func)))) for call in function.calls)


def _in(module: Module, function: Function) -> Iterator[Cleared]:
    for call in function.calls:
        name = last(path(call.func))
        if isinstance(call.func, ast.Attribute) and name in ("cache_clear", "cache_invalidate"):
            if _is_memo(module, call.func.value):
                expires = _LRU_THAT_EXPIRES.search(module.source) is not None
                yield Cleared(call, function, last(path(call.func.value)), expires, True)
        elif (holder := _emptied(module, call)) is not None:
            yield Cleared(call, function, holder, _expires(module), False)
        elif isinstance(call.func, ast.Name) and _says_so(name):
            yield from _by_a_helper(module, function, call)
    for store in function.stores:
        if isinstance(store.ctx, ast.Del) and isinstance(store.value, ast.Name):
            if _is_own(module, store.value.id):
                yield Cleared(store, function, store.value.id, _expires(module), False)


def _says_so(name: str) -> bool:
    said = words(name)
    return is_cachy(name) and not _VERBS.isdisjoint(said)


def _by_a_helper(module: Module, function: Function, call: ast.Call) -> Iterator[Cleared]:
    """`clear_cache()`: a function of this file, or of the one that it is imported from."""
    assert isinstance(call.func, ast.Name)
    own = module.callee(call, function)
    found = (module, own) if own is not None else followed_function(module, call.func.id)
    if found is None:
        return
    other, helper = found
    if _tells(helper) or any(is_shared(other, inner, helper) for inner in helper.calls):
        return
    for inner in helper.calls:
        if isinstance(inner.func, ast.Attribute) and inner.func.attr == "cache_clear":
            if _is_memo(other, inner.func.value):
                yield Cleared(call, function, last(path(inner.func.value)), False, True)
        elif (holder := _emptied(other, inner)) is not None:
            yield Cleared(call, function, holder, _expires(other), False)


def _emptied(module: Module, call: ast.Call) -> str | None:
    """The dict of the module that `cache.clear()` or `cache.pop(key)` empties."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=holder), attr="clear" | "pop"):
            return holder if _is_own(module, holder) else None
        case _:
            return None


def _is_own(module: Module, holder: str) -> bool:
    """Whether a name is a cache of this process: a dict of the module, or a class for one."""
    made = module.values.get(holder)
    if not is_cachy(holder) or made is None:
        return False
    if isinstance(made, ast.Dict):
        return True
    if not isinstance(made, ast.Call):
        return False
    name = module.resolve(made.func)
    if _DICTS.match(name):
        return True
    cls = next((cls for cls in module.classes if cls.name == name), None)
    return cls is not None and any(_DICTS.match(module.resolve(base)) for base in cls.bases)


def _expires(module: Module) -> bool:
    return _EXPIRES.search(module.source) is not None


def _is_memo(module: Module, target: ast.expr) -> bool:
    """Whether `lru_cache` decorates a function, in this file or in the one that it is imported from."""
    owner, _, name = path(target).rpartition(".")
    owner = last(owner)
    if _decorated(module, owner, name):
        return True
    stated = (
        module.imports.get(owner or name, "").rpartition(".")[0] if (owner or name) in module.imports else ""
    )
    places = [stated, module.imports.get(owner, "")] if owner else [stated]
    for dotted in places:
        place = follow(module, module.path, dotted) if dotted else None
        other = built(place) if place is not None else None
        if other is not None and (_decorated(other, owner, name) or _decorated(other, "", name)):
            return True
    return False


def _decorated(module: Module, owner: str, name: str) -> bool:
    return any(
        (one.cls.name if one.cls is not None else "") == owner or owner in ("self", "cls")
        for one in module.functions_named(name)
        for node in one.node.decorator_list
        if _LRU.match(module.resolve(node.func if isinstance(node, ast.Call) else node))
    )
