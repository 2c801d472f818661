"""SG304: a dict of locks becomes a weak dict, which keeps a lock while a caller holds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.fixes.facts.texts import source
from stampede_guard.audit.fixes.naming import means_module
from stampede_guard.audit.plan import Edit, FixPlan, Import, NoFix, Replace, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.words import last, path

# Not locks of threading: WeakValueDictionary.setdefault takes several steps, and another thread may run in between.
_LOCKS = frozenset(f"asyncio.{name}" for name in ("Lock", "Semaphore", "BoundedSemaphore", "Condition"))
_WEAK = "weakref.WeakValueDictionary"


def weakly_held(module: Module, hit: Violation) -> FixPlan | None:
    """`locks = {}` becomes `locks = weakref.WeakValueDictionary()`, if each lock is taken where it is looked up.

    A lock that is acquired by hand must not be in a weak dict:

    1. `await locks.setdefault(key, Lock()).acquire()`: the lock is taken, and no reference keeps the object.
    2. The object disappears.
    3. The next caller gets a new lock.

    So a lock may be weak only if `async with` takes it, directly or by a local name.
    """
    holder = _holder(module, hit.node)
    made = _made(module, holder) if holder else None
    if made is None or not means_module(module, "weakref"):
        return None
    value, annotation = made
    factory = _factory(module, value)
    edits: list[Edit] = [Replace(Span.of(value), f"{_WEAK}()"), Import("weakref", "")]
    if annotation is not None:
        known = _annotated(module, annotation)
        if known is None:
            return None
        edits.append(Replace(Span.of(annotation), known))
    for use in _uses(module, holder):
        if use is _target(module, value):
            continue
        looked = module.parents.get(use)
        if isinstance(looked, ast.Subscript) and factory and isinstance(looked.ctx, ast.Load):
            code = f"{source(module, use)}.setdefault({source(module, looked.slice)}, {factory}())"
            edits.append(Replace(Span.of(looked), code))
        else:
            looked = _setdefault(module, looked)
        if not isinstance(looked, ast.expr) or not _is_held(module, looked):
            raise NoFix(
                f"line {use.lineno} uses {holder} otherwise than `async with`: a weak dict may drop a lock in use"
            )
    private = last(holder).startswith("_")
    reasons = () if private else ("another module may read the dict: it contains only locks that are in use",)
    return FixPlan(edits=tuple(edits), reasons=reasons, private=last(holder))


def _holder(module: Module, node: ast.AST) -> str:
    """The dict of a finding: `locks.setdefault(...)`, `locks = defaultdict(...)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
        return path(node.func.value)
    parent = module.parents.get(node)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return path(target)
        case _:
            return ""


def _made(module: Module, holder: str) -> tuple[ast.expr, ast.expr | None] | None:
    """The expression that creates the dict, if there is only one, and its annotation: an empty dict, or a
    defaultdict of locks.
    """
    found: list[tuple[ast.expr, ast.expr | None]] = []
    for node in _all(module):
        match node:
            case ast.Assign(targets=[target], value=value) if path(target) == holder:
                found.append((value, None))
            case ast.AnnAssign(target=target, value=value, annotation=annotation) if path(target) == holder:
                if value is None:
                    return None
                found.append((value, annotation))
            case _:
                pass
    if len(found) != 1:
        return None
    value = found[0][0]
    empty = isinstance(value, ast.Dict) and not value.keys
    empty = empty or (
        isinstance(value, ast.Call) and path(value.func) == "dict" and not value.args + value.keywords
    )
    return found[0] if empty or _factory(module, value) else None


def _factory(module: Module, value: ast.expr) -> str:
    """The lock factory of `defaultdict(asyncio.Lock)`."""
    match value:
        case ast.Call(func=func, args=[factory], keywords=[]) if (
            module.resolve(func) == "collections.defaultdict" and module.resolve(factory) in _LOCKS
        ):
            return source(module, factory)
        case _:
            return ""


def _annotated(module: Module, annotation: ast.expr) -> str | None:
    match annotation:
        case ast.Subscript(value=kind, slice=inner) if last(module.resolve(kind)) in (
            "dict",
            "Dict",
            "defaultdict",
        ):
            text = source(module, inner)
            return f"{_WEAK}[{text}]"
        case _:
            return None


def _uses(module: Module, holder: str) -> Iterator[ast.expr]:
    """All uses of the dict. For `self.locks`, all uses of an attribute with that name."""
    name = last(holder)
    for node in _all(module):
        if isinstance(node, ast.Attribute | ast.Name) and last(path(node)) == name:
            yield node


def _target(module: Module, value: ast.expr) -> ast.expr | None:
    match module.parents.get(value):
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return target
        case _:
            return None


def _setdefault(module: Module, around: ast.AST | None) -> ast.expr | None:
    call = module.parents.get(around) if isinstance(around, ast.Attribute) else None
    match call:
        case ast.Call(func=ast.Attribute(attr="setdefault") as func, args=[_key, ast.Call(func=made)]) if (
            func is around and module.resolve(made) in _LOCKS
        ):
            return call
        case _:
            return None


def _is_held(module: Module, lock: ast.expr) -> bool:
    """Whether the lock is taken by `async with lock:`, or has a local name that only such a statement uses."""
    parent = module.parents.get(lock)
    if isinstance(parent, ast.withitem):
        return True
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            function = next(
                (n for n in module.up(lock) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None
            )
            if function is None or any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(function)):
                return False
            loads = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
            return all(
                isinstance(n.ctx, ast.Store) or isinstance(module.parents.get(n), ast.withitem) for n in loads
            )
        case _:
            return False


def _all(module: Module) -> list[ast.AST]:
    """Every node, with its parents recorded."""
    known: list[ast.AST] | None = module.memo.get("all-nodes")
    if known is None:
        known = module.memo["all-nodes"] = list(ast.walk(module.tree))
        for node in known:
            for inner in ast.iter_child_nodes(node):
                module.parents[inner] = node
    return known
