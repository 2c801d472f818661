"""One file as the rules see it: its functions and their contents, in source order."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

from stampede_guard.audit.source.words import path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
With = ast.With | ast.AsyncWith
Tested = ast.If | ast.While | ast.IfExp | ast.Assert | ast.Match


@dataclass(eq=False)
class Body:
    """The contents of a function. Functions defined inside it do not count, except their decorators and defaults."""

    calls: list[ast.Call] = field(default_factory=list)
    bindings: list[tuple[ast.AST, list[str], ast.expr]] = field(default_factory=list)
    withs: list[With] = field(default_factory=list)
    tests: list[Tested] = field(default_factory=list)
    awaits: list[ast.AST] = field(default_factory=list)
    loops: list[ast.stmt] = field(default_factory=list)
    loads: list[tuple[str, ast.expr]] = field(default_factory=list)
    compares: list[ast.Compare] = field(default_factory=list)
    stores: list[ast.Subscript] = field(default_factory=list)


class Function:
    """A function. Its body is walked on demand, because rules need few of a file's functions."""

    def __init__(
        self, reader: Reader, node: FunctionNode, outer: Function | None, cls: ast.ClassDef | None
    ) -> None:
        self.reader, self.node, self.outer, self.cls = reader, node, outer, cls
        # The names that it, or a function in it, declares as `global`.
        self.globals: set[str] = set()

    @cached_property
    def body(self) -> Body:
        return self.reader.body_of(self)

    @property
    def calls(self) -> list[ast.Call]:
        return self.body.calls

    @property
    def bindings(self) -> list[tuple[ast.AST, list[str], ast.expr]]:
        return self.body.bindings

    @property
    def withs(self) -> list[With]:
        return self.body.withs

    @property
    def tests(self) -> list[Tested]:
        return self.body.tests

    @property
    def awaits(self) -> list[ast.AST]:
        return self.body.awaits

    @property
    def loops(self) -> list[ast.stmt]:
        return self.body.loops

    @property
    def loads(self) -> list[tuple[str, ast.expr]]:
        return self.body.loads

    @property
    def compares(self) -> list[ast.Compare]:
        return self.body.compares

    @property
    def stores(self) -> list[ast.Subscript]:
        return self.body.stores

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_async(self) -> bool:
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def arguments(self) -> list[ast.arg]:
        spec = self.node.args
        extra = [arg for arg in (spec.vararg, spec.kwarg) if arg]
        return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *extra]

    @property
    def parameters(self) -> set[str]:
        return {argument.arg for argument in self.arguments}

    def chain(self) -> Iterator[Function]:
        """This function, then the functions around it."""
        here: Function | None = self
        while here:
            yield here
            here = here.outer


class Reader(Protocol):
    """Walks the parts of a file on demand."""

    def body_of(self, function: Function) -> Body: ...

    def calls_outside(self) -> list[ast.Call]: ...


@dataclass(eq=False)
class Module:
    """A parsed file. `path` appears in the report; `memo` keeps results that several rules use."""

    path: str
    source: str
    tree: ast.Module
    reader: Reader
    # Complete for statements, decorators, and the bodies walked so far.
    parents: dict[ast.AST, ast.AST]
    owners: dict[ast.AST, Function]
    imports: dict[str, str] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    values: dict[str, ast.expr] = field(default_factory=dict)
    attributes: dict[tuple[str, str], list[tuple[ast.expr, Function | None]]] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call of the file, in source order: walks all of it."""
        inner = [call for function in self.functions for call in function.calls]
        return sorted([*self.calls_outside, *inner], key=position)

    @cached_property
    def calls_outside(self) -> list[ast.Call]:
        """Calls outside all functions."""
        return self.reader.calls_outside()

    def calls_of(self, *names: str) -> list[ast.Call]:
        """The calls of functions and methods with these names. It walks only the functions whose text contains a
        name.
        """
        lines = sorted({line for name in names for line in self._lines_with(_call_of(name))})
        if not lines:
            return []
        inner = [call for function in self._functions_at(lines) for call in function.calls]
        outside = [] if self._are_inside(lines) else self.calls_outside
        return sorted((call for call in (*outside, *inner) if _called(call) in names), key=position)

    def functions_with(self, pattern: re.Pattern[str]) -> list[Function]:
        """The functions whose text matches a pattern, or whose inner functions' text does."""
        known: dict[re.Pattern[str], list[Function]] = self.memo.setdefault("with", {})
        if pattern not in known:
            known[pattern] = self._functions_at(self._lines_with(pattern))
        return known[pattern]

    def _functions_at(self, lines: list[int]) -> list[Function]:
        return [function for function in self.functions if _has_line(function.node, lines)] if lines else []

    def _are_inside(self, lines: list[int]) -> bool:
        """Whether all lines are in bodies of functions. Then the code outside need not be walked."""
        spans = [(_first_inside(f.node), f.node.end_lineno or 0) for f in self.functions if f.outer is None]
        starts = [start for start, _end in spans]
        return all((at := bisect_right(starts, line)) and line <= spans[at - 1][1] for line in lines)

    def _lines_with(self, pattern: re.Pattern[str]) -> list[int]:
        found: list[int] = []
        line, before = 1, 0
        for match in pattern.finditer(self.source):
            line += self.source.count("\n", before, match.start())
            before = match.start()
            found.append(line)
        return found

    def release(self) -> None:
        """Breaks the reference cycles between functions and module. The garbage collector is off during the run."""
        for held in (self.functions, self.owners, self.attributes, self.memo):
            held.clear()

    def up(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the nearest first."""
        parents = self.parents
        here = parents.get(node)
        while here is not None:
            yield here
            here = parents.get(here)

    def statement(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def resolve(self, node: ast.expr | None) -> str:
        """The qualified name that an expression is imported as: `aioredis.from_url` -> redis.asyncio.from_url."""
        dotted = path(node)
        head, dot, rest = dotted.partition(".")
        bare = head.rstrip("()[]")
        known = self.imports.get(bare)
        return f"{known}{head[len(bare) :]}{dot}{rest}" if known else dotted

    def functions_named(self, name: str) -> list[Function]:
        index: dict[str, list[Function]] | None = self.memo.get("by-name")
        if index is None:
            index = {}
            for function in self.functions:
                index.setdefault(function.name, []).append(function)
            self.memo["by-name"] = index
        return index.get(name, [])

    def callee(self, call: ast.Call, function: Function | None) -> Function | None:
        """The function of this file that a call runs: by name, or a method of the same class by `self.`."""
        match call.func:
            case ast.Name(id=name) if name not in self.imports:
                found = [f for f in self.functions_named(name) if f.cls is None or f.outer]
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                cls = owner_class(function)
                found = [f for f in self.functions_named(name) if f.cls is not None and f.cls is cls]
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                found = [f for f in self.functions_named(name) if f.cls is not None and f.cls.name == owner]
            case _:
                found = []
        return found[0] if len(found) == 1 else None

    def uses(self, function: Function) -> list[ast.Call]:
        """Where this file calls one of its own functions."""
        named = self.calls_of(function.name)
        return [call for call in named if self.callee(call, self.owners.get(call)) is function]


@lru_cache(maxsize=2_000)
def _call_of(name: str) -> re.Pattern[str]:
    """It begins with literal text, so that it is searched for as fast as that."""
    return re.compile(rf"{name}(?<!\w{name})[\s\\]*\(")


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _first_inside(node: FunctionNode) -> int:
    """The first line of the body proper. Defaults and annotations belong to the defining scope."""
    head = [*node.args.defaults, *filter(None, node.args.kw_defaults), *filter(None, (node.returns,))]
    ends = [expression.end_lineno or 0 for expression in head]
    return max(node.body[0].lineno, node.lineno + 1, *(end + 1 for end in ends))


def _has_line(node: FunctionNode, lines: list[int]) -> bool:
    first = min((node.lineno, *(decorator.lineno for decorator in node.decorator_list)))
    index = bisect_left(lines, first)
    return index < len(lines) and lines[index] <= (node.end_lineno or 0)


def owner_class(function: Function | None) -> ast.ClassDef | None:
    if function is None:
        return None
    return next((f.cls for f in function.chain() if f.cls is not None), None)


def position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def inside(node: ast.AST, around: ast.AST) -> bool:
    """Whether a node lies in another one, by its place: both are in one file."""
    return (
        (around.lineno, around.col_offset) <= position(node)  # type: ignore[attr-defined]
        and (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
        <= (around.end_lineno, around.end_col_offset)  # type: ignore[attr-defined]
    )


def argument(call: ast.Call, index: int, *names: str) -> ast.expr | None:
    """An argument by its place or by one of its names."""
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    if index < len(call.args) and not any(isinstance(arg, ast.Starred) for arg in call.args[: index + 1]):
        return call.args[index]
    return None


def keyword_names(call: ast.Call) -> set[str]:
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def returns(function: Function) -> list[ast.Return]:
    """The returns of a function, without those of functions inside it."""
    found: list[ast.Return] = []
    stack: list[ast.AST] = list(function.node.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack += ast.iter_child_nodes(node)
    return found
