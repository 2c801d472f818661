"""A value that is read, changed and written under the same key: what another process writes in between is lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.fills import accesses_of
from stampede_guard.audit.caching.keys import same_key
from stampede_guard.audit.caching.locks import claims, locks_of
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import names_in, path

_READS = frozenset("get aget hget".split())
_WRITES = frozenset("set aset setex psetex hset".split())
# WATCH, a script or a transaction makes the steps one.
_TOGETHER = frozenset("watch eval evalsha register_script transaction cas gets compare_and_set".split())
_UPDATES = re.compile(r"\.(?:a?set|p?setex|hset)[\s\\]*\(")


@dataclass(frozen=True, eq=False)
class Update:
    function: Function
    read: Access
    write: Access
    how: Literal["counted", "written back"]


def updates(module: Module) -> Iterator[Update]:
    for function in module.functions_with(_UPDATES):
        seen = [access for access in accesses_of(module, function) if access.sure and not access.helper]
        reads = [one for one in seen if one.what == "read" and _method(one) in _READS]
        writes = [one for one in seen if one.what == "write" and _method(one) in _WRITES]
        if not reads or not writes or _is_one_step(module, function):
            continue
        for write in writes:
            found = next((read for read in reads if _is_same_entry(function, read, write)), None)
            how = _how(function, found, write) if found is not None else None
            if found is not None and how is not None and not _is_held(module, function, write):
                yield Update(function, found, write, how)
                break


def _method(access: Access) -> str:
    call = access.call
    return call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""


def _is_same_entry(function: Function, read: Access, write: Access) -> bool:
    if read.receiver != write.receiver or not same_key(function, read.key, write.key):
        return False
    return _version(read.call) == _version(write.call)


def _version(call: ast.expr) -> str:
    """Django's caches have one entry for each version of a key."""
    return (
        ast.dump(version) if isinstance(call, ast.Call) and (version := argument(call, 99, "version")) else ""
    )


def _is_one_step(module: Module, function: Function) -> bool:
    return bool(claims(module, function)) or any(
        isinstance(call.func, ast.Attribute) and call.func.attr in _TOGETHER for call in function.calls
    )


def _is_held(module: Module, function: Function, write: Access) -> bool:
    return any(inside(write.call, node) for node in locks_of(module, function))


def _how(function: Function, read: Access, write: Access) -> Literal["counted", "written back"] | None:
    value = _bare(write.value)
    if value is None:
        return None
    held = {
        name for _node, names, bound in function.bindings if _bare(bound) is read.call for name in names[:1]
    }
    if isinstance(value, ast.Name):
        if value.id in held:
            if _is_added_to(function, value.id, read, write):
                return "counted"
            return "written back" if _is_untouched(function, value.id, read, write) else None
        bound = [
            made
            for node, names, made in function.bindings
            if names == [value.id] and position(node) < position(write.call)
        ]
        value = _bare(bound[-1]) if bound else value
    return "counted" if _is_sum(value, read, held) else None


def _is_sum(value: ast.expr | None, read: Access, held: set[str]) -> bool:
    """`count + 1`, `int(found or 0) + 1`, `cache.get(key, 0) + 1`."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Sub):
        return False
    if not isinstance(value.right, ast.Constant) or not isinstance(value.right.value, int | float):
        return False
    left = value.left
    while isinstance(left, ast.Call) and path(left.func) in ("int", "float") and left.args:
        left = left.args[0]
    if isinstance(left, ast.BoolOp):
        left = left.values[0]
    left = _bare(left) or left
    return left is read.call or (isinstance(left, ast.Name) and left.id in held)


def _is_added_to(function: Function, name: str, read: Access, write: Access) -> bool:
    """`count += 1` or `count = count + 1` in between, and nothing else."""
    added = [
        node
        for node in ast.walk(function.node)
        if isinstance(node, ast.AugAssign)
        and path(node.target) == name
        and isinstance(node.op, ast.Add | ast.Sub)
        and isinstance(node.value, ast.Constant)
        and position(read.call) < position(node) < position(write.call)
    ]
    again = [
        value
        for node, names, value in function.bindings
        if name in names and position(read.call) < position(node) < position(write.call)
    ]
    sums = [value for value in again if _is_sum(value, read, {name})]
    return bool(added or sums) and len(sums) == len(again)


def _is_untouched(function: Function, name: str, read: Access, write: Access) -> bool:
    """Nobody binds the name anew, changes the object, or is given it, between the read and the write."""
    between = [
        node
        for node in ast.walk(function.node)
        if isinstance(node, ast.expr | ast.stmt)
        and position(read.call) < position(node) < position(write.call)
    ]
    for node in between:
        match node:
            case ast.Name(id=said, ctx=ast.Store() | ast.Del()) if said == name:
                return False
            case ast.Attribute(value=ast.Name(id=said)) | ast.Subscript(value=ast.Name(id=said)) if (
                said == name
            ):
                return False
            case ast.Call(args=args, keywords=keywords):
                if any(name in names_in(one) for one in (*args, *(keyword.value for keyword in keywords))):
                    return False
            case ast.For() | ast.AsyncFor() | ast.With() | ast.AsyncWith() | ast.NamedExpr():
                if name in names_in(node):
                    return False
    return True


def _bare(value: ast.expr | None) -> ast.expr | None:
    return value.value if isinstance(value, ast.Await) else value
