"""How a file would write `locked_cache` or `fill_lock`: by a guard or a name that it has already, or with an import."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stampede_guard.audit.fixes.facts.constants import settled, settled_imports
from stampede_guard.audit.plan import Import
from stampede_guard.audit.source.model import FunctionNode, Module

_PACKAGE, _NAME, _FILLS = "stampede_guard", "locked_cache", "fill_lock"
_GUARDS = ("stampede_guard.StampedeGuard", "stampede_guard.StampedeGuard.from_url")


@dataclass(frozen=True)
class Name:
    code: str
    imports: tuple[Import, ...] = ()


def locked_cache(module: Module, function: FunctionNode) -> Name | None:
    """None if the name means something else in the file."""
    guard = _guard_above(module, function)
    if guard is not None:
        return Name(f"{guard}.{_NAME}")
    known = _imported(module, _NAME, before=_first_line(function))
    if known is not None:
        return known
    if _is_taken(module):
        return None
    return Name(_NAME, (Import(_PACKAGE, _NAME),))


def fill_lock(module: Module) -> Name | None:
    """None if the name means something else in the file."""
    known = _imported(module, _FILLS)
    if known is not None:
        return known
    local = {bound for function in module.functions for _n, names, _v in function.bindings for bound in names}
    if _FILLS in {*_others(module, _FILLS), *_bound(module), *local}:
        return None
    return Name(_FILLS, (Import(_PACKAGE, _FILLS),))


def means_module(module: Module, name: str) -> bool:
    """Whether a module of the standard library can be used by its own name: it is imported, or the name is free."""
    if name in module.imports:
        return module.imports[name] == name
    local = {bound for function in module.functions for _n, names, _v in function.bindings for bound in names}
    return name not in _bound(module) | local


def _guard_above(module: Module, function: FunctionNode) -> str | None:
    first = _first_line(function)
    for name in module.values:
        value = settled(module, name)
        if isinstance(value, ast.Call) and value.lineno < first and module.resolve(value.func) in _GUARDS:
            return name
    return None


def _first_line(function: FunctionNode) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _imported(module: Module, name: str, before: int | None = None) -> Name | None:
    """By an import of the module that runs in any case, in a line above."""
    for bound, meant, line in settled_imports(module):
        if before is not None and line >= before:
            continue
        if meant == f"{_PACKAGE}.{name}":
            return Name(bound, (Import(_PACKAGE, name),) if bound == name else ())
        if meant == _PACKAGE:
            return Name(f"{bound}.{name}")
    return None


def _others(module: Module, name: str) -> set[str]:
    """The names that the file imports, without one that means the right thing where it is seen."""
    return {bound for bound, meant in module.imports.items() if meant != f"{_PACKAGE}.{name}"}


def _is_taken(module: Module) -> bool:
    return _NAME in {*_others(module, _NAME), *_bound(module)}


def _bound(module: Module) -> set[str]:
    bound = {*module.values, *(cls.name for cls in module.classes)}
    bound |= {function.name for function in module.functions}
    return bound | {parameter for function in module.functions for parameter in function.parameters}
