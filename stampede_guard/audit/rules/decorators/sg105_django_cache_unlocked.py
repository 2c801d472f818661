"""SG105: Django's `cache_page`, and `get_or_set` with a computed default."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.static import is_static
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.caching.reexported import library_name
from stampede_guard.audit.finding import Level
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import decorations
from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import is_cachy, last, path

_PAGES = frozenset(("cache_page", "aget_or_set", "cache_page_for_anonymous"))
_LOCKING = ("cashews", "dogpile", "aiocache", "diskcache", "cachebox", "stampede_guard", "werkzeug")


# Functions without a cost, given as the default.
_FREE = frozenset(
    (
        "time.time",
        "time.monotonic",
        "uuid.uuid4",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "django.utils.timezone.now",
    )
)
_GUARDED = "stampede_guard.integrations.django"
"""With the cache backend of this package, both compute once."""


def check(module: Module) -> Iterator[Violation]:
    if _GUARDED in module.source:
        return
    decorated: set[ast.AST] = set()
    for decoration in decorations(module):
        if decoration.tail == "cache_page":
            decorated.update(ast.walk(decoration.node))
            if is_static(decoration.function):
                continue
            yield _hit(
                module,
                decoration.node,
                f"cache_page has no lock: concurrent misses of {decoration.function.name}() all render",
                decoration.function,
                level=level_of(module, decoration.function, lifetime=decoration.call),
            )
    for call in module.calls:
        if isinstance(call.func, ast.Call):  # `cache_page(60)(view)`: the inner call is the finding
            continue
        name = last(module.resolve(call.func))  # it may be imported under another name
        function = module.owners.get(call)
        if name == "cache_page" and call not in decorated and "django" in module.resolve(call.func):
            yield _hit(
                module,
                call,
                "cache_page has no lock: concurrent misses of this view all render",
                function,
                level="information",  # the view is not in sight
            )
        elif (
            name in ("get_or_set", "aget_or_set")
            and _is_django(module, call, function)
            and _computes(module, call)
            and not (function is not None and function.name == name)  # it only passes the default on
        ):
            yield _hit(
                module,
                call,
                f"{name} has no lock: callers that miss together all compute the default",
                function,
                level=_level(module, call, function),
            )


def _hit(
    module: Module, node: ast.AST, message: str, function: Function | None, *, level: Level
) -> Violation:
    return Violation(
        node=node,
        message=message,
        level=level,
        function=function.name if function else "",
        cost=cost(function.node) if function else (),
    )


def _level(module: Module, call: ast.Call, function: Function | None) -> Level:
    """A miss of `get_or_set` is what its default does: a function, or what is written in the call."""
    default, key = argument(call, 1, "default"), tuple(call.args[:1])
    if isinstance(default, ast.Name | ast.Attribute):
        computes = module.callee(ast.Call(func=default, args=[], keywords=[]), function)
        return level_of(module, computes or function, key=key, lifetime=call)
    return level_of(module, function, key=key, between=(call, call), lifetime=call)


def _is_django(module: Module, call: ast.Call, function: Function | None) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    receiver = call.func.value
    made = origin(module, receiver, function) or module.resolve(receiver)
    if any(other in made for other in _LOCKING):
        return False
    if path(receiver).partition(".")[0] in module.imports and not made.startswith("django."):
        made = library_name(module, receiver)  # a cache of the project itself is not Django's
        return made.startswith("django.core.cache")
    return made.startswith("django.core.cache") or (
        is_cachy(last(path(receiver))) and ("django" in module.source or "caches[" in made)
    )


def _computes(module: Module, call: ast.Call) -> bool:
    default = argument(call, 1, "default")
    match default:
        case None | ast.Constant():
            return False
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return False
        case ast.Name() | ast.Attribute() if module.resolve(default) in _FREE:
            return False
        case ast.Name(id=name):
            return not isinstance(module.values.get(name), ast.Constant) and not name.isupper()
        case ast.Lambda(body=ast.Constant()):
            return False
        case ast.Call(func=func):
            return last(path(func)) not in (
                "now",
                "time",
                "uuid4",
                "int",
                "str",
                "dict",
                "list",
                "set",
                "utcnow",
            )
        case _:
            return True


RULE = Rule(
    code="SG105",
    name="django-cache-unlocked",
    summary="Django's `cache_page`, `get_or_set` with a computed default (a constant default is fine)",
    confidence="high",
    scope="process",
    hints=((b"cache", b"Cache", b"redis", b"memc"), (b"cache_page", b"get_or_set")),
    check=check,
    guide="django.md#from-djangos-own-cache",
    documentation=Documentation(
        what="A view is cached by `cache_page`, or a value by `cache.get_or_set(key, compute)`.",
        why="`get_or_set` decides which value is stored, not which caller computes it: all callers that "
        "miss at the same time compute. If the default is written as a call, it is computed even on a "
        "hit.",
        example='stats = cache.get_or_set("stats", compute_stats, 300)',
        instead='CACHES = {"default": {"BACKEND": "stampede_guard.integrations.django.Cache", "LOCATION": url}}',
        unless="The default is a constant (not reported), or cheap. The file names "
        "`stampede_guard.integrations.django` (not reported). If only the settings name that backend, "
        "turn the rule off.",
        sure="High: Django's cache has no lock in any back end of its own. "
        "A warning if a miss is much work: see SG201, else information. A miss of `get_or_set` is what its "
        "default does. Information if the view is in another file.",
        fix="No automatic fix: `cache_page` caches responses, and the computation of "
        "`get_or_set` stays where its key is built.",
    ),
)
