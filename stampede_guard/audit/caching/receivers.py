"""The kind of the object before `.get`: a cache or a store of keys, something else, or unknown."""

from __future__ import annotations

import ast
import re
from typing import Literal

from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import is_cachy, last, path, words

Kind = Literal["cache", "maybe", "no"]

_CACHE_ORIGIN = re.compile(
    r"(?:^|[.\[(])(?:\w*redis\w*|\w*cache\w*|\w*memcached?\w*|valkey|glide|coredis)(?:$|[.\[(])",
    re.IGNORECASE,
)
# `make_region().configure(...)`: no name behind the import says that it is a cache.
_CACHE_LIBRARY = re.compile(r"^dogpile\.cache\b")
_OTHER_ORIGIN = re.compile(
    r"ContextVar|contextvars|requests\.|httpx|aiohttp|sqlalchemy|Session\b|session(?:maker|_factory)?\b|os\.environ"
    r"|configparser|Queue|Event\(|QSettings|Cookie"
)
# Libraries whose cache is a dict that lives as long as one request.
_OF_ONE_REQUEST = re.compile(
    r"^(?:edx_django_utils|openedx|request_cache|django_request_cache)\b.*\bRequestCache(?:\b|\()"
)
# Stores of other things, whatever else their names contain: a session, a setting, a request.
OTHER_WORDS = frozenset(
    "settings setting config configs configuration conf prefs preferences options session sessions cookies cookie "
    "environ env registry ctx context contextvar request requests req headers params query http api httpx aiohttp "
    "queue event events form forms args kwargs state states response responses parser db "
    "database repo repository oper "
    "dao orm table model models control keys limiter ratelimit throttle".split()
)
# Of these, words for an interface to any store.
_BEFORE_A_STORE = frozenset("db repo repository dao api".split())
# Servers that have the same keys.
SERVERS = frozenset("master slave replica primary".split())
MAYBE_WORDS = SERVERS | frozenset(
    "client conn connection r rc rd rcli store storage backend kv db pool provider manager "
    "service layer region mem "
    "l1 l2 local remote memory persistent instance sentinel".split()
)


def kind(module: Module, node: ast.expr, function: Function | None) -> Kind:
    """Names decide first, because they need no import that can be followed. Then the value's origin decides."""
    memo: dict[tuple[str, int], Kind] = module.memo.setdefault("receivers", {})
    key = (path(node), id(function))
    if key not in memo:
        memo[key] = _kind(module, node, function)
    return memo[key]


def lives_for_one_request(module: Module, node: ast.expr, function: Function | None) -> bool:
    """`RequestCache("slugs")` of edx-django-utils: no other caller sees its entries."""
    named: bool | None = module.memo.get("request-cache")
    if named is None:
        named = module.memo["request-cache"] = "RequestCache" in module.source
    return named and bool(_OF_ONE_REQUEST.search(origin(module, node, function)))


def _kind(module: Module, node: ast.expr, function: Function | None) -> Kind:
    dotted = path(node)
    name = last(dotted)
    said = words(name)
    if lives_for_one_request(module, node, function):
        return "no"
    if dotted in ("self", "cls"):
        cls = owner_class(function)
        return "cache" if cls is not None and _is_cache_class(module, cls) else "no"
    if is_another(name):
        return "maybe" if said[-1] == "db" else "no"
    made = origin(module, node, function)
    if made and _OTHER_ORIGIN.search(made) and not is_cachy(name):
        return "no"
    if is_cachy(name):
        return "cache"
    if made and (_CACHE_LIBRARY.search(made) or _CACHE_ORIGIN.search(_without_package(made))):
        return "cache"
    if "super()" in dotted:
        return "no"
    if any(word in MAYBE_WORDS for word in said):
        return "maybe"
    if any(is_cachy(part) for part in dotted.split(".")[:-1]):
        return "maybe"
    return "no"


def is_another(name: str) -> bool:
    """Whether the last word says that it is no cache. `cache_repository` is one, behind an interface."""
    said = words(name)
    return bool(said) and said[-1] in OTHER_WORDS and not (said[-1] in _BEFORE_A_STORE and is_cachy(name))


def _without_package(made: str) -> str:
    """`app.core.cache.get_settings()`: the first names are the location. Only the last two names show the kind."""
    return ".".join(made.split(".")[-2:]) if made.count(".") > 1 else made


def _is_cache_class(module: Module, cls: ast.ClassDef) -> bool:
    names = [cls.name, *(last(path(base)) for base in cls.bases)]
    if any(is_cachy(name) for name in names):
        return True
    if not any(words(name)[-1:] in (("store",), ("backend",)) for name in names):
        return False
    # A `WeatherBackend` that asks `self.cache` is no cache itself.
    return not any(owner == cls.name and is_cachy(name) for owner, name in module.attributes)


_OF_A_REQUEST = frozenset("request req state info".split())


def keeps_for_a_request(own: Function) -> bool:
    """A helper that keeps its value on `request.state`, or on the request itself: no other caller sees it."""
    if any(isinstance(node, ast.Attribute) and node.attr == "state" for node in ast.walk(own.node)):
        return True
    return any(
        isinstance(call.func, ast.Name)
        and call.func.id in ("getattr", "setattr")
        and len(call.args) > 1
        and last(path(call.args[0])) in _OF_A_REQUEST
        for call in own.calls
    )
