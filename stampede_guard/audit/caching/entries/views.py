"""Functions cached by a decorator whose key holds their parameters, or their path, and nothing else of the request."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.source.decorations import Decoration, decorations, receiver_of
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

# What a caller says beside the path.
_ASKED = frozenset(
    "args form json get_json values data get_data files query_params query_string body".split()
)
_KEYED = frozenset("query_string make_cache_key make_name key_prefix key_builder unless key".split())
# A view of Django sees the caller, and `cache_page` has the address and the fields of Vary alone.
_CALLER = frozenset(("user", "session"))
_VARIES = ("vary_on_cookie", "vary_on_headers")


def unkeyed_requests(module: Module) -> Iterator[tuple[Decoration, str]]:
    """The decorators, each with a part of the request that its function reads."""
    for decoration in decorations(module):
        part = _read_beside_the_key(module, decoration)
        if part:
            yield decoration, part


def _read_beside_the_key(module: Module, decoration: Decoration) -> str:
    function = decoration.function
    if decoration.tail == "cache_page":
        varies = any(last(path(_called(node))) in _VARIES for node in function.node.decorator_list)
        return "" if varies or "vary_on_" in module.source else _part(function, ("request",), _CALLER)
    if decoration.tail == "memoize" and _is_flask(module, decoration):
        return _part(function, ("request",), _ASKED)
    if decoration.tail == "cached" and _is_flask(module, decoration) and not function.parameters:
        told = {keyword.arg for keyword in decoration.call.keywords} if decoration.call is not None else set()
        return "" if told & _KEYED else _part(function, ("request",), _ASKED)
    return ""


def _called(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call):
        inner = node.args[0] if last(path(node.func)) == "method_decorator" and node.args else node.func
        node = inner
    return node


def _is_flask(module: Module, decoration: Decoration) -> bool:
    owner = decoration.owner or decoration.name
    if owner.startswith("flask_cach"):
        return True
    imported = module.imports.get("request", "").startswith("flask.")
    return imported and is_cachy(last(path(receiver_of(decoration)))) and not decoration.function.is_async


def _part(function: Function, requests: tuple[str, ...], parts: frozenset[str]) -> str:
    """`request.args`, which the function reads."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and node.attr in parts and path(node.value) in requests:
            if isinstance(node.ctx, ast.Load):
                return path(node)
    return ""
