"""SG304: a dict of locks that only grows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.fixes.weaklocks import weakly_held
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, names_in, path

_LOCK = re.compile(r"(?:^|\.)(?:Lock|RLock|Semaphore|BoundedSemaphore|Condition|AsyncLock)$")
_BOUNDED = re.compile(
    r"Weak|TTLCache|LRU|lru|Bounded(?!Semaphore)|ExpiringDict|TTLDict|Cache\(|LRUCache|local\(\)"
)
# The node, the dict, the key and the function.
_Growth = tuple[ast.AST, str, ast.expr | None, Function | None]
_REMOVES = frozenset("pop popitem clear".split())


def check(module: Module) -> Iterator[Violation]:
    growths = list(_growths(module))
    shrinking = _shrinking(module) if growths else set()
    for node, holder, key, function in growths:
        if holder in shrinking or not holder or _is_few(module, node, key, function):
            continue
        if key is None and _has_constant_keys(module, holder):
            continue
        if _is_local(holder, function) or _BOUNDED.search(_made(module, node, holder, function)):
            continue
        yield Violation(
            node=node,
            message=f"{holder} gains a lock for every key and loses none: it grows for as long as "
            "the process lives",
            function=function.name if function else "",
        )


def _growths(module: Module) -> Iterator[_Growth]:
    for call in module.calls_of("setdefault", "defaultdict", *_aliases(module)):
        function = module.owners.get(call)
        match call:
            case ast.Call(func=ast.Attribute(value=holder, attr="setdefault"), args=[key, value]):
                if _is_lock(module, value):
                    yield call, path(holder), key, function
            case ast.Call(func=func, args=[factory, *_]) if module.resolve(func) == "collections.defaultdict":
                if _is_factory(module, factory):
                    yield call, _assigned(module, call), None, function
            case _:
                pass
    for function in module.functions_with(
        re.compile("|".join(("Lock", "Semaphore", "Condition", *_aliases(module))))
    ):
        locals_ = {
            name for _n, names, value in function.bindings if _is_lock(module, value) for name in names
        }
        for store in function.stores:
            parent = module.parents.get(store)
            if not isinstance(parent, ast.Assign) or not isinstance(store.ctx, ast.Store):
                continue
            made = parent.value
            if _is_lock(module, made) or (isinstance(made, ast.Name) and made.id in locals_):
                yield store, path(store.value), store.slice, function


def _aliases(module: Module) -> list[str]:
    """The file's own names for a lock, or for a defaultdict."""
    return [
        re.escape(name)
        for name, known in module.imports.items()
        if known == "collections.defaultdict" or _LOCK.search(known)
    ]


def _is_lock(module: Module, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and bool(_LOCK.search(module.resolve(value.func)))


def _is_factory(module: Module, made: ast.expr) -> bool:
    if isinstance(made, ast.Lambda):
        return _is_lock(module, made.body)
    if isinstance(made, ast.Call) and module.resolve(made.func) == "functools.partial" and made.args:
        return _is_factory(module, made.args[0])
    return bool(_LOCK.search(module.resolve(made))) or _is_bucket(module, made)


def _is_bucket(module: Module, made: ast.expr) -> bool:
    """A class of this file whose objects keep locks: `self.sending = asyncio.Lock()`."""
    if not isinstance(made, ast.Name) or not any(cls.name == made.id for cls in module.classes):
        return False
    kept = [found for (cls, _attribute), found in module.attributes.items() if cls == made.id]
    return any(_is_lock(module, value) for values in kept for value, _function in values)


def _assigned(module: Module, call: ast.Call) -> str:
    parent = module.parents.get(call)
    match parent:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return path(target)
        case ast.keyword():
            field = next((n for n in module.up(call) if isinstance(n, ast.AnnAssign)), None)
            return f"self.{path(field.target)}" if field is not None else ""
        case _:
            return ""


def _shrinking(module: Module) -> set[str]:
    """The dicts from which keys are removed."""
    found = {
        path(call.func.value)
        for call in module.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _REMOVES
    }
    for function in module.functions:
        found |= {path(store.value) for store in function.stores if isinstance(store.ctx, ast.Del)}
        found |= {name for scope in (function,) for name in _rebound(scope)}
    return found


def _rebound(function: Function) -> Iterator[str]:
    """`self._locks = {k: v for ...}` outside __init__ removes keys, too."""
    if function.name in ("__init__", "__new__", "__post_init__"):
        return
    for statement in ast.walk(function.node):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.DictComp):
            yield from (path(target) for target in statement.targets)


def _is_few(module: Module, node: ast.AST, key: ast.expr | None, function: Function | None) -> bool:
    """A fixed set of keys: constants, or a loop at start-up."""
    if isinstance(key, ast.Constant) or last(path(key)).isupper():
        return True
    if function is None or key is None:
        return False
    loops = [around for around in module.up(node) if isinstance(around, ast.For)]
    return any(names_in(loop.target) & names_in(key) for loop in loops) or "loop" in path(key)


def _has_constant_keys(module: Module, holder: str) -> bool:
    """Whether the file uses a defaultdict only with constant keys: `self.locks["new_block"]`."""
    name, keys = last(holder), list[ast.expr]()
    for node in ast.walk(module.tree):
        said = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if (
            said != name
            or not isinstance(node, ast.Name | ast.Attribute)
            or not isinstance(node.ctx, ast.Load)
        ):
            continue
        used = module.parents.get(node)
        if not isinstance(used, ast.Subscript) or used.value is not node:
            return False  # a caller gets the dict, and its keys are not seen here
        keys.append(used.slice)
    return bool(keys) and all(isinstance(key, ast.Constant) for key in keys)


def _is_local(holder: str, function: Function | None) -> bool:
    """Whether the dict belongs to one call."""
    if function is None or "." in holder:
        return False
    globals_ = {
        name for n in ast.walk(function.node) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names
    }
    bound = {name for _n, names, _v in function.bindings for name in names}
    return holder in bound - globals_ and "[" not in holder


def _made(module: Module, node: ast.AST, holder: str, function: Function | None) -> str:
    try:
        expression = ast.parse(holder.replace("[]", "").replace("()", ""), mode="eval").body
    except SyntaxError:
        return ""
    cls = owner_class(function)
    written = [
        value for value, _f in module.attributes.get((cls.name if cls else "", holder.rpartition(".")[2]), ())
    ]
    written += [module.values[holder]] if holder in module.values else []
    return " ".join([origin(module, expression, function), *(ast.unparse(value) for value in written)])


RULE = Rule(
    code="SG304",
    name="unbounded-lock-dict",
    summary="a dict of locks that only grows (weak dictionaries are fine)",
    confidence="high",
    level="information",
    scope="process",
    hints=(
        (b"Lock(", b"Lock)", b"Semaphore(", b"Semaphore,", b"Condition("),
        (b"setdefault(", b"defaultdict(", re.compile(rb"\] = [\w.]*(?:[lL]ock|[sS]emaphore|[cC]ondition)")),
    ),
    check=check,
    fix=weakly_held,
    fixes=("safe", "unsafe"),
    documentation=Documentation(
        what="A dict keeps one lock per key, and no key is ever removed.",
        why="One lock per user, URL or report is one entry per user, URL or report for the life of the "
        "process.",
        example="lock = locks.setdefault(key, asyncio.Lock())",
        instead="locks = weakref.WeakValueDictionary()   # the lock lives as long as a caller holds it",
        unless="The keys are few and fixed: constants and loops at start-up are not reported.",
        sure="High, and information: it fails no build. The whole file is searched for a removal.",
        fix="Safe: an empty dict, or a defaultdict, of asyncio's locks becomes a "
        "`weakref.WeakValueDictionary()`. Every lock must be taken with `async with`, directly from "
        "the dict or through a local name. Unsafe if the dict's name is public: another module may "
        "read it. None for locks of threads, which need one more step. None if a lock is returned, "
        "acquired by hand or stored by `locks[key] = ...`: no reference might keep it alive.",
    ),
)
