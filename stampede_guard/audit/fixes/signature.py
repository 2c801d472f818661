"""Whether a function can be cached as it is: can its parameters be a key, and can its result be stored?

Only the declarations in the file count. A missing declaration makes a fix unsafe. Some declarations rule out a fix,
for example a response object that belongs to one caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from stampede_guard.audit.fixes.facts.ambient import ambient
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import last, path

_SCALARS = frozenset(
    "int float str bool bytes None datetime.datetime datetime.date datetime.time datetime.timedelta "
    "decimal.Decimal uuid.UUID".split()
)
_CONTAINERS = frozenset(
    "list dict set tuple frozenset List Dict Set Tuple FrozenSet Sequence Mapping Collection".split()
)
_RECORDS = frozenset("BaseModel Struct NamedTuple TypedDict Enum IntEnum StrEnum".split())
_FACTORIES = frozenset("model_validate model_construct parse_obj from_orm model_validate_json".split())
# They belong to one caller's request: `unkeyed=` states that the result does not depend on them.
_RESOURCE = re.compile(r"(?:Session|Connection|Conn|Pool|Client|Request|Redis|Database|Engine|Logger)$")
_RESOURCE_NAMES = frozenset("db session conn connection request client redis pool logger".split())
# The response itself, or work after the response: the callers of one flight cannot share those.
_ONE_CALLERS = frozenset("Response BackgroundTasks WebSocket".split())
_LIVE = frozenset("QuerySet Iterator Generator AsyncIterator AsyncGenerator Iterable AsyncIterable".split())
_RESPONSES = ("fastapi.", "starlette.", "flask.", "django.http", "sanic.", "litestar.")
_DEEP = 4
# Annotations that say nothing about the class.
_OPEN_KINDS = frozenset(
    "Any Optional Union Literal TypeVar Callable Type T List Dict Set Tuple Sequence Mapping".split()
)


@dataclass
class Cacheability:
    """`possible` is False if no cache decorator fits."""

    possible: bool = True
    why: str = ""
    unkeyed: list[str] = field(default_factory=list)
    of_parameters: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    # Those of the reasons that name what it reads of its caller's request beside its parameters.
    ambient: list[str] = field(default_factory=list)

    def refuse(self, why: str) -> None:
        self.possible, self.why = False, self.why or why


def judge(
    module: Module,
    function: Function,
    *,
    is_route: bool,
    own_key: bool = False,
    left_out: Collection[str] = (),
) -> Cacheability:
    """With a key of its own, parameters need not be key parts, and a method's object is in the key if it decides.
    `left_out` were in no key before, and become `unkeyed`, so they may be of any class.
    """
    verdict = Cacheability()
    if (function.cls is not None and not own_key) or _yields(function.node):
        verdict.refuse(
            "it is a method or a generator: its object or its position would have to be in the key"
        )
        return verdict
    if function.outer is not None and not is_route:
        verdict.reasons.append("each call of the enclosing function defines it again")
    for argument in function.arguments:
        if argument.arg in left_out and _may_be_left_out(function, argument):
            verdict.of_parameters.append(f"{argument.arg} is not part of the key, as before")
        elif not own_key:
            _judge_parameter(module, function, argument, verdict, is_route=is_route)
        elif last(path(_bare(argument.annotation))) in _ONE_CALLERS:
            verdict.refuse(f"{argument.arg} belongs to one caller")
    _judge_result(module, function, verdict, is_route=is_route)
    verdict.ambient += ambient(module, function)
    verdict.reasons += verdict.ambient
    return verdict


def _may_be_left_out(function: Function, argument: ast.arg) -> bool:
    kind = last(path(_bare(argument.annotation)))
    return not (kind in _ONE_CALLERS or kind.endswith("Request") or _depends(function, argument))


def may_be_none(function: Function) -> bool:
    """Whether the annotation allows None. Without an annotation, anything is possible."""
    returns = function.node.returns
    return returns is None or any(
        (isinstance(node, ast.Constant) and node.value is None)
        or (isinstance(node, ast.Name | ast.Attribute) and last(path(node)) == "Optional")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in ast.walk(returns)
    )


def _judge_parameter(
    module: Module, function: Function, argument: ast.arg, verdict: Cacheability, *, is_route: bool
) -> None:
    spec, name = function.node.args, argument.arg
    kind = last(path(_bare(argument.annotation)))
    if kind in _ONE_CALLERS:
        verdict.refuse(f"{name} belongs to one caller")
    elif argument in (spec.vararg, spec.kwarg):
        verdict.of_parameters.append(f"everything in *{name} must be a valid key part")
    elif is_closed(module, argument.annotation, _keyable_class(module)):
        pass
    elif kind.endswith("Request") and any(used == name for used, _node in function.loads):
        verdict.refuse(f"the function uses {name}: callers of different requests would share one value")
    elif _RESOURCE.search(kind) or (argument.annotation is None and name in _RESOURCE_NAMES):
        verdict.unkeyed.append(name)
        verdict.of_parameters.append(f"{name} is not part of the key: the result must not depend on it")
    elif argument.annotation is None and is_route and not _depends(function, argument):
        pass  # a path or query parameter: text
    elif kind[:1].isupper() and kind not in _OPEN_KINDS:
        verdict.refuse(f"{name} would remain a parameter, and {kind} may be no valid key part")
    elif _depends(function, argument):
        verdict.refuse(
            f"{name} would remain a parameter, and what its dependency gives may be no valid key part"
        )
    else:
        verdict.of_parameters.append(f"{name} must be a valid key part")


def _bare(annotation: ast.expr | None) -> ast.expr | None:
    """The inner X of `Annotated[X, ...]` and `X | None`."""
    match annotation:
        case ast.Constant(value=str(text)):
            parsed = _parsed(text)
            return _bare(parsed) if parsed is not None else None
        case ast.Subscript(value=value, slice=inner) if last(path(value)) in ("Annotated", "Optional"):
            return _bare(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
        case ast.BinOp(left=left, op=ast.BitOr()):
            return _bare(left)
        case _:
            return annotation


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _depends(function: Function, argument: ast.arg) -> bool:
    """Whether FastAPI calls something for a parameter: `= Depends(shop)`, `Annotated[Shop, Depends(shop)]`."""
    stated = argument.annotation
    if isinstance(stated, ast.Constant) and isinstance(stated.value, str):
        stated = _parsed(stated.value)
    if isinstance(stated, ast.Subscript) and last(path(stated.value)) == "Annotated":
        if any(_gives(node) for node in ast.walk(stated.slice)):
            return True
    spec = function.node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = list(zip(reversed(positional), reversed(spec.defaults), strict=False))
    pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    return any(known is argument and _gives(value) for known, value in pairs)


def _gives(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last(path(node.func)) in ("Depends", "Security")


# ------------------------------------------------------------------------------------------------- annotations


def is_closed(
    module: Module, node: ast.expr | None, is_known: Callable[[str, int], bool], depth: int = _DEEP
) -> bool:
    """Whether an annotation is complete: Python's own types, at every level, and known classes."""
    match node:
        case ast.Constant(value=value) if value is None or value is ...:
            return True
        case ast.Constant(value=str(text)):
            return is_closed(module, _parsed(text), is_known, depth)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return is_closed(module, left, is_known, depth) and is_closed(module, right, is_known, depth)
        case ast.Subscript(value=value, slice=inner):
            items = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            name = last(path(value))
            if name == "Literal":
                return True
            if name == "Annotated":
                items = items[:1]
            elif name not in _CONTAINERS | {"Optional", "Union"}:
                return False
            return all(is_closed(module, item, is_known, depth) for item in items)
        case ast.Name() | ast.Attribute():
            name = module.resolve(node)
            return name in _SCALARS or is_known(name, depth)
        case _:
            return False


def _record(module: Module, name: str) -> ast.ClassDef | None:
    """A class of this file that has declared fields."""
    found = next((cls for cls in module.classes if cls.name == name), None)
    if found is None:
        return None
    decorated = {last(path(d.func if isinstance(d, ast.Call) else d)) for d in found.decorator_list}
    bases = {last(path(base)) for base in found.bases}
    if "dataclass" in decorated or "define" in decorated or bases & _RECORDS:
        return found
    return found if any(_record(module, base) is not None for base in bases - {name}) else None


def _keyable_class(module: Module) -> Callable[[str, int], bool]:
    def is_known(name: str, depth: int) -> bool:
        record = _record(module, name)
        if record is None or depth == 0:
            return False
        bases = [last(path(base)) for base in record.bases if not isinstance(base, ast.Subscript)]
        if not all(base in _RECORDS | {"str", "int"} or is_known(base, depth - 1) for base in bases):
            return False
        return all(
            is_closed(module, statement.annotation, is_known, depth - 1)
            for statement in record.body
            if isinstance(statement, ast.AnnAssign)
        )

    return is_known


# ------------------------------------------------------------------------------------------------------ results


def _judge_result(module: Module, function: Function, verdict: Cacheability, *, is_route: bool) -> None:
    returned = list(_returned(function.node))
    stated = function.node.returns
    made = [module.resolve(node.func) for node in returned if isinstance(node, ast.Call)]
    inner = ast.walk(stated) if stated is not None else ()
    kinds = [module.resolve(node) for node in inner if isinstance(node, ast.Name | ast.Attribute)]
    kinds += [name for text in _texts(stated) for name in re.findall(r"[\w.]+", text)]
    if any(_is_response(name) for name in (*made, *kinds)) or any(last(name) in _LIVE for name in kinds):
        verdict.refuse("it returns a response, a query or an iterator, which callers cannot share")
        return
    if stated is None:
        verdict.reasons.append("its return type is not declared: then only Python's own types can be stored")
        return
    named: set[str] = set()

    def is_known(name: str, depth: int) -> bool:
        named.add(name)
        known = _record(module, name) is not None
        return known or (is_route and name.partition(".")[0] in _packages(module) and name not in _OPEN)

    if not is_closed(module, stated, is_known):
        verdict.reasons.append("its declared return type does not show whether the result can be stored")
    elif named and not all(_builds(module, function, node, named) for node in returned):
        verdict.reasons.append(
            "it must return its declared type: an object that only resembles it is refused"
        )


_OPEN = frozenset(("typing.Any", "object", "typing.Iterator", "typing.Generator"))


def _texts(stated: ast.expr | None) -> Iterator[str]:
    for node in ast.walk(stated) if stated is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _packages(module: Module) -> set[str]:
    return {name.partition(".")[0] for name in module.imports.values()} - {"typing", "collections"}


def _is_response(name: str) -> bool:
    return name.endswith("Response") and (name.startswith(_RESPONSES) or name.endswith("TemplateResponse"))


def _returned(function: ast.AST) -> Iterator[ast.expr]:
    """Results of the function itself, not of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Return) and child.value is not None:
            yield child.value
        yield from _returned(child)


def _yields(node: ast.AST) -> bool:
    return any(
        isinstance(child, ast.Yield | ast.YieldFrom)
        or (not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and _yields(child))
        for child in ast.iter_child_nodes(node)
    )


def _builds(
    module: Module, function: Function, node: ast.expr, classes: set[str], depth: int = _DEEP
) -> bool:
    """Whether an expression visibly builds objects of these classes, or of none."""
    if depth == 0:
        return False
    match node:
        case ast.Constant():
            return True
        case ast.Call(func=func):
            name = module.resolve(func)
            owner, _, tail = name.rpartition(".")
            return name in classes or (tail in _FACTORIES and owner in classes)
        case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.DictComp(value=item):
            return _builds(module, function, item, classes, depth - 1)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return all(_builds(module, function, item, classes, depth - 1) for item in items)
        case ast.Dict(values=values):
            return all(_builds(module, function, value, classes, depth - 1) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return all(_builds(module, function, part, classes, depth - 1) for part in (body, orelse))
        case ast.Name(id=name):
            bound = [value for _n, names, value in function.bindings if names == [name]]
            return bool(bound) and all(_builds(module, function, v, classes, depth - 1) for v in bound)
        case _:
            return False
