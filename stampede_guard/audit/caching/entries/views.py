"""Functions cached by a decorator whose key holds their parameters, or their path, and nothing else of the request."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from stampede_guard.audit.caching.imported import built, follow, followed_function
from stampede_guard.audit.source.decorations import Decoration, decorations, receiver_of
from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.origins import annotated
from stampede_guard.audit.source.routes import is_route
from stampede_guard.audit.source.words import is_cachy, last, path

# What a caller says beside the path.
_ASKED = frozenset(
    "args form json get_json values data get_data files query_params query_string body".split()
)
_KEYED = frozenset("query_string make_cache_key make_name key_prefix key_builder unless key".split())
# A view of Django sees the caller, and `cache_page` has the address and the fields of Vary alone.
_CALLER = frozenset(("user", "session"))
_VARIES = ("vary_on_cookie", "vary_on_headers")


# Objects of Flask that name the user of a request. No decorator has them in its key.
_USERS = re.compile(r"^(?:flask_login|flask_security|flask_user|flask_principal|flask_jwt\w*)\.")
_NAMES_OF_USERS = frozenset("current_user get_jwt_identity current_identity".split())
_OF_G = frozenset("user current_user tenant account identity organization organisation team".split())
# fastapi-cache leaves the request out of its keys.
_UNSEEN = frozenset("query_params cookies user session".split())
_STATES = frozenset("user current_user tenant account identity".split())
_SAYS = re.compile(r"^(?:\w+\.)*(?:log\w*|print)\b")
# Where programs set up fastapi-cache.
_MAINS = ("main", "app.main", "src.main", "app", "server")
_BUILDER = re.compile(r"\.init\([^)]*key_builder", re.DOTALL)


# What a decorator of the project says if it distinguishes callers.
_OF_CALLERS = re.compile(
    r"user|auth|session|cookie|token|tenant|account|identity|vary|headers|principal|email|staff|role|perm|scope",
    re.I,
)
# Methods of Django REST framework in which the caller decides what others see.
_BEHIND = frozenset("get_queryset get_object filter_queryset get_serializer_context get_context_data".split())
_SHOWS = frozenset("get list retrieve dispatch".split())


def unkeyed_requests(module: Module) -> Iterator[tuple[Decoration, str]]:
    """The decorators, each with a part of the request that its function reads."""
    for decoration in decorations(module):
        part = _read_beside_the_key(module, decoration) or _read_beside_an_own_key(module, decoration)
        if part:
            yield decoration, part
    yield from _of_classes(module)


def _of_classes(module: Module) -> Iterator[tuple[Decoration, str]]:
    """`@method_decorator(cache_page(60), name="list")` of a class."""
    if "cache_page" not in module.source or "vary_on_" in module.source:
        return
    for cls in module.classes:
        for node in cls.decorator_list:
            if last(path(_called(node))) != "cache_page":
                continue
            shown = _decorated(node)
            for function in module.functions:
                if function.cls is cls and function.name in (*_BEHIND, *shown):
                    part = _part(function, ("self.request", "request"), _CALLER)
                    if part:
                        yield Decoration(function, node, None, "cache_page", ""), part
                        break


def _decorated(node: ast.expr) -> Collection[str]:
    """The methods that `method_decorator(..., name="list")` caches. `dispatch` calls them all."""
    named = argument(node, 1, "name") if isinstance(node, ast.Call) else None
    if isinstance(named, ast.Constant) and isinstance(named.value, str) and named.value != "dispatch":
        return (named.value,)
    return _SHOWS


def _read_beside_an_own_key(module: Module, decoration: Decoration) -> str:
    """What a view reads of its caller, under a decorator of the project whose key has nothing of callers."""
    function = decoration.function
    target = decoration.call.func if decoration.call is not None else decoration.node
    if not isinstance(target, ast.Name) or not is_cachy(target.id):
        return ""
    if _OF_CALLERS.search(target.id) or "request" not in function.parameters:
        return ""
    part = _caller_behind(module, function)
    if not part or (decoration.call is not None and _may_key(decoration.call)):
        return ""
    return part if _is_keyed_without_callers(module, target.id) else ""


def _may_key(call: ast.Call) -> bool:
    """`cache_view(60, key=by_user)`: a function or a word of the call may bring the caller into the key."""
    given = [*call.args, *(option.value for option in call.keywords)]
    return any(
        isinstance(node, ast.Lambda | ast.Name) and not path(node).isupper() for node in given
    ) or bool(_OF_CALLERS.search(ast.unparse(call)))


def _caller_behind(module: Module, function: Function) -> str:
    """`request.user`, in the view or in the methods of its class that it relies on."""
    part = _part(function, ("request", "self.request"), _CALLER)
    if part or function.cls is None:
        return part
    relied = {last(path(call.func)) for call in function.calls if path(call.func).startswith("self.")}
    if any(path(call.func).startswith("super()") for call in function.calls):
        relied |= _BEHIND
    for other in module.functions:
        if other.cls is function.cls and other.name in relied:
            part = _part(other, ("self.request",), _CALLER)
            if part:
                return part
    return ""


def _is_keyed_without_callers(module: Module, name: str) -> bool:
    """Whether the decorator's file shows that it stores under a key, and names nothing of callers."""
    own = [one for one in module.functions_named(name) if one.cls is None]
    found = (module, own[0]) if len(own) == 1 else followed_function(module, name)
    if found is None:
        return False
    other, decorator = found
    said = _text(other, decorator)
    for callee in {
        other.callee(call, one) for one in other.functions if decorator in one.chain() for call in one.calls
    }:
        said += _text(other, callee) if callee is not None else ""
    if _OF_CALLERS.search(said) or any(_gets_the_request(other, one, decorator) for one in other.functions):
        return False
    return "key" in said and "set" in said and is_cachy(said)


def _gets_the_request(module: Module, function: Function, decorator: Function) -> bool:
    """A function of another file may make the key of the request: `key_of(request)`."""
    if decorator not in function.chain():
        return False
    return any(
        "key" in last(path(call.func)).lower()
        and any(last(path(node)) in ("request", "args", "kwargs") for node in call.args)
        and module.callee(call, function) is None
        for call in function.calls
        if isinstance(call.func, ast.Name) and call.func.id in module.imports
    )


def _text(module: Module, function: Function) -> str:
    lines = module.source.splitlines()[function.node.lineno - 1 : function.node.end_lineno]
    said = "\n".join(line.partition("#")[0] for line in lines)
    return said.replace(ast.get_docstring(function.node, clean=False) or "\0", "")


def has_a_key_builder(module: Module) -> bool:
    """Whether the program names one for all of fastapi-cache's decorators, here or in its main file."""
    places = [place for name in _MAINS if (place := follow(module, module.path, name)) is not None]
    others = [other.source for place in places if (other := built(place)) is not None]
    return any(_BUILDER.search(said) for said in (module.source, *others))


def _read_beside_the_key(module: Module, decoration: Decoration) -> str:
    function = decoration.function
    keyed = _keyed(decoration)
    if decoration.tail == "cache_page":
        varies = any(last(path(_called(node))) in _VARIES for node in function.node.decorator_list)
        return "" if varies or "vary_on_" in module.source else _caller_behind(module, function)
    if decoration.name == "fastapi_cache.decorator.cache":
        part = "" if keyed else _unseen(module, function)
        return "" if part and has_a_key_builder(module) else part
    if decoration.tail not in ("memoize", "cached") or not _is_flask(module, decoration):
        return ""
    is_view = any(is_route(node) for node in function.node.decorator_list)
    asked = (
        _part(function, ("request",), _ASKED)
        if decoration.tail == "memoize" or not function.parameters
        else ""
    )
    if asked and not keyed:
        return asked
    if keyed <= {"query_string"} and (decoration.tail == "memoize" or is_view):
        return _user(module, function)
    return ""


def _keyed(decoration: Decoration) -> set[str]:
    """The options that may distinguish requests. A constant prefix does not."""
    options = decoration.call.keywords if decoration.call is not None else []
    return {
        option.arg
        for option in options
        if option.arg in _KEYED
        and not (option.arg == "key_prefix" and isinstance(option.value, ast.Constant))
    }


def _user(module: Module, function: Function) -> str:
    """`current_user`, `g.user`, `session["account"]`, unless it is only logged."""
    logged = {id(node) for call in function.calls if _SAYS.match(path(call.func)) for node in ast.walk(call)}
    for node in ast.walk(function.node):
        if id(node) in logged:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in _NAMES_OF_USERS:
                if _USERS.match(module.imports.get(name, "")) and name not in function.parameters:
                    return name
            case ast.Attribute(value=ast.Name(id="g"), attr=attr, ctx=ast.Load()) if attr in _OF_G:
                if _is_of_flask(module, "g"):
                    return f"g.{attr}"
            case ast.Subscript(value=ast.Name(id="session"), ctx=ast.Load()):
                if _is_of_flask(module, "session"):
                    return "session"
    return ""


def _unseen(module: Module, function: Function) -> str:
    """What an endpoint of FastAPI reads of a parameter that is the request."""
    names = [one.arg for one in function.arguments if last(annotated(module, one.annotation)) == "Request"]
    found = _part(function, tuple(names), _UNSEEN)
    return found or _part(function, tuple(f"{name}.state" for name in names), _STATES)


def _called(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call):
        inner = node.args[0] if last(path(node.func)) == "method_decorator" and node.args else node.func
        node = inner
    return node


def _is_flask(module: Module, decoration: Decoration) -> bool:
    owner = decoration.owner or decoration.name
    if owner.startswith("flask_cach"):
        return True
    imported = _is_of_flask(module, "request") or _is_of_flask(module, "g")
    return imported and is_cachy(last(path(receiver_of(decoration)))) and not decoration.function.is_async


def _is_of_flask(module: Module, name: str) -> bool:
    imported = module.imports.get(name, "")
    return imported.startswith("flask.") or (not imported and "from flask import *" in module.source)


def _part(function: Function, requests: tuple[str, ...], parts: frozenset[str]) -> str:
    """`request.args`, which the function reads."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and node.attr in parts and path(node.value) in requests:
            if isinstance(node.ctx, ast.Load):
                return path(node)
    return ""
