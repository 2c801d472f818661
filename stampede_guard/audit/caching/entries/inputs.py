"""What flows into an expression inside one function: its parameters, attributes of `self`, parts of the request.

Each name is looked up once, with everything that the function ever gives it before a place. That takes more than the
value at that place, so what flows into a key is never taken too narrowly.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from stampede_guard.audit.source.model import Function, FunctionNode, Module, position
from stampede_guard.audit.source.words import last, path

_GROWS = frozenset("append extend update add insert setdefault appendleft add_many".split())
_LOGS = frozenset(("logger", "log", "logging", "LOG", "LOGGER", "print", "warnings", "metrics", "statsd"))
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What the parts of a request are read from: `request.GET`, `self.request.user`.
_REQUESTS = ("request", "req", "self.request")
_Given = tuple[ast.AST, tuple[ast.expr, ...]]


class Inputs:
    """What one function gives its names, and those of the functions around it."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.given: dict[str, list[_Given]] = {}
        self.inner: dict[str, FunctionNode] = {}
        self.parameters: set[str] = set()
        for scope in function.chain():
            self.parameters |= scope.parameters
            for node in _own(scope):
                self._record(node)

    def of(
        self,
        parts: Iterable[ast.expr],
        until: tuple[int, int],
        aside: Collection[ast.AST] = (),
        without: Collection[str] = (),
    ) -> set[str]:
        """The inputs of these expressions: by what names get before a place, without some statements and names."""
        found: set[str] = set()
        waiting: list[ast.AST] = list(parts)
        seen = set(without)
        while waiting:
            for name in self._atoms(waiting.pop()):
                if name in seen:
                    continue
                seen.add(name)
                if self._is_input(name):
                    found.add(name)
                for where, values in self.given.get(name, ()):
                    if position(where) < until and where not in aside:
                        waiting += values
        return found

    def _is_input(self, name: str) -> bool:
        if "." in name:
            return True
        return name in self.parameters or name in ("current_user",)

    def _record(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(node, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(node, target, value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._assign(node, target, value)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._assign(node, target, value)
            case ast.comprehension(target=target, iter=value):
                self._assign(value, target, value)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        self._assign(node, item.optional_vars, item.context_expr)
            case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args, keywords=keywords):
                if attr in _GROWS and (name := _root(owner)):
                    self._give(name, node, *args, *(keyword.value for keyword in keywords))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.inner[node.name] = node
            case _:
                pass

    def _assign(self, node: ast.AST, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), ast.Tuple(elts=values)) if len(
                targets
            ) == len(values):
                for one, other in zip(targets, values, strict=True):
                    self._assign(node, one, other)
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
                for one in targets:
                    self._assign(node, one, value)
            case ast.Starred(value=inner), _:
                self._assign(node, inner, value)
            case ast.Subscript(slice=index), _:
                self._give(_root(target), node, value, index)
            case _:
                self._give(_root(target), node, value)

    def _give(self, name: str, node: ast.AST, *values: ast.expr) -> None:
        if name:
            self.given.setdefault(name, []).append((node, values))

    def _atoms(self, node: ast.AST) -> Iterator[str]:
        stack: list[ast.AST] = [node]
        bound: set[str] = set()
        entered: set[str] = set()
        while stack:
            here = stack.pop()
            match here:
                case ast.Call(func=func, args=args, keywords=keywords):
                    if _root(func) in _LOGS:
                        continue
                    if last(path(func)).endswith("_or_404") and keywords:
                        stack += (
                            keywords  # `get_object_or_404(Project.visible_for(user), slug=slug)`: a right
                        )
                        continue
                    stack += [*args, *keywords]
                    if isinstance(func, ast.Name):
                        stack += self._inside(func.id, entered)
                        continue
                    if isinstance(func, ast.Attribute) and self._is_request(func.value):
                        yield from self._part(func)
                        continue
                    stack.append(func.value if isinstance(func, ast.Attribute) else func)
                case ast.Attribute():
                    name = _dotted(here)
                    if name:
                        yield from self._part(here)
                    else:
                        stack.append(here.value)
                case ast.Name(id=name):
                    stack += self._inside(name, entered)
                    if name not in bound:
                        yield name
                case ast.Lambda(args=spec, body=body):
                    bound |= {one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
                    stack.append(body)
                case _:
                    stack += ast.iter_child_nodes(here)

    def _is_request(self, node: ast.expr) -> bool:
        """`request` of a view, not a response that is called `req`."""
        said = path(node)
        return said in _REQUESTS and (said == "self.request" or said not in self.given)

    def _inside(self, name: str, entered: set[str]) -> list[ast.stmt]:
        """The body of a function that is defined in this one; once."""
        inner = self.inner.get(name)
        if inner is None or name in entered:
            return []
        entered.add(name)
        return inner.body

    def _part(self, node: ast.Attribute) -> Iterator[str]:
        """`self.region`, `request.GET`; of other objects, the object."""
        parts = _dotted(node).split(".")
        if parts[0] in ("self", "cls"):
            yield ".".join(("self", *parts[1 : 3 if parts[1] in ("request", "req") else 2]))
        elif self._is_request(ast.Name(parts[0])):
            yield f"request.{parts[1]}"
        else:
            yield parts[0]


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function, without the contents of functions inside it."""
    stack: list[ast.AST] = list(reversed(function.node.body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*_DEFS, ast.ClassDef)):
            stack += reversed(list(ast.iter_child_nodes(node)))


def _root(node: ast.expr) -> str:
    """The name that changes with a target: `filters["day"]` and `query.day` are parts of `filters` and `query`."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            return f"self.{node.attr}"
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> str:
    """`request.user.id`; "" if something else than names and dots is in it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
