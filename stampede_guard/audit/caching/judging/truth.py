"""Whether a stored value can be falsy: 0, "", or an empty list. The code around it decides, then the value's name."""

from __future__ import annotations

import ast
import re
from typing import Literal

from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.imported import followed_function
from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.words import last, names_in, path, words

Truth = Literal["never", "maybe", "unknown"]

# Calls whose text is never empty, or whose object is always true.
_TEXTS = frozenset(
    "dumps model_dump_json json packb encode serialize serialise dict model_dump jsonable_encoder pickle "
    "asdict to_dict render render_to_string render_template b64encode hexdigest isoformat strftime uuid4 uuid1 "
    "token_hex token_urlsafe now utcnow today time monotonic timestamp get_object_or_404 get_object "
    "get_or_404 first_or_404 open compile namedtuple one scalar_one object getsize datetime date".split()
)
# Calls whose result is often empty or 0.
_FALSY = frozenset(
    "count len sum int float bool round list set sorted tuple filter all fetchall scalars values_list aggregate exists "
    "strip split findall find_all acount any abs min max dict_values fetchmany smembers lrange keys".split()
)
_NUMBERS = frozenset(
    "count counts number total amount sum balance score rate offset quantity qty size ratio".split()
)
_PLURAL_VERBS = ("is", "has", "can", "should")
_SINGULAR = frozenset(
    "status stats statistics metrics analytics address access process class analysis progress news settings config "
    "details settings kwargs params headers basis options preferences bus this its headers".split()
)
# Texts that are no answer if they are empty.
_NEVER_EMPTY = frozenset("token jwt secret password credential credentials apikey certificate".split())
_EMPTY_TYPES = frozenset("list List set Set int float bool Sequence frozenset Iterable".split())
_OTHER_TYPES = frozenset("Any Decimal Optional Dict Mapping Tuple".split())
_DEPTH = 5


def truth(flow: Flow, value: ast.expr | None, at: ast.AST) -> Truth:
    """Whether the value written at a place can be falsy."""
    if value is None or _is_guarded(flow, value, at) or _has_parts(flow, value, at):
        return "never"
    if _is_text_on_a_hit(flow):
        return "never"
    return _Judge(flow, at).of(value, at, _DEPTH)


class _Judge:
    """Follows names inside one function, and calls to functions of the same file."""

    def __init__(self, flow: Flow, write: ast.AST) -> None:
        self.flow, self.write = flow, write
        self.module, self.function = flow.module, flow.function

    def of(self, value: ast.expr, at: ast.AST, depth: int) -> Truth:
        if depth == 0:
            return "unknown"
        match value:
            case ast.Await(value=inner):
                return self.of(inner, at, depth)
            case ast.Constant(value=known):
                return "never" if known or known is None else "maybe"
            case ast.Dict(keys=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return self._of_display(value, parts)
            case ast.JoinedStr(values=parts):
                return "never" if any(_is_said(part) for part in parts) else "unknown"
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                return "maybe"
            case ast.IfExp(body=body, orelse=orelse):
                return _worst(self.of(body, at, depth - 1), self.of(orelse, at, depth - 1))
            case ast.BoolOp(op=ast.Or(), values=values):
                return self.of(values[-1], at, depth - 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                both = (self.of(left, at, depth - 1), self.of(right, at, depth - 1))
                return "never" if "never" in both else "unknown"
            case ast.BinOp(op=ast.Sub() | ast.Mult() | ast.Div()):
                return "maybe"
            case ast.Call():
                return self._of_call(value, depth)
            case ast.Name(id=name):
                return self._of_name(name, at, depth)
            case ast.Attribute(attr=name):
                return _by_name(name)
            case _:
                return "unknown"

    def _of_display(self, value: ast.expr, parts: object) -> Truth:
        assert isinstance(parts, list)
        certain = [part for part in parts if part is not None and not isinstance(part, ast.Starred)]
        if certain:
            return "never"
        return "unknown" if parts else "maybe"

    def _of_name(self, name: str, at: ast.AST, depth: int) -> Truth:
        bound = self.flow._bindings_before(name, at)
        if _NEVER_EMPTY.issuperset(words(name)[-1:]):
            return (
                "maybe" if any(isinstance(v, ast.Constant) and v.value == "" for _n, v in bound) else "never"
            )
        found = [self.of(source, node, depth - 1) for node, source in bound if _is_plain(node)]
        if len(found) < len(bound):
            return _by_name(name)
        if "never" in found and self._filled(name, at):
            found = [told for told in found if told != "maybe"]
        if not found:
            return _by_name(name)
        told = _worst(*found)
        if told == "unknown" and all(_makes_one_thing(source) for _node, source in bound):
            return "unknown"
        return _by_name(name) if told == "unknown" else told

    def _filled(self, name: str, at: ast.AST) -> bool:
        return self.flow._grown(name, at)

    def _of_call(self, call: ast.Call, depth: int) -> Truth:
        dotted = path(call.func)
        name = last(dotted)
        if name in _TEXTS:
            return "never"
        if name in ("get", "create", "update_or_create") and ".objects" in dotted:
            return "never"
        if name in _FALSY:
            return "maybe"
        if name[:1].isupper() and name not in ("Counter", "OrderedDict", "Decimal", "QuerySet"):
            return "never" if not name.isupper() else "unknown"
        if name == "str" and call.args:
            return "never"
        callee = self.module.callee(call, self.function)
        if callee is not None:
            return _of_function(self, self.module, callee, depth)
        followed = followed_function(self.module, dotted)
        if followed is not None and followed[1].node.name == name:
            told = _of_function(self, *followed, depth)
            if told != "unknown":
                return told
        said = words(name)
        if said and (said[0] in _PLURAL_VERBS or said[0] == "count"):
            return "maybe"
        return (
            _by_name(name)
            if said and said[0] in ("get", "load", "list", "fetch", "find", "query")
            else "unknown"
        )


def _of_function(judge: _Judge, module: Module, callee: Function, depth: int) -> Truth:
    """What a function returns: its annotation says so, else its `return` statements."""
    declared = _of_annotation(callee.node.returns)
    if declared == "never":
        return declared
    returned = [node.value for node in ast.walk(callee.node) if isinstance(node, ast.Return) and node.value]
    if callee is judge.function:
        return declared
    flow = Flow(module, callee, judge.flow.read)
    flow.since = None
    inner = _Judge(flow, judge.write)
    found = [inner.of(value, value, depth - 1) for value in returned]
    if found and all(told == "never" for told in found):
        return "never"
    if "maybe" in found:
        return "maybe"
    return declared


def _of_annotation(node: ast.expr | None) -> Truth:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if name in _EMPTY_TYPES:
                return "maybe"
            return "never" if name[:1].isupper() and name not in _OTHER_TYPES else "unknown"
        case ast.Subscript(value=value, slice=inner):
            name = last(path(value))
            if name == "Optional":
                return _of_annotation(inner)
            return "maybe" if name in _EMPTY_TYPES else "unknown"
        case ast.BinOp(left=left, op=ast.BitOr()):
            return _of_annotation(left)
        case _:
            return "unknown"


def _worst(*found: Truth) -> Truth:
    return "maybe" if "maybe" in found else "unknown" if "unknown" in found else "never"


def _is_said(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and bool(part.value)


def _is_plain(node: ast.AST) -> bool:
    """An assignment of the value itself: no loop variable, no `with`, no unpacking."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name | ast.Attribute) for target in node.targets)
    return isinstance(node, ast.AnnAssign | ast.NamedExpr)


def _makes_one_thing(value: ast.expr) -> bool:
    """`insights = build_insights(shop)`: a plural, but nothing was searched for or counted."""
    value = value.value if isinstance(value, ast.Await) else value
    said = words(last(path(value.func))) if isinstance(value, ast.Call) else ()
    return bool(said) and said[0] in (
        "build",
        "make",
        "create",
        "generate",
        "analyse",
        "analyze",
        "summarize",
        "render",
    )


def _by_name(name: str) -> Truth:
    """`order_count`, `rows`, `is_open`: numbers, collections and answers to a question can be falsy."""
    said = words(name)
    if not said:
        return "unknown"
    if said[-1] in _NEVER_EMPTY:
        return "never"
    if said[0] in _PLURAL_VERBS or _NUMBERS & {said[-1]} or said[-1] in ("list", "ids", "queryset", "qs"):
        return "maybe"
    plural = said[-1].endswith("s") and not said[-1].endswith("ss") and said[-1] not in _SINGULAR
    return "maybe" if plural else "unknown"


def _is_text_on_a_hit(flow: Flow) -> bool:
    """`loads(cached)`: the stored form is text, and the text of an empty list is "[]"."""
    return any(
        last(path(call.func))
        in ("loads", "model_validate_json", "parse_raw", "unpackb", "fromisoformat", "decode")
        and any(flow.names & names_in(part) for part in (*call.args, call.func))
        for call in flow.function.calls
    )


def _is_guarded(flow: Flow, value: ast.expr, at: ast.AST) -> bool:
    """Whether the write is reached only with a true value: `if rows: cache.set(...)`, `if not rows: return`."""
    sources = _sources(flow, value, at)
    below = at
    for around in flow.module.up(at):
        if around is flow.function.node:
            break
        if isinstance(around, ast.If) and any(inside(below, s) for s in around.body):
            if any(_is_true(part, sources) for part in _required(around.test)):
                return True
    return any(
        isinstance(test, ast.If)
        and position(test) < position(at)
        and position(test) > position(flow.read.call)
        and not inside(at, test)
        and isinstance(test.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
        and any(_is_false(part, sources) for part in _alternatives(test.test))
        and not _bound_between(flow, sources, test, at)
        for test in flow.function.tests
    )


def _has_parts(flow: Flow, value: ast.expr, at: ast.AST) -> bool:
    """Whether each caller reads a part that an empty value does not have: `return found["tags"], found["rest"]`."""
    if not isinstance(value, ast.Name):
        return False
    bound = flow._last_binding(value.id, at)
    return bound is not None and any(
        isinstance(part.value, ast.Name)
        and part.value.id == value.id
        and isinstance(part.ctx, ast.Load)
        and _is_constant(part.slice)
        and position(part) > position(bound[0])
        and not inside(part, bound[0])
        and _is_always_read(flow, part, at)
        for part in ast.walk(flow.function.node)
        if isinstance(part, ast.Subscript)
    )


def _is_constant(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)


def _is_always_read(flow: Flow, part: ast.AST, at: ast.AST) -> bool:
    """Whether whoever passes the write reads the part, and nobody catches its absence."""
    below = part
    for around in flow.module.up(part):
        if around is flow.function.node:
            return True
        match around:
            case ast.Try(handlers=handlers):
                if any(
                    "Error" in text and _ABSENT.search(text) for h in handlers if (text := ast.unparse(h))
                ):
                    return False
            case ast.BoolOp(values=values) if below is not values[0]:
                return False
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if below is not test:
                if not inside(at, around) or inside(at, test):
                    return False
            case (
                ast.For()
                | ast.AsyncFor()
                | ast.comprehension()
                | ast.ListComp()
                | ast.Lambda()
                | ast.FunctionDef()
                | ast.AsyncFunctionDef()
            ):
                return False
            case _:
                pass
        below = around
    return False


_ABSENT = re.compile(r"except[^:]*(?:KeyError|IndexError|LookupError|TypeError)")


def _bound_between(flow: Flow, names: set[str], test: ast.AST, at: ast.AST) -> bool:
    """Whether one of the names held the read value at the test, and gets another one before the write."""
    return any(
        names & set(bound) & flow.names and position(test) < position(node) < position(at)
        for node, bound, _value in flow.bindings
    )


def _sources(flow: Flow, value: ast.expr, at: ast.AST) -> set[str]:
    """The stored name, and the name that it was converted from: `data = serialise(row)`."""
    names = names_in(value) - {"self", "cls"}
    for _ in range(2):
        names |= {
            name
            for node, bound, source in flow.bindings
            if names & set(bound) and position(node) < position(at) and isinstance(source, ast.Call)
            for argument in source.args
            if isinstance(argument, ast.Name)
            for name in (argument.id,)
        }
    return names


def _required(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _alternatives(test: ast.expr) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]


def _is_true(test: ast.expr, names: set[str]) -> bool:
    match test:
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id="len" | "bool"), args=[ast.Name(id=name)]):
            return name in names
        case ast.Call(func=ast.Name(id="isinstance")):
            return False
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):
            return _is_true(left, names)
        case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            return name in names  # an attribute of the value is asked for: the value is an object
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name))
        ):
            return name in names
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get")):
            return name in names
        case _:
            return False


def _is_false(test: ast.expr, names: set[str]) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_true(operand, names)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return _is_true(left, names)
        case _:
            return False
