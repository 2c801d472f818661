"""Another library's cache decorator becomes `@locked_cache(ttl=...)`: SG101, SG102, SG103, SG107."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from stampede_guard.audit.caching.reexported import is_reexported
from stampede_guard.audit.fixes import naming
from stampede_guard.audit.fixes.durations import GUESSED, LifetimeCode, seconds
from stampede_guard.audit.fixes.facts.constants import settled
from stampede_guard.audit.fixes.facts.removals import refuse_removed
from stampede_guard.audit.fixes.signature import judge, may_be_none
from stampede_guard.audit.plan import FixPlan, NoFix, Replace, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Module, argument
from stampede_guard.audit.source.routes import is_route, only_reads, routes
from stampede_guard.audit.source.words import last, names_in, path

# Attributes that old decorators add to a function.
_FACE = frozenset(
    "cache_clear cache_info cache_parameters cache cache_key cache_lock invalidate refresh".split()
)
# Arguments that old decorators take out of a call.
_ASKED = ("cache_read", "cache_write", "aiocache_wait_for_write")
_NOT_NONE = "should_cache=lambda value: value is not None"


@dataclass
class _Arguments:
    """The old decorator's arguments, translated to the new decorator. None: no equivalent exists."""

    ttl: LifetimeCode | None = None
    more: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def fastapi_cache(module: Module, hit: Violation) -> FixPlan | None:
    decoration = _decoration(module, hit)
    if decoration is None or decoration.call is None:
        return None
    function = decoration.function
    if not all(only_reads(route) for route in routes(function.node)):
        raise NoFix("only its GET requests were cached, and the fix must not cache more")
    if not function.is_async and not routes(function.node):
        return None  # callers await the object that the old decorator returned
    given = _Arguments(_stated(module, argument(decoration.call, 0, "expire")))
    if given.ttl is None:
        given.ttl = _stated(module, _initial(module, "expire"))
    given.reasons += _dropped(
        decoration.call, coder="the coder is removed: the return annotation decides how values are stored",
        key_builder="the key builder is removed: every parameter is in the key",
        namespace="the namespace is removed: code that clears it would not reach these values",
    )  # fmt: skip
    if len(decoration.call.args) > 1:
        given.reasons.append("code that clears the old cache would not reach these values")
    return _replaced(module, decoration, given, "fastapi_cache")


def aiocache(module: Module, hit: Violation) -> FixPlan | None:
    decoration = _decoration(module, hit)
    _refuse_reexported(module, decoration)
    if decoration is None or decoration.call is None or decoration.tail == "multi_cached":
        return None
    place = 1 if decoration.tail == "cached_stampede" else 0
    stated = decoration.keyword("ttl")
    given = _Arguments(_stated(module, stated))
    if stated is None and len(decoration.call.args) == place + 1:
        first = _stated(module, decoration.call.args[place])
        if first is None or not first.sure:
            return None  # newer versions take the cache as this argument
        given.ttl = first
    elif len(decoration.call.args) > place:
        return None
    skip = decoration.keyword("skip_cache_func")
    if skip is not None:
        given.more.append(_opposite(skip))
        given.reasons.append("check that should_cache= is the opposite of skip_cache_func=")
    elif may_be_none(decoration.function):
        given.more.append(_NOT_NONE)  # aiocache treats None as a miss and never stores it
    if decoration.function.cls is not None or decoration.keyword("noself") is not None:
        return None
    place_of_values = {"cache", "endpoint", "port", "alias", "serializer", "plugins", "password", "db"}
    if any(
        keyword.arg in place_of_values and not _in_memory(keyword) for keyword in decoration.call.keywords
    ):
        given.reasons.append("the guard's URL now decides where the values are stored")
    given.reasons += _dropped(
        decoration.call, key="the key is removed: the new key consists of the function's name and its parameters",
        key_builder="the key builder is removed: every parameter is in the key",
        namespace="the namespace is removed: code that clears it would not reach these values",
    )  # fmt: skip
    return _replaced(module, decoration, given, "aiocache")


def cashews(module: Module, hit: Violation) -> FixPlan | None:
    decoration = _decoration(module, hit)
    _refuse_reexported(module, decoration)
    if decoration is None or decoration.call is None or len(decoration.call.args) > 1:
        return None
    if decoration.tail not in ("cache", "Cache") or decoration.keyword("time_condition") is not None:
        raise NoFix("early, soft, hit and failover are different strategies")
    stated = argument(decoration.call, 0, "ttl")
    if isinstance(stated, ast.Lambda):
        return None
    given = _Arguments(_stated(module, stated))
    given.reasons += _dropped(
        decoration.call, key="the key template is removed: every parameter is in the key",
        condition="the condition is removed: use should_cache= instead", tags="the tags are removed: use tags= instead",
        prefix="the prefix is removed: code that clears it would not reach these values",
        upper="`upper` is removed: use should_cache= to decide what is stored",
    )  # fmt: skip
    return _replaced(module, decoration, given, "cashews")


def _refuse_reexported(module: Module, decoration: Decoration | None) -> None:
    if decoration is not None and is_reexported(module, decoration.call):
        raise NoFix("the decorator comes from another file of the project, which decides how it works")


def memo_on_coroutine(module: Module, hit: Violation) -> FixPlan | None:
    decoration = _decoration(module, hit)
    if decoration is None or decoration.tail in ("cached_property", "cachedmethod"):
        return None
    return _replaced(module, decoration, _Arguments(_lifetime_of_memo(module, decoration)))


# ------------------------------------------------------------------------------------------------------ common


def _replaced(module: Module, decoration: Decoration, given: _Arguments, package: str = "") -> FixPlan | None:
    function, node = decoration.function, decoration.node
    if not _stands_right(decoration):
        raise NoFix("the decorator is above the route, wrapped, or has unpacked arguments")
    if _is_asked_for_more(module, decoration):
        raise NoFix("the file uses what only the old decorator adds to the function, such as cache_clear()")
    removed = refuse_removed(module, package, node) if package else ""
    name = naming.locked_cache(module, function.node)
    verdict = judge(module, function, is_route=bool(routes(function.node)))
    if not verdict.possible:
        raise NoFix(verdict.why)
    if name is None:
        return None
    if verdict.unkeyed and decoration.call is not None:
        builder = next((k.arg for k in decoration.call.keywords if k.arg in ("key_builder", "key")), None)
        if builder is not None:
            raise NoFix(
                f"{', '.join(verdict.unkeyed)} may be part of what {builder}= builds, and would become unkeyed"
            )
    reasons = [*given.reasons, *verdict.of_parameters, *verdict.reasons, *([removed] if removed else [])]
    if given.ttl is None:
        reasons.append(f"it has no lifetime: {GUESSED} seconds are a guess")
    elif not given.ttl.sure:
        reasons.append(f"{given.ttl.code} must be a number of seconds")
    if node is not function.node.decorator_list[-1]:
        reasons.append("results of the decorators below it are cached as well")
    said = [f"ttl={given.ttl.code if given.ttl is not None else GUESSED}", *given.more]
    if verdict.unkeyed:
        said.append(unkeyed(verdict.unkeyed))
    return FixPlan(
        edits=(Replace(Span.of(node), f"{name.code}({', '.join(said)})"), *name.imports),
        reasons=tuple(reasons),
    )


def unkeyed(names: list[str]) -> str:
    said = ", ".join(f'"{name}"' for name in names)
    return f"unkeyed=({said}{',' if len(names) == 1 else ''})"


def _decoration(module: Module, hit: Violation) -> Decoration | None:
    return next((found for found in decorations(module) if found.node is hit.node), None)


def _stands_right(decoration: Decoration) -> bool:
    """Whether the decorator is below the route's, and by itself: not inside `method_decorator(...)`."""
    listed = decoration.function.node.decorator_list
    below = listed[listed.index(decoration.node) + 1 :]
    around = decoration.node.func if isinstance(decoration.node, ast.Call) else decoration.node
    wraps = isinstance(decoration.node, ast.Call) and last(path(around)) == "method_decorator"
    starred = decoration.call is not None and any(
        keyword.arg is None or isinstance(keyword.value, ast.Starred) for keyword in decoration.call.keywords
    )
    return not (any(is_route(other) for other in below) or wraps or starred)


def _is_asked_for_more(module: Module, decoration: Decoration) -> bool:
    """`rates.cache_clear()`, `rates(cache_read=False)`: features of the old decorator only."""
    name = decoration.function.name
    for call in module.calls:
        # Also `partial(rates, cache_read=False)`, and calls under another name.
        if any((keyword.arg or "").endswith(_ASKED) for keyword in call.keywords):
            return True
        match call.func:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name and attr in _FACE:
                return True
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr="cache")) if owner == name:
                return True
            case _:
                pass
    return False


def _stated(module: Module, node: ast.expr | None) -> LifetimeCode | None:
    return seconds(module, node) if node is not None else None


def _initial(module: Module, name: str) -> ast.expr | None:
    """The default from `FastAPICache.init(...)`, if this file has one such call, and its value is known here."""
    made = [call for call in module.calls if path(call.func).endswith("FastAPICache.init")]
    value = next((k.value for call in made for k in call.keywords if k.arg == name), None)
    where = module.owners.get(made[0]) if made else None
    scopes = list(where.chain()) if where is not None else []
    own = {bound for scope in scopes for _n, names, _v in scope.bindings for bound in names}
    own |= {parameter for scope in scopes for parameter in scope.parameters}
    return value if len(made) == 1 and not names_in(value) & own else None


def _dropped(call: ast.Call, **reasons: str) -> Iterator[str]:
    given = {keyword.arg for keyword in call.keywords}
    yield from (reason for name, reason in reasons.items() if name in given)


def _opposite(skip: ast.expr) -> str:
    """Converts aiocache's `skip_cache_func` to `should_cache`."""
    match skip:
        case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
            negated: ast.expr = ast.UnaryOp(ast.Not(), body)
            if isinstance(body, ast.Compare) and isinstance(body.ops[0], ast.Is) and len(body.ops) == 1:
                negated = ast.Compare(body.left, [ast.IsNot()], body.comparators)
            return f"should_cache=lambda {name}: {ast.unparse(negated)}"
        case _:
            return f"should_cache=lambda value: not {ast.unparse(skip)}(value)"


def _in_memory(keyword: ast.keyword) -> bool:
    return keyword.arg == "cache" and last(path(keyword.value)) in ("MEMORY", "SimpleMemoryCache")


def _lifetime_of_memo(module: Module, decoration: Decoration) -> LifetimeCode | None:
    """`TTLCache(1024, 60)`, `ttl_cache(ttl=60)`; `lru_cache` has none."""
    if decoration.call is None:
        return None
    if decoration.tail == "ttl_cache":
        return _stated(module, argument(decoration.call, 1, "ttl"))
    kept = argument(decoration.call, 0, "cache")
    if isinstance(kept, ast.Name):
        kept = settled(module, kept.id)
    if isinstance(kept, ast.Call) and last(path(kept.func)) == "TTLCache":
        return _stated(module, argument(kept, 1, "ttl"))
    return None
