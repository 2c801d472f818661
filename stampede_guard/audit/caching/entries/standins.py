"""Values that stand in for a failure, and are stored as if they were the answer."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.caching.fills import Fill, all_fills
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.traces import Traces
from stampede_guard.audit.source.branches import leaves
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import is_cachy, last, names_in, path

# Exceptions that another attempt may not raise. `DoesNotExist` and `ValueError` are answers.
_TRANSIENT = re.compile(
    r"^(?:Base)?Exception$|Timeout|Connect(?:ion)?Error|RequestException|RequestError|HTTPError|HTTPStatusError|URLError|"
    r"SSLError|TransportError|Client(?:Response)?Error|BotoCoreError|OperationalError|Database(?:Error|Exception)|DBAPIError|"
    r"SQLAlchemyError|InterfaceError|RateLimitError|OpenAIError|RpcError|Unavailable"
)
_SAYS = re.compile(
    r"^(?:\w+\.)*(?:log\w*|print|warn\w*|traceback|sentry_sdk|capture_\w+|messages)\b", re.IGNORECASE
)
_KEEPS = re.compile(r"(?i:cache)\w*\[|\bglobal\b")
_CLOCKS = frozenset(("time", "monotonic", "now", "utcnow"))
_SHORT = 60  # seconds: so long may a failure be remembered on purpose
_MOST_TRIES = 100  # of one function; a generated one may have thousands
_LONGEST = 40  # characters of a value in a message
_EMPTY = frozenset(("dict", "list", "set", "tuple", "str", "Decimal", "int", "float"))


@dataclass(frozen=True, eq=False)
class StandIn:
    """`value` is what the handler gives instead of an answer; None as a node is the constant None."""

    handler: ast.ExceptHandler
    value: ast.expr | None

    @property
    def is_none(self) -> bool:
        return self.value is None or (isinstance(self.value, ast.Constant) and self.value.value is None)

    @property
    def is_falsy(self) -> bool:
        match self.value:
            case ast.Constant(value=value):
                return not value
            case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]) | None:
                return True
            case ast.Call(args=[], keywords=[]):
                return True
            case _:
                return False

    @property
    def said(self) -> str:
        text = "None" if self.value is None else ast.unparse(self.value)
        return text if len(text) <= _LONGEST else "constant"


def returned(function: Function) -> StandIn | None:
    """What the function returns if what it asks fails: `except RequestException: return {}`."""
    for tried in _tries(function):
        for handler in tried.handlers:
            end = handler.body[-1]
            if isinstance(end, ast.Return):
                if _only_says(handler.body[:-1], set()) and _is_constant(end.value):
                    return StandIn(handler, end.value)
            elif _only_says(handler.body, set()) and tried in function.node.body:
                following = function.node.body[function.node.body.index(tried) + 1 :]
                if not following or (
                    isinstance(following[0], ast.Return) and _is_constant(following[0].value)
                ):
                    return StandIn(handler, following[0].value if following else None)  # type: ignore[attr-defined]
    return None


def stored(module: Module) -> Iterator[tuple[Fill, StandIn]]:
    """The fills that store such a value, and would find it again."""
    if not Traces(module.source.encode()).may_fill:
        return  # only a decorator brought us here: the bodies need not be walked
    for fill in all_fills(module):
        call = fill.write.call
        if not isinstance(call, ast.Call) or fill.write.helper or _is_short(call):
            continue
        value, wrapped = _bare(fill.write.value)
        found = _bound(fill.function, value, call) if isinstance(value, ast.Name) else None
        if found is None:
            found = _of_a_callee(module, fill.function, value)
        if (
            found is not None
            and not _is_asked(module, fill, value)
            and _is_a_hit(fill, found, wrapped=wrapped)
        ):
            yield fill, found


def kept(module: Module) -> Iterator[tuple[Function, ast.AST, StandIn]]:
    """Dicts and values of the process that are filled with such a value, each with the place that stores it."""
    for function in module.functions_with(_KEEPS):
        for store in function.stores:
            held = _held_in(module, function, store)
            found = next((one for name in held if (one := _bound(function, name, store)) is not None), None)
            if found is not None and not _is_tested(function, held, found.handler, store):
                yield function, store, found
        yield from ((function, found.handler, found) for found in _in_globals(function))


def _held_in(module: Module, function: Function, store: ast.Subscript) -> list[ast.Name]:
    """The names in `CACHE[key] = {"value": value, "until": now + 60}`, if the function also looks there."""
    around = module.parents.get(store)
    if not isinstance(around, ast.Assign) or not is_cachy(last(path(store.value))):
        return []
    kept_in = path(store.value)
    looks = any(path(compare.comparators[0]) == kept_in for compare in function.compares) or any(
        path(call.func) == f"{kept_in}.get" for call in function.calls
    )
    match around.value:
        case ast.Dict(values=parts) | ast.Tuple(elts=parts):
            pass
        case part:
            parts = [part]
    return [part for part in parts if isinstance(part, ast.Name)] if looks else []


def _is_tested(function: Function, held: list[ast.Name], since: ast.AST, store: ast.AST) -> bool:
    names = {name.id for name in held}
    return any(
        names & names_in(test.test)
        for test in function.tests
        if isinstance(test, ast.If) and position(since) < position(test) < position(store)
    )


def _in_globals(function: Function) -> Iterator[StandIn]:
    """`try: RATES = await ask()`, `except Exception: RATES = {}`, and then `RATES_AT = time.monotonic()`."""
    shared = function.globals
    if not any(map(is_cachy, shared)):
        return
    renewed = [
        node
        for node, names, value in function.bindings
        if shared & {*names} and isinstance(value, ast.Call) and last(path(value.func)) in _CLOCKS
    ]
    for tried in _tries(function):
        filled = {n for node, names, _v in function.bindings if inside(node, tried) for n in names} & shared
        later = any(_is_before(tried, node) and not inside(node, tried) for node in renewed)
        for handler in tried.handlers if later else ():
            own = [node for node in handler.body if isinstance(node, ast.Assign)]
            if own and _only_says(handler.body, filled):
                yield StandIn(handler, own[-1].value)


def _tries(function: Function) -> Iterator[ast.Try]:
    """The attempts of a function to ask something, with handlers for what may pass."""
    seen: set[ast.AST] = set()
    stack: deque[ast.AST] = deque(function.node.body)
    while stack:
        node = stack.popleft()
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
            or node in seen
        ):
            continue
        seen.add(node)
        if isinstance(node, ast.Try) and any(map(_is_transient, node.handlers)):
            asks = bool({"SQL", "HTTP", "model"} & {*cost(ast.Module(body=node.body, type_ignores=[]))})
            kept = [
                handler
                for handler in node.handlers
                if _is_transient(handler) and (asks or _names_it(handler))
            ]
            if kept:
                yield node if len(kept) == len(node.handlers) else _with(node, kept)
        stack += ast.iter_child_nodes(node)


def _with(node: ast.Try, handlers: list[ast.ExceptHandler]) -> ast.Try:
    made = ast.Try(body=node.body, handlers=handlers, orelse=node.orelse, finalbody=node.finalbody)
    return ast.copy_location(made, node)


def _is_transient(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _TRANSIENT.search(last(path(kind))) for kind in kinds)


def _names_it(handler: ast.ExceptHandler) -> bool:
    """Whether the exception itself shows that something was asked: it is no `Exception`."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is not None and last(path(kind)) not in ("Exception", "BaseException") for kind in kinds)


def _only_says(body: list[ast.stmt], names: set[str]) -> bool:
    """Whether a handler only logs, and binds nothing but these names."""
    for node in body:
        if isinstance(node, ast.Pass):
            continue
        if isinstance(node, ast.Expr) and (
            isinstance(node.value, ast.Constant)
            or (isinstance(node.value, ast.Call) and _SAYS.match(path(node.value.func)))
        ):
            continue
        if (
            isinstance(node, ast.Assign)
            and all(isinstance(target, ast.Name) and target.id in names for target in node.targets)
            and _is_constant(node.value)
        ):
            continue
        return False
    return True


def _is_constant(node: ast.expr | None) -> bool:
    match node:
        case None | ast.Constant():
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_constant, parts))
        case ast.Dict(values=parts):
            return all(map(_is_constant, parts))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in _EMPTY and all(map(_is_constant, args))
        case ast.UnaryOp(operand=inner):
            return _is_constant(inner)
        case ast.Name(id=name):
            return name.isupper()
        case _:
            return False


def _bare(value: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """The value inside `json.dumps(value)`, and whether there is something around it."""
    if isinstance(value, ast.Await):
        return _bare(value.value)
    if isinstance(value, ast.Call) and last(path(value.func)) in ("dumps", "packb", "encode") and value.args:
        return _bare(value.args[0])[0], True
    return value, False


def _bound(function: Function, value: ast.Name, write: ast.expr) -> StandIn | None:
    """`try: rates = ask()`, `except Exception: rates = {}`; then the write."""
    for tried, found in _attempts(function).get(value.id, ()):
        if not inside(write, tried) and position(tried) <= position(write):
            return found
    return None


@functools.lru_cache(maxsize=2)
def _attempts(function: Function) -> dict[str, list[tuple[ast.Try, StandIn]]]:
    """By name, what stands in for it after which attempt. Once per function: it may store in a thousand places."""
    found: dict[str, list[tuple[ast.Try, StandIn]]] = {}
    for tried in itertools.islice(_tries(function), _MOST_TRIES):
        within = [names for node, names, _v in function.bindings if any(inside(node, p) for p in tried.body)]
        for name in dict.fromkeys(name for names in within for name in names):
            stand_in = _for_a_name(function, name, tried)
            if stand_in is not None:
                found.setdefault(name, []).append((tried, stand_in))
    return found


def _for_a_name(function: Function, name: str, tried: ast.Try) -> StandIn | None:
    for handler in tried.handlers:
        if not _only_says(handler.body, {name}):
            continue
        own = [node for node in handler.body if isinstance(node, ast.Assign)]
        if own:
            return StandIn(handler, own[-1].value)
        before = [
            bound for node, names, bound in function.bindings if names == [name] and _is_before(node, tried)
        ]
        if before and _is_constant(before[-1]):
            return StandIn(handler, before[-1])
    return None


def _is_before(node: ast.AST, other: ast.AST) -> bool:
    return position(node) < position(other)


def _of_a_callee(module: Module, function: Function, value: ast.expr | None) -> StandIn | None:
    """The function of this file that computes the value, if it returns a stand-in."""
    if isinstance(value, ast.Name):
        bound = [
            made for _node, names, made in function.bindings if names == [value.id] and not _is_constant(made)
        ]
        value = bound[-1] if bound else None
    if isinstance(value, ast.Await):
        value = value.value
    callee = module.callee(value, function) if isinstance(value, ast.Call) else None
    return returned(callee) if callee is not None and callee is not function else None


def _is_asked(module: Module, fill: Fill, value: ast.expr | None) -> bool:
    """Whether the value is tested before it is stored: `if rates: cache.set(...)`, `if not rates: return`."""
    names = {value.id} if isinstance(value, ast.Name) else set()
    write, read = fill.write.call, fill.read.call
    if any(
        isinstance(around, ast.If | ast.IfExp)
        and names & names_in(around.test)
        and position(read) < position(around.test)
        and not _is_the_miss(fill, around.test)
        for around in module.up(write)
    ):
        return True
    return any(
        isinstance(test, ast.If)
        and names & names_in(test.test)
        and position(read) < position(test) < position(write)
        and not inside(write, test)
        and (leaves(test.body[-1]) or _is_bound_again(test, names))
        and not _is_the_miss(fill, test.test)
        for test in fill.function.tests
    )


def _is_bound_again(test: ast.If, names: set[str]) -> bool:
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names
        for node in ast.walk(test)
    )


def _is_the_miss(fill: Fill, test: ast.expr) -> bool:
    """The first test of what was found, before anything is computed."""
    held = {
        name
        for _node, names, value in fill.function.bindings
        if inside(fill.read.call, value)
        for name in names
    }
    if not held & names_in(test):
        return False
    again = [
        node
        for node, names, value in fill.function.bindings
        if held & {*names} and not inside(fill.read.call, value) and position(node) < position(test)
    ]
    return not again


def _is_a_hit(fill: Fill, found: StandIn, *, wrapped: bool) -> bool:
    """Whether the next caller takes the stored stand-in for an answer."""
    if wrapped or fill.read.what == "exists" or not found.is_falsy:
        return True
    if found.is_none:
        return False
    held = {
        name
        for _node, names, value in fill.function.bindings
        if inside(fill.read.call, value)
        for name in names
    }
    return any(
        isinstance(compare.ops[0], ast.Is | ast.IsNot)
        and (names_in(compare.left) & held or inside(fill.read.call, compare))
        for compare in fill.function.compares
    )


def _is_short(call: ast.Call) -> bool:
    place = 1 if isinstance(call.func, ast.Attribute) and call.func.attr in ("setex", "psetex") else 2
    lifetime = argument(call, place, "timeout", "ex", "ttl", "expire", "time")
    return (
        isinstance(lifetime, ast.Constant)
        and isinstance(lifetime.value, int | float)
        and lifetime.value <= _SHORT
    )
