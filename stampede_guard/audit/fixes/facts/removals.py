"""Other code of the file that uses the old cache's entries: it would neither reach nor see those of a new one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import Fill, accesses_of
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.plan import NoFix
from stampede_guard.audit.source.model import Function, Module, inside
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, names_in, path, words

_REMOVES = frozenset(
    "delete adelete unlink delete_many adelete_many delete_multi delete_pattern adelete_pattern "
    "delete_match delete_tags delete_memoized delete_memoized_verhash invalidate invalidate_func "
    "invalidate_further evict remove clear aclear purge flush flushdb flushall flush_all expire pexpire "
    "expireat pexpireat persist touch atouch incr decr rename getdel getex".split()
)
_FIELD = re.compile(r"%\(?\w*\)?[-\d.]*[a-z]|\{\w*\}")


def refuse_removed(module: Module, package: str, decorator: ast.expr) -> str:
    """Raises `NoFix` if the file removes entries of a library's caches. Returns what to review if it removes others, of
    a cache that may be the same: "" if it removes none.
    """
    own = path(decorator.func if isinstance(decorator, ast.Call) else decorator)
    doubtful = ""
    for call in _removing(module):
        where = module.owners.get(call)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        made = origin(module, receiver, where) or module.resolve(receiver)
        if f".{package}." in f".{made}." or path(receiver) == own or "FastAPICache" in made:
            raise NoFix(f"line {call.lineno} removes entries of this cache: it would not reach the new ones")
        if not doubtful and _is_a_cache(module, receiver, where):
            doubtful = (
                f"line {call.lineno} removes entries of a cache: if they are these, it would not reach them"
            )
    return doubtful


def refuse_used(module: Module, fill: Fill, said: str) -> None:
    """Raises `NoFix` if the file removes such keys, or names them in other functions. `said`: a text of the key."""
    for call in _removing(module):
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        where = module.owners.get(call)
        if path(receiver) == fill.read.receiver or _is_a_cache(module, receiver, where):
            raise NoFix("the same file deletes, expires or counts keys of that client, or of another one")
    line = _said_in_line(module, fill.function, said) if said else 0
    if line:
        raise NoFix(f"line {line} names keys with {said!r}, too: it would not see the new entries")
    texts, names = _pieces(module, fill.function, fill.read.key)
    for function in module.functions:
        if function is fill.function or inside(function.node, fill.function.node):
            continue
        for access in accesses_of(module, function):
            others, more = _pieces(module, function, access.key)
            same = texts & others or names & more
            if same or (not texts | names and access.receiver == fill.read.receiver):
                raise NoFix(
                    f"{function.name} reads or stores such keys, too: it would not see the new entries"
                )


def _removing(module: Module) -> Iterator[ast.Call]:
    return (call for call in module.calls if last(path(call.func)) in _REMOVES)


def _is_a_cache(module: Module, receiver: ast.expr, function: Function | None) -> bool:
    """Also a pipeline of one."""
    return kind(module, receiver, function) == "cache" or bool(
        {"pipe", "pipeline"} & set(words(last(path(receiver))))
    )


def _said_in_line(module: Module, function: Function, said: str) -> int:
    """The line of another text of the file that contains the text of the key."""
    documents = {
        id(node.value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and said in node.value:
            if id(node) not in documents and not inside(node, function.node):
                return node.lineno
    return 0


def _pieces(module: Module, function: Function, key: tuple[ast.expr, ...]) -> tuple[set[str], set[str]]:
    """The constant texts of a key, and the names of the file that it uses: `KEY % day`, `day_key(day)`."""
    left, texts, names = list(key), set[str](), set[str]()
    while left:
        part = left.pop()
        for node in ast.walk(part):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts |= {text for text in _FIELD.split(node.value) if any(map(str.isalpha, text))}
        for name in names_in(part) - names - function.parameters:
            made = [value for _n, bound, value in function.bindings if bound == [name] and value is not part]
            names.add(name)
            left += made[:1]
    return texts, {name for name in names if name in module.values or module.functions_named(name)}
