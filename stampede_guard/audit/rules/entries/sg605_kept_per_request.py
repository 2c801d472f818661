"""SG605: a cache whose key holds an object of the request."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.views import has_a_key_builder
from stampede_guard.audit.caching.reexported import HINTS, library_decorations
from stampede_guard.audit.prefilter import Hint
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import annotated
from stampede_guard.audit.source.words import last, path

_LRU = re.compile(r"^functools\.(?:lru_cache|cache)(?:\(\))?$")
_OF_A_REQUEST = re.compile(
    r"^(?:\w*Request|Response|WebSocket|AsyncSession|Session|Connection|AsyncConnection|BackgroundTasks)$"
)
_NAMES = frozenset(("request", "response", "websocket"))
# Its text is another one for each object, because it contains the address: the keys of aiocache and fastapi-cache are
# texts of all arguments.
_SESSION = re.compile(
    r"^(?:(?:Db|DB|Async|Sync|Database|Sql|SQL)?Session(?:Dep)?|(?:Async)?Connection|BackgroundTasks)$"
)
_REQUEST = re.compile(r"^(?:fastapi|starlette)\b.*\.(?:Request|WebSocket)$")
_POOLED = re.compile(r"^(?:requests|httpx|aiohttp)\b")
_INJECTED = frozenset("db session conn connection db_session background_tasks".split())
# A class of which each request makes an object: a view of Django or its REST framework, a handler of Tornado, an
# endpoint of Starlette.
_MADE_PER_REQUEST = re.compile(
    r"(?:View|ViewSet|Viewset|RequestHandler|HTTPEndpoint|WebSocketEndpoint)(?:Mixin)?$"
)
_FRAMEWORKS = re.compile(r"^(?:django|rest_framework|tornado|starlette|flask)\b")
_HINT: Hint = (b"lru_cache", re.compile(rb"@(?:functools\.)?cache\b(?!\.)"), *HINTS)
_GIVEN: Hint = (
    re.compile(rb"\b(?:request|response|websocket)\s*[,)=]"),
    re.compile(
        rb":\s*[\"']?[\w.\[]*(?:Request|Response|WebSocket|Session|SessionDep|Connection|BackgroundTasks)\b"
    ),
    b"Depends(",
    re.compile(rb"(?:View|ViewSet|Viewset|RequestHandler|Endpoint)(?:Mixin)?\s*[(,):\[]"),
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if not _LRU.match(decoration.name):
            continue
        function = decoration.function
        names = (argument.arg for argument in function.arguments if _is_of_one_request(module, argument))
        name = next(names, "")
        if name:
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} has {name} in its key, another object for each request: no call finds an "
                "entry, and each entry keeps its object alive",
                function=function.name,
            )
        elif _is_of_a_view(module, function):
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} has self in its key, another object for each request: no other request "
                "finds an entry, and each entry keeps its view and request alive",
                function=function.name,
            )
    yield from _with_their_text(module)


def _with_their_text(module: Module) -> Iterator[Violation]:
    for library in ("aiocache", "fastapi_cache"):
        for decoration in library_decorations(module, library):
            if decoration.tail not in ("cached", "cache", "cached_stampede") or _has_its_own_key(decoration):
                continue
            name = _in_its_text(module, decoration.function, requests=library == "aiocache")
            if not name or (library == "fastapi_cache" and has_a_key_builder(module)):
                continue
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} has the text of {name} in its key, and with it its address, another one "
                "for each request: hardly a call finds an entry, and the entries pile up",
                confidence="high" if library == "aiocache" else "medium",
                function=decoration.function.name,
            )


def _has_its_own_key(decoration: Decoration) -> bool:
    call = decoration.call
    told = {keyword.arg for keyword in call.keywords} if call is not None else set()
    return bool(told & {"key", "key_builder", "keys_from_attr", None})


def _in_its_text(module: Module, function: Function, *, requests: bool) -> str:
    """The first parameter whose text differs for each request."""
    for argument in function.arguments:
        made = annotated(module, argument.annotation)
        if _POOLED.match(made):
            continue
        if _SESSION.match(last(made)) or (requests and _REQUEST.match(made)):
            return argument.arg
        if not made and argument.arg in _INJECTED and not requests and _is_injected(function, argument):
            return argument.arg
    return ""


def _is_injected(function: Function, argument: ast.arg) -> bool:
    spec = function.node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [*zip(reversed(positional), reversed(spec.defaults), strict=False)]
    pairs += [(one, value) for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    return any(
        one is argument and isinstance(value, ast.Call) and last(path(value.func)) == "Depends"
        for one, value in pairs
    )


def _is_of_a_view(module: Module, function: Function) -> bool:
    """A method of an object that each request makes anew: its class is a framework's, or it reads `self.request`."""
    cls = function.cls
    if cls is None or not function.arguments or function.arguments[0].arg != "self":
        return False
    bases = [module.resolve(base.value if isinstance(base, ast.Subscript) else base) for base in cls.bases]
    if any(_FRAMEWORKS.match(base) and _MADE_PER_REQUEST.search(last(base)) for base in bases):
        return True
    if not any(_MADE_PER_REQUEST.search(name) for name in (cls.name, *map(last, bases))):
        return False
    methods = (one for one in module.functions if one.cls is cls)
    return any(name in ("self.request", "self.kwargs") for one in methods for name, _node in one.loads)


def _is_of_one_request(module: Module, argument: ast.arg) -> bool:
    if argument.annotation is None:
        return argument.arg in _NAMES
    return _OF_A_REQUEST.match(last(annotated(module, argument.annotation))) is not None


RULE = Rule(
    code="SG605",
    name="kept-per-request",
    summary="`lru_cache` (also aiocache's or fastapi-cache's decorator) on a function that is given a request, a "
    "response or a session, or on a method of a view",
    confidence="high",
    scope="process",
    hints=((b"functools", b"cache"), _HINT, _GIVEN),
    check=check,
    documentation=Documentation(
        what="`functools.lru_cache` or `cache` decorates a function with a parameter that is a request, a response, "
        "or a session of a database, or a method of a view, whose `self` each request makes anew. So do aiocache's "
        "`cached` and fastapi-cache's `cache` without a key of their own: "
        "their keys contain the text of each argument, and that of a session contains its address.",
        why="Each request has another such object, so no later call finds the entry. The cache keeps the objects "
        "alive: `lru_cache` the last 128, `cache` all of them. In a store, the entries pile up until they expire.",
        example="@cache\ndef account(request):\n    return request.user.accounts.first()",
        instead="@locked_cache(ttl=60)\ndef account(user_id: int) -> Account: ...",
        unless="The parameter is one object for the life of the process, or `FastAPICache.init(key_builder=...)` "
        "leaves it out of the keys (not reported if the file or a main file says so).",
        sure="High: by the parameter's annotation, or by its name if it has none; a view if its class "
        "inherits from one of Django, REST framework, Flask, Starlette or Tornado, or is named so and reads "
        "`self.request`. Medium for fastapi-cache, whose key builder another file may set.",
        fix="No automatic fix: only the program knows which part of the request identifies the value.",
    ),
)
