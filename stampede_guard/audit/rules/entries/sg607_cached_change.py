"""SG607: a cache in front of an endpoint that changes something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.imported import followed_function
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.routes import is_route
from stampede_guard.audit.source.words import last, path, words

_CACHES = frozenset(
    "cached cache memoize memoized lru_cache alru_cache ttl_cache cache_response cached_response cache_result "
    "cached_result cache_view cached_view response_cache redis_cache locked_cache".split()
)
# They store answers to GET only, whatever is decorated.
_GET_ONLY = ("fastapi_cache.", "django.", "rest_framework_extensions.")
_CHANGES = frozenset(("put", "patch", "delete"))
# `@cache.cached` without one of these has the path alone as its key.
_KEYED = frozenset("query_string make_cache_key key_prefix unless key key_builder source_check".split())
_VIEWS = re.compile(r"(?:View|ViewSet|Resource|Endpoint|Handler|Controller|Namespace)$")
_WEB = re.compile(r"\b(?:flask|connexion|quart|fastapi|starlette|sanic|aiohttp|litestar|tornado|falcon)\b")
_WRITES = frozenset("set delete update create remove add save commit put patch insert store mark".split())


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if decoration.tail not in _CACHES or decoration.name.startswith(_GET_ONLY):
            continue
        verb = _verb(module, decoration)
        if verb and not _asks_for_the_method(module, decoration):
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} answers a second {verb.upper()} from the cache, and "
                f"{decoration.function.name}() does not run: its change is lost",
                confidence="high" if _stated(decoration.function) else "medium",
                function=decoration.function.name,
            )


def _verb(module: Module, decoration: Decoration) -> str:
    """The method of the requests that the cached function serves, if it changes something."""
    function = decoration.function
    stated = _stated(function)
    if stated:
        around = function.node.decorator_list
        outside = [node for node in around[: around.index(decoration.node)] if is_route(node)]
        if not outside:
            return ""  # above the route, the decorator does nothing
        if stated <= _CHANGES:
            return min(stated)
        return "post" if stated == {"post"} and _has_only_the_path(decoration) else ""
    if function.cls is not None:
        views = any(
            _VIEWS.search(last(path(base))) for base in (*function.cls.bases, ast.Name(function.cls.name))
        )
        return function.name if views and function.name in _CHANGES else ""
    said = words(function.name)
    named = len(said) > 1 and said[-1] in _CHANGES and _WEB.search(module.source) is not None
    return said[-1] if named and _changes_something(function) else ""


def _stated(function: Function) -> set[str]:
    """The methods that the function's routes name. A Flask route without `methods` serves GET."""
    found: set[str] = set()
    for node in filter(is_route, function.node.decorator_list):
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        given = next((keyword.value for keyword in node.keywords if keyword.arg == "methods"), None)
        if node.func.attr not in ("route", "api_route"):
            found.add(node.func.attr)
        elif isinstance(given, ast.List | ast.Tuple | ast.Set):
            found |= {
                str(item.value).lower() if isinstance(item, ast.Constant) else "?" for item in given.elts
            }
        else:
            found.add("get" if given is None else "?")
    return found


def _has_only_the_path(decoration: Decoration) -> bool:
    call = decoration.call
    told = {keyword.arg for keyword in call.keywords} if call is not None else set()
    return decoration.tail == "cached" and not told & _KEYED and decoration.owner.startswith("flask_cach")


def _changes_something(function: Function) -> bool:
    return any(
        words(last(path(call.func)))[:1] != () and words(last(path(call.func)))[0] in _WRITES
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
    )


def _asks_for_the_method(module: Module, decoration: Decoration) -> bool:
    """A decorator of the project may let requests through that change something."""
    target = decoration.call.func if decoration.call is not None else decoration.node
    if not isinstance(target, ast.Name):
        return False
    own = [(module, one) for one in module.functions_named(target.id)]
    if not own and (found := followed_function(module, target.id)) is not None:
        own = [found]
    return any(
        isinstance(node, ast.Attribute) and node.attr == "method"
        for _module, one in own
        for node in ast.walk(one.node)
    )


RULE = Rule(
    code="SG607",
    name="cached-change",
    summary="a cache decorator on an endpoint that changes something (PUT, PATCH, DELETE, or a POST whose body is not "
    "in the key)",
    confidence="medium",
    scope="fleet",
    hints=(
        (b"cache", b"memoize"),
        (re.compile(rb"@[\w.]*(?:cache|memoize)"),),
        (
            *(b".put(", b".patch(", b".delete(", b".post(", b"def put", b"def patch", b"def delete"),
            *(b'"PUT"', b"'PUT'", b'"PATCH"', b"'PATCH'", b'"DELETE"', b"'DELETE'", b'"POST"', b"'POST'"),
            re.compile(rb"_(?:put|patch|delete)\("),
        ),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "A cache decorator stands on a route for PUT, PATCH or DELETE, on such a method of a view, on a function "
            "that is named after such a request, or on a route for POST whose key is the path alone."
        ),
        why=(
            "The first request runs and its answer is stored. The next one with the same key gets this answer, and "
            "nothing is changed, although its caller is told so."
        ),
        example='@app.route("/note/<int:note>", methods=["DELETE"])\n@cache.memoize(30)\ndef delete_note(note): ...',
        instead='@app.route("/note/<int:note>", methods=["DELETE"])\ndef delete_note(note): ...',
        unless="The request only asks. To repeat an answer on purpose, keep it under the caller's idempotency key.",
        sure="High if the route states the method, medium if the function's name does. fastapi-cache and Django's "
        "`cache_page` store answers to GET only and are left out, as are decorators of the project that read the "
        "request's method.",
        fix="No automatic fix: the entry may have been meant for another function.",
    ),
)
