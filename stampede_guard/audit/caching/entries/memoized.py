"""`delete_memoized(feed, user)`: it deletes the entry of exactly these arguments, the others with their defaults."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.caching.imported import built, follow
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import last, path

_STARRED = re.compile(r"^from\s+([\w.]+)\s+import\s+\*", re.M)
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


def partial_deletions(module: Module) -> Iterator[PartialDeletion]:
    for call in module.calls_of("delete_memoized"):
        function = module.owners.get(call)
        if function is None or len(call.args) + len(call.keywords) < 2:
            continue  # without arguments, all entries of the function are deleted
        if any(isinstance(part, ast.Starred) for part in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            continue
        target = path(call.args[0]) if call.args else ""
        known: dict[str, tuple[Module, Function] | None] = module.memo.setdefault("memoized", {})
        if target not in known:
            known[target] = _definition(module, target) if target and "()" not in target else None
        found = known[target]
        if found is None:
            continue
        home, memoized = found
        left, unknown = _uncovered(call, memoized)
        told = _passed(memoized, module, home)
        left = tuple(name for name in left if name in told)
        unknown = tuple(name for name in unknown if name not in told)
        if left or unknown:
            yield PartialDeletion(function, call, target, left, unknown)


def _definition(module: Module, target: str) -> tuple[Module, Function] | None:
    """The memoized function, in this file or in one that it imports, also by a starred import."""
    owner, _, name = target.rpartition(".")
    first = owner.partition(".")[0] or name
    if "." in owner or (owner and not owner[:1].isupper()):
        return None
    for other in _files(module, first, f"def {name}("):
        found = [
            one
            for one in other.functions
            if one.name == name
            and (one.cls.name if one.cls is not None else "") == owner
            and any(last(path(node)) == "memoize" for node in one.node.decorator_list)
        ]
        if found:
            return (other, found[0]) if len(found) == 1 else None
    return None


def _files(module: Module, name: str, defines: str) -> Iterator[Module]:
    """This file, and those that may define a name of it. Only files with this text are parsed."""
    yield module
    stated, _, _own = module.imports.get(name, "").rpartition(".")
    starred = [] if stated else _STARRED.findall(module.source)
    todo = [(module.path, dotted) for dotted in ([stated] if stated else starred)]
    read: dict[str, str] = module.memo.setdefault("starred", {})
    seen: set[str] = set()
    while todo and len(seen) < _FILES:
        of, dotted = todo.pop(0)
        place = follow(module, of, dotted)
        if place is None or place in seen:
            continue
        seen.add(place)
        if place not in read:
            read[place] = _text(place)
        if defines in read[place] and "memoize" in read[place] and (other := built(place)) is not None:
            yield other
        todo += [(place, inner) for inner in _STARRED.findall(read[place])]


def _text(place: str) -> str:
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""


def _uncovered(call: ast.Call, memoized: Function) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parameters with defaults that the deletion does not name, and its keywords that are no parameters."""
    spec = memoized.node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    given = {*names[: len(call.args) - 1], *(keyword.arg or "" for keyword in call.keywords)}
    defaulted = [*names[len(names) - len(spec.defaults) :]] if spec.defaults else []
    defaulted += [
        one.arg for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value is not None
    ]
    known = {*names, *(one.arg for one in spec.kwonlyargs)}
    return (
        tuple(name for name in defaulted if name not in given),
        tuple(sorted(given - known)) if spec.kwarg is not None else (),
    )


def _passed(memoized: Function, *files: Module) -> set[str]:
    """What the calls in these files pass: `board.feed(sort=sort, page=page)`."""
    names = [argument.arg for argument in memoized.node.args.args if argument.arg not in ("self", "cls")]
    found: set[str] = set()
    for module in files:
        for call in module.calls_of(memoized.name):
            found |= {keyword.arg for keyword in call.keywords if keyword.arg}
            found |= {*names[: len(call.args)]}
    return found
