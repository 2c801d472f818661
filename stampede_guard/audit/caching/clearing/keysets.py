"""Sets of public keys (JWKS) that are fetched anew for a token that nobody has verified yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.source.model import Function, Module, position
from stampede_guard.audit.source.words import last, path, text_of

KEYS = re.compile(r"jwk|\bkid\b", re.IGNORECASE)
_SET = re.compile(r"jwk|key_?set|signing_?key|public_?key|certs", re.IGNORECASE)
_DROPS = frozenset("pop clear clear_cache cache_clear delete invalidate adelete".split())
_FORCED = re.compile(r"^(?:force\w*|refresh\w*|bypass_cache|ignore_cache|no_cache|use_cache)$")
_FETCHES = re.compile(r"jwk|fetch|refresh|signing_?key|key_?set|public_?keys?|certs", re.IGNORECASE)
# What the library says of a token that does not fit the keys.
_UNFIT = re.compile(r"Signature|Decode|JWK|JWT|Token|Algorithm|KeyError|InvalidKey|KidNot|\bException\b")
# Something limits how often it happens.
_LIMITED = re.compile(
    r"cool_?down|throttl|rate_?limit|monotonic|time\.time|\bnow\b|utcnow|interval|last_\w*|since|(?:\b|_)min_\w+|negative|"
    r"unknown_kids|\bttl\b|\bmax_age\b|(?:fetched|refreshed|updated|loaded)_at\b",
    re.IGNORECASE,
)


def fetched_for_any_token(module: Module) -> Iterator[tuple[ast.Call, Function]]:
    for function in module.functions_with(KEYS):
        said = _text(module, function)
        if not _SET.search(said) or _LIMITED.search(said):
            continue
        for call in function.calls:
            if _drops(call) and _is_for_an_unfit_token(module, function, call) and _fetches(function, call):
                yield call, function
                break


def _drops(call: ast.Call) -> bool:
    """`jwks_cache.pop(uri)`, `client.clear_cache()`, `get_jwks(force_refresh=True)`."""
    said = text_of(call)
    if not _SET.search(said):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr in _DROPS:
        return True
    return any(
        option.arg is not None
        and _FORCED.match(option.arg)
        and isinstance(option.value, ast.Constant)
        and option.value.value is (option.arg != "use_cache")
        for option in call.keywords
    )


def _is_for_an_unfit_token(module: Module, function: Function, call: ast.Call) -> bool:
    """In a handler of the check, or after no key of the set had the token's `kid`."""
    for around in module.up(call):
        if isinstance(around, ast.ExceptHandler) and _UNFIT.search(text_of(around.type)):
            return True
        if around is function.node:
            break
    return any(
        position(compare) < position(call) and re.search(r"\bkid\b", text_of(compare))
        for compare in function.compares
    )


def _fetches(function: Function, drop: ast.Call) -> bool:
    if not isinstance(drop.func, ast.Attribute) or drop.func.attr not in _DROPS:
        return True  # `force_refresh=True`
    return any(
        position(call) > position(drop)
        and (_FETCHES.search(last(path(call.func))) is not None or last(path(call.func)) == function.name)
        for call in function.calls
    )


def _text(module: Module, function: Function) -> str:
    """The code of a function, without its words for people."""
    told = {id(node.value) for node in ast.walk(function.node) if isinstance(node, ast.Expr)}
    parts: list[str] = []
    for node in ast.walk(function.node):
        match node:
            case (
                ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name))
            ):
                parts.append(name)
            case ast.Constant(value=str(name)) if id(node) not in told and " " not in name:
                parts.append(name)
            case _:
                pass
    return " ".join(parts)
