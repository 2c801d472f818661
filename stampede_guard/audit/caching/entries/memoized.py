"""`delete_memoized(feed, user)`: it deletes the entry of exactly these arguments, the others with their defaults."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from stampede_guard.audit.caching.imported import built, follow
from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.words import last, path

_STARRED = re.compile(r"^from\s+([\w.]+)\s+import\s+\*", re.M)
_BRIEF = 60  # seconds
_LARGEST = 400_000  # characters of such a file
_FILES = 40  # files of starred imports that are searched for one name


@dataclass(frozen=True, eq=False)
class PartialDeletion:
    function: Function
    call: ast.Call
    # The memoized function as written, and its parameters that the deletion leaves at their defaults.
    target: str
    left: tuple[str, ...]
    # Keywords that are no parameters: no call has them.
    unknown: tuple[str, ...]
    # How long an entry lives, in seconds, if its decorator says it.
    lifetime: float | None


@dataclass(frozen=True)
class _Memoized:
    """The facts about a memoized function that its callers need, without the syntax tree of its file."""

    names: tuple[str, ...]
    defaulted: tuple[str, ...]
    known: frozenset[str]
    takes_more: bool
    # What the calls in its own file pass.
    passed: frozenset[str]
    lifetime: float | None


def lives_briefly(module: Module, call: ast.Call) -> bool:
    """Whether `delete_memoized(feed)` deletes entries that live a minute at most: what they keep is soon right."""
    target = path(call.args[0]) if call.args and last(path(call.func)) == "delete_memoized" else ""
    found = _definition(module, target) if target and "()" not in target else None
    return found is not None and is_brief(found.lifetime)


def is_brief(lifetime: float | None) -> bool:
    return lifetime is not None and 0 < lifetime <= _BRIEF


def partial_deletions(module: Module) -> Iterator[PartialDeletion]:
    if "delete_memoized" not in module.source:
        return
    known: dict[str, _Memoized | None] = {}
    for call in module.calls_of("delete_memoized"):
        function = module.owners.get(call)
        if function is None or len(call.args) + len(call.keywords) < 2:
            continue  # without arguments, all entries of the function are deleted
        if any(isinstance(part, ast.Starred) for part in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            continue
        target = path(call.args[0]) if call.args else ""
        if target not in known:
            known[target] = _definition(module, target) if target and "()" not in target else None
        found = known[target]
        if found is None:
            continue
        given = {*found.names[: len(call.args) - 1], *(keyword.arg or "" for keyword in call.keywords)}
        told = found.passed | _passed(module, last(target), found.names)
        left = tuple(name for name in found.defaulted if name not in given and name in told)
        unknown = tuple(sorted(given - found.known - told)) if found.takes_more else ()
        if left or unknown:
            yield PartialDeletion(function, call, target, left, unknown, found.lifetime)


def _definition(module: Module, target: str) -> _Memoized | None:
    """The memoized function, in this file or in one that it imports, also by a starred import."""
    owner, _, name = target.rpartition(".")
    if "." in owner or (owner and not owner[:1].isupper()):
        return None
    own = _memoized(module, owner, name)
    if own is not None:
        return own
    for place in _places(module, owner.partition(".")[0] or name, f"def {name}("):
        found = _memoized_in(place, os.stat(place).st_mtime_ns, owner, name)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=512)
def _memoized_in(place: str, _changed: int, owner: str, name: str) -> _Memoized | None:
    module = built(place)
    return _memoized(module, owner, name) if module is not None else None


def _memoized(module: Module, owner: str, name: str) -> _Memoized | None:
    found = [
        one
        for one in module.functions_named(name)
        if (one.cls.name if one.cls is not None else "") == owner and _memoizing(one) is not None
    ]
    if len(found) != 1:
        return None
    spec = found[0].node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    defaulted = [*names[len(names) - len(spec.defaults) :]] if spec.defaults else []
    defaulted += [
        one.arg for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value is not None
    ]
    return _Memoized(
        tuple(names),
        tuple(defaulted),
        frozenset((*names, *(one.arg for one in spec.kwonlyargs))),
        spec.kwarg is not None,
        frozenset(_passed(module, name, tuple(names))),
        _lifetime(_memoizing(found[0])),
    )


def _memoizing(function: Function) -> ast.expr | None:
    return next(
        (n for n in function.node.decorator_list if last(path(n)).removesuffix("()") == "memoize"), None
    )


def _lifetime(decorator: ast.expr | None) -> float | None:
    """`@cache.memoize(timeout=60)`, `@cache.memoize(60)`."""
    given = argument(decorator, 0, "timeout") if isinstance(decorator, ast.Call) else None
    return float(given.value) if isinstance(given, ast.Constant) and isinstance(given.value, int) else None


def _passed(module: Module, name: str, names: tuple[str, ...]) -> set[str]:
    """What the calls in a file pass: `board.feed(sort=sort, page=page)`."""
    plain = [one for one in names if one not in ("self", "cls")]
    found: set[str] = set()
    for call in module.calls_of(name):
        found |= {keyword.arg for keyword in call.keywords if keyword.arg}
        found |= {*plain[: len(call.args)]}
    return found


def _places(module: Module, name: str, defines: str) -> Iterator[str]:
    """The files that may define a name of this one: those with this text are parsed."""
    stated, _, _own = module.imports.get(name, "").rpartition(".")
    starred = [] if stated else _STARRED.findall(module.source)
    todo = [(module.path, dotted) for dotted in ([stated] if stated else starred)]
    seen: set[str] = set()
    while todo and len(seen) < _FILES:
        of, dotted = todo.pop(0)
        place = follow(module, of, dotted)
        if place is None or place in seen:
            continue
        seen.add(place)
        text = _text(place, os.stat(place).st_mtime_ns)
        if defines in text and "memoize" in text:
            yield place
        todo += [(place, inner) for inner in _STARRED.findall(text)]


@lru_cache(maxsize=64)
def _text(place: str, _changed: int) -> str:
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
