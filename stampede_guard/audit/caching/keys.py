"""Whether two accesses mean the same key."""

from __future__ import annotations

import ast
from typing import Protocol

from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import Function, position
from stampede_guard.audit.source.words import names_in, path, text_of


class Keyed(Protocol):
    """A read or a write, with its key."""

    @property
    def call(self) -> ast.expr: ...
    @property
    def key(self) -> tuple[ast.expr, ...]: ...


_TELLING = 4  # letters: from this length on, the constant part of a key names a family


def same_key(function: Function, one: tuple[ast.expr, ...], other: tuple[ast.expr, ...]) -> bool:
    if len(one) != len(other) or not one:
        # hget(name, field) and hset(name, mapping=...) share the name
        return bool(one and other) and _same(function, one[0], other[0]) and len(one) + len(other) == 3
    return all(_same(function, a, b) for a, b in zip(one, other, strict=True))


def gets_another_key(function: Function, read: Keyed, write: Keyed) -> bool:
    """Whether a name in both keys is bound to something new in between: `task_id = export.delay(path).id`."""
    told = _plain_names(read.key) & _plain_names(write.key)
    if not told:
        return False
    known = {
        ast.dump(value)
        for node, names, value in function.bindings
        if told & {*names} and position(node) <= position(read.call)
    }
    return any(
        isinstance(node, ast.Assign | ast.AnnAssign)
        and told & {*names}
        and position(read.call) < position(node) < position(write.call)
        and not told & names_in(value)
        and "key" not in path(value).lower()
        and ast.dump(value) not in known
        and calls_work(value)
        for node, names, value in function.bindings
    )


def _plain_names(key: tuple[ast.expr, ...]) -> set[str]:
    """The names of a key, without those of which only an attribute is used."""
    parts = [node for part in key for node in ast.walk(part)]
    bases = {id(node.value) for node in parts if isinstance(node, ast.Attribute)}
    return {node.id for node in parts if isinstance(node, ast.Name) and id(node) not in bases}


def _same(function: Function, one: ast.expr, other: ast.expr) -> bool:
    if _text(one) == _text(other):
        return True
    return bool(_meanings(function, one) & _meanings(function, other)) or _same_shape(function, one, other)


def _same_shape(function: Function, one: ast.expr, other: ast.expr) -> bool:
    """`f"user:{id}"` and `f"user:{user.id}"`, `key_of(id)` and `key_of(user.id)`: one family of keys."""
    first = {shape for value in _values(function, one) if (shape := _shape(value))}
    return any(_shape(value) in first for value in _values(function, other))


def _values(function: Function, node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Name):
        for scope in function.chain():
            found = [value for _n, names, value in scope.bindings if names == [node.id]]
            if found:
                return found
    return [node]


def _shape(node: ast.expr) -> str:
    match node:
        case ast.JoinedStr(values=values):
            said = "|".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
            return said if sum(character.isalpha() for character in said) >= _TELLING else ""
        case ast.Call(func=func) if "key" in path(func).rpartition(".")[2].lower():
            return path(func)
        case _:
            return ""


def skeleton(function: Function, key: ast.expr) -> str:
    """A key without its variable parts: the constants of an f-string, or the function or name that builds the key."""
    if isinstance(key, ast.Name):
        bound = [value for _node, names, value in function.bindings if names == [key.id]]
        key = bound[-1] if bound else key
    match key:
        case ast.JoinedStr(values=values):
            return " ".join(str(part.value) for part in values if isinstance(part, ast.Constant))
        case ast.Call(func=func):
            return text_of(func)
        case _:
            return text_of(key)


def _meanings(function: Function, node: ast.expr, depth: int = 2) -> set[str]:
    """The spellings that an expression may stand for: itself and the values of its name."""
    found = {_text(node)}
    bare = _bare(node)
    if bare is not node:
        found |= _meanings(function, bare, depth)
    if isinstance(node, ast.Name) and depth:
        for scope in function.chain():
            values = [value for _n, names, value in scope.bindings if names == [node.id]]
            for value in values:
                found |= _meanings(scope, value, depth - 1)
            if values:
                break
    return found


def _bare(node: ast.expr) -> ast.expr:
    """`str(key)`, `key.encode()`: the key."""
    match node:
        case ast.Call(func=ast.Name(id="str" | "smart_str"), args=[only]):
            return only
        case ast.Call(func=ast.Attribute(value=inner, attr="encode" | "strip" | "lower")):
            return inner
        case ast.Await(value=inner):
            return inner
        case _:
            return node


def _text(node: ast.expr) -> str:
    return ast.dump(node).replace("Store()", "Load()")
