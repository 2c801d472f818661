"""Converts lifetimes of other libraries to seconds: `60`, `60 * 5`, "1h30m", `timedelta(minutes=5)`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from datetime import timedelta

from stampede_guard.audit.fixes.facts.constants import settled
from stampede_guard.audit.source.model import Module, argument
from stampede_guard.audit.source.words import path

# For a cache without a lifetime. It is short enough to be noticed, and the fix always asks for a review.
GUESSED = 300
_TEXT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86_400, 3_600, 60, 1)


@dataclass(frozen=True)
class LifetimeCode:
    """`code` is an expression in seconds. `sure` is False if the file does not show that."""

    code: str
    sure: bool = True


def seconds(module: Module, node: ast.expr) -> LifetimeCode | None:
    """None if the node states no lifetime: None, 0, or an expression that depends on the value."""
    match node:
        case ast.Constant(value=bool()) | ast.Constant(value=None):
            return None
        case ast.Constant(value=int() | float() as value):
            return LifetimeCode(ast.unparse(node)) if value > 0 else None
        case ast.Constant(value=str(text)):
            return _of_text(text)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add(), right=right):
            parts = [seconds(module, left), seconds(module, right)]
            if None in parts or _has_units(node):
                return None
            return LifetimeCode(_source(module, node), all(part is not None and part.sure for part in parts))
        case ast.Call(func=func) if module.resolve(func) == "datetime.timedelta":
            return _of_delta(module, node)
        case ast.Name(id=name) if (stated := settled(module, name)) is not None:
            known = seconds(module, stated)
            if known is None:
                return None
            return LifetimeCode(_in_seconds(module, stated, name), known.sure)
        case ast.Name() | ast.Attribute() if path(node):
            return LifetimeCode(_source(module, node), sure=False)
        case ast.Call(func=ast.Attribute(value=ast.Call(func=made), attr="total_seconds"), args=[]):
            return LifetimeCode(_source(module, node), sure=module.resolve(made) == "datetime.timedelta")
        case _:
            return LifetimeCode(_source(module, node), sure=False)


def stored_for(module: Module, call: ast.expr) -> LifetimeCode | None:
    """What a set says: `redis.set(key, value, ex=60)`."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in ("setex", "psetex"):
        stated = argument(call, 1, "time", "time_ms")
    else:
        stated = argument(call, 2, "ex", "px", "ttl", "timeout", "expire", "time", "expiration")
    found = seconds(module, stated) if stated is not None else None
    in_ms = call.func.attr == "psetex" or any(keyword.arg == "px" for keyword in call.keywords)
    if found is None or not in_ms or not isinstance(stated, ast.Constant):
        return found if not in_ms or found is None else LifetimeCode(f"({found.code}) / 1000", found.sure)
    return LifetimeCode(f"{int(found.code) / 1000:g}", found.sure)


def _of_text(text: str) -> LifetimeCode | None:
    """cashews' notation."""
    found = _TEXT.fullmatch(text.replace(" ", ""))
    if found is None:
        return LifetimeCode(text) if text.isdigit() and int(text) > 0 else None
    total = sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS, strict=True))
    return LifetimeCode(str(total)) if total else None


def _of_delta(module: Module, node: ast.Call) -> LifetimeCode:
    numbers = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    numbers |= dict(zip(("days", "seconds", "microseconds", "milliseconds"), node.args, strict=False))
    values = {
        name: value.value
        for name, value in numbers.items()
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    }
    if len(values) == len(node.args) + len(node.keywords):
        total = timedelta(**values).total_seconds()
        if total > 0:
            return LifetimeCode(f"{total:g}" if total != int(total) else str(int(total)))
    return LifetimeCode(f"{_source(module, node)}.total_seconds()")


def _in_seconds(module: Module, value: ast.expr, name: str) -> str:
    """The name of a module's constant, or the value in seconds if the constant is not a number."""
    if isinstance(value, ast.Call) and module.resolve(value.func) == "datetime.timedelta":
        return f"{name}.total_seconds()"
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        known = _of_text(value.value)
        return known.code if known is not None else name
    return name


def _has_units(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node)) or any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node)
    )


def _source(module: Module, node: ast.expr) -> str:
    return ast.get_source_segment(module.source, node) or ast.unparse(node)
