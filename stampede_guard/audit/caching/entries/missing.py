"""Inputs that a stored value depends on and its key does not: another caller gets the wrong value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.caching.dictcaches import is_made_here, looks
from stampede_guard.audit.caching.entries.inputs import Inputs
from stampede_guard.audit.caching.entries.parameters import describes, is_aside, is_credential, is_part, stem
from stampede_guard.audit.caching.fills import Fill, all_fills
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.caching.tables import TABLE
from stampede_guard.audit.source.model import Function, Module, inside, owner_class, position
from stampede_guard.audit.source.words import is_cachy, is_locky, last, path, text_of, words

# Where a dict of the process may be a cache.
_STORES = re.compile(r"(?:cache|CACHE|Cache|memo)\w*\[[^\n]*\] *= ")

# What a name in `_key` is the key of, if it is not that of the entry.
_NAMED = frozenset("session user api tenant account primary foreign public".split())
OR_RUNS = re.compile(
    r"\b(?:\w+_)?(?:cache|cached|memo)_or_(?:run|call|compute|calculate|fetch|load|create|execute|query|build)\w*\("
)


@dataclass(frozen=True)
class MissingInputs:
    """The inputs of one entry that its key lacks. Not `sure` if they only decide between two computations, or if
    each caller may get the same value.
    """

    names: tuple[str, ...]
    sure: bool


@dataclass(frozen=True, eq=False)
class CachedEntry:
    """What is stored, under which key, after which look."""

    function: Function
    read: ast.expr
    write: ast.expr
    key: tuple[ast.expr, ...]
    value: ast.expr
    # How many parts of the key are those of the look.
    asked: int = 1
    # The tests of the found value, with the names that hold it, and places that a miss cannot come from.
    tests: tuple[ast.expr, ...] = ()
    found: frozenset[str] = frozenset()
    on_hit: frozenset[ast.AST] = frozenset()
    of_self: bool = False


def missing(module: Module, entry: CachedEntry) -> MissingInputs | None:
    function = entry.function
    inputs = Inputs(module, function)
    end = ((function.node.end_lineno or 0) + 1, 0)
    keyed = inputs.of(entry.key, position(entry.read))
    asked = {ast.dump(part) for part in entry.key[: entry.asked]}
    keyed |= inputs.of([part for part in entry.key if ast.dump(part) not in asked], position(entry.write))
    if _is_named_by_the_caller(keyed) or _is_a_lock(entry):
        return None
    used = inputs.of([entry.value], position(entry.write), entry.on_hit)
    guards = inputs.of(_around(module, entry), position(entry.read))
    held = inputs.of(entry.tests, end, without=entry.found)
    covered = {*keyed, *guards, *held}
    if "page" in guards:
        covered |= {"per_page", "page_size"}
    lacking = [name for name in used if _tells_apart(module, function, name, covered)]
    if entry.of_self:
        lacking = [name for name in lacking if not name.startswith("self.")]
    plain = [name for name in lacking if not is_credential(name)]
    return (
        MissingInputs(tuple(sorted(plain or lacking)), bool(plain) and not entry.of_self) if lacking else None
    )


def missing_keywords(module: Module) -> Iterator[tuple[Fill, str]]:
    """Wrappers of a decorator whose key has `*args` and not the `**kwargs` that they hand on, with that name."""
    for fill in all_fills(module):
        spec = fill.function.node.args
        if fill.decorator is None or spec.vararg is None or spec.kwarg is None:
            continue
        if not _hands_on(fill.function, spec.kwarg.arg):
            continue
        keyed = Inputs(module, fill.function).of(_keys(fill), position(fill.write.call))
        if spec.vararg.arg in keyed and spec.kwarg.arg not in keyed and not _is_named_by_the_caller(keyed):
            yield fill, spec.kwarg.arg


def _hands_on(wrapper: Function, name: str) -> bool:
    """Whether the wrapped function, which is a parameter around the wrapper, is called with `**name`."""
    given = {one for outer in wrapper.chain() if outer is not wrapper for one in outer.parameters}
    return any(
        path(call.func) in given
        and any(keyword.arg is None and path(keyword.value) == name for keyword in call.keywords)
        for call in wrapper.calls
    )


def entries(module: Module) -> Iterator[CachedEntry]:
    for fill in all_fills(module):
        entry = _of_fill(module, fill)
        if entry is not None:
            yield entry
    yield from _computed_in_one_call(module)
    yield from _in_dicts(module)


def _of_fill(module: Module, fill: Fill) -> CachedEntry | None:
    value = fill.write.value
    if fill.decorator is not None or value is None or fill.read.topic == TABLE:
        return None
    if "-many" in f"{fill.read.what}{fill.write.what}":
        return None
    flow = Flow(module, fill.function, fill.read)
    if flow.beside:
        return None  # the getter adds a part to the key, and nobody sees here what that stands for
    return CachedEntry(
        fill.function,
        fill.read.call,
        fill.write.call,
        tuple(_keys(fill)),
        _stored(fill, value),
        len(fill.read.key) + len(_arguments(fill.read.call)),
        tuple(test.subject if isinstance(test, ast.Match) else test.test for test in flow.asking()),
        frozenset(flow.names),
        frozenset(
            node for node, _names, _value in flow.bindings if flow.never_followed_by(node, fill.write.call)
        ),
    )


def _computed_in_one_call(module: Module) -> Iterator[CachedEntry]:
    """`cache.get_or_set(key, lambda: prices(day))`."""
    yield from _handed_to_a_helper(module)
    if "get_or_set" not in module.source:
        return
    for call in module.calls_of("get_or_set", "aget_or_set"):
        function = module.owners.get(call)
        if function is None or len(call.args) < 2 or not isinstance(call.func, ast.Attribute):
            continue
        if last(path(call.func)) != function.name and kind(module, call.func.value, function) == "cache":
            others = [keyword.value for keyword in call.keywords]
            yield CachedEntry(function, call, call, (call.args[0], call.func.value, *others), call.args[1])


def _handed_to_a_helper(module: Module) -> Iterator[CachedEntry]:
    """`get_cache_or_run(key, prices, day)`: a helper of the project calls the function with the arguments."""
    for function in module.functions_with(OR_RUNS) if OR_RUNS.search(module.source) else ():
        for call in function.calls:
            name = last(path(call.func))
            if not OR_RUNS.match(f"{name}(") or len(call.args) < 3 or name == function.name:
                continue
            key, runs = call.args[:2]
            known = isinstance(runs, ast.Name) and runs.id not in function.parameters
            if isinstance(key, ast.Name) and module.functions_named(key.id):
                continue
            if known and not any(isinstance(argument, ast.Starred) for argument in call.args):
                value = ast.copy_location(ast.Tuple(elts=call.args[2:], ctx=ast.Load()), call)
                yield CachedEntry(function, call, call, (key,), value, tests=tuple(_choices(function, key)))


def _choices(function: Function, key: ast.expr) -> Iterator[ast.expr]:
    """The tests that decide between two keys."""
    for test in function.tests:
        if isinstance(test, ast.If) and isinstance(key, ast.Name):
            if any(key.id in names and inside(node, test) for node, names, _value in function.bindings):
                yield test.test


def _in_dicts(module: Module) -> Iterator[CachedEntry]:
    """`if key in prices_cache: return prices_cache[key]`, and later `prices_cache[key] = prices`."""
    for function in module.functions_with(_STORES) if _STORES.search(module.source) else ():
        for store in function.stores:
            assigned = module.parents.get(store)
            holder = path(store.value)
            if (
                not isinstance(assigned, ast.Assign)
                or not is_cachy(last(holder))
                or store not in assigned.targets
            ):
                continue
            look = next(
                (one for one in looks(function, holder, store.slice) if position(one) < position(store)), None
            )
            if look is None or _is_made_here(module, function, holder):
                continue
            inner = tuple(part.slice for part in ast.walk(store) if isinstance(part, ast.Subscript))
            found = _taken_from(function, holder)
            yield CachedEntry(
                function,
                look,
                store,
                inner,
                assigned.value,
                len(inner),
                tests=tuple(_tests_of(function, found)),
                found=found,
                of_self=holder.startswith(("self.", "cls.")),
            )


def _taken_from(function: Function, holder: str) -> frozenset[str]:
    """The dict, and the names that hold what it said: `kept = cache.get("path")`."""
    return frozenset({holder}).union(
        *(
            names
            for _node, names, value in function.bindings
            if holder
            in {path(part) for part in ast.walk(value) if isinstance(part, ast.Name | ast.Attribute)}
        )
    )


def _tests_of(function: Function, names: frozenset[str]) -> Iterator[ast.expr]:
    """The tests that compare one of these."""
    for test in function.tests:
        if isinstance(test, ast.If):
            said = {path(part) for part in ast.walk(test.test) if isinstance(part, ast.Name | ast.Attribute)}
            if names & said:
                yield test.test


def _is_made_here(module: Module, function: Function, holder: str) -> bool:
    root = holder.partition(".")[0].rstrip("[]")
    of_flask = module.imports.get(root, "") == "flask.g"
    return of_flask or (root not in module.imports and is_made_here(function, holder.rstrip("[]")))


def _keys(fill: Fill) -> Iterator[ast.expr]:
    """The arguments of a get, and those of a set but for the value: `cache.get(key, version=user.version)`."""
    yield from fill.read.key
    yield from _arguments(fill.read.call)
    value = fill.write.value
    parts = {id(node) for node in ast.walk(value)} if value is not None else set()
    yield from (node for node in _arguments(fill.write.call) if id(node) not in parts)
    yield from fill.write.key[:1] if fill.write.helper else fill.write.key


def _arguments(call: ast.expr) -> list[ast.expr]:
    if not isinstance(call, ast.Call):
        return [call]
    of = [call.func.value] if isinstance(call.func, ast.Attribute) else []  # `caches[tenant].get(key)`
    return [*of, *call.args, *(keyword.value for keyword in call.keywords)]


def _around(module: Module, entry: CachedEntry) -> Iterator[ast.expr]:
    """Tests that decide whether the cache is used."""
    for call in (entry.read, entry.write):
        for around in module.up(call):
            if isinstance(around, ast.If | ast.IfExp):
                yield around.test


def _stored(fill: Fill, value: ast.expr) -> ast.expr:
    """A setter of the project may be given a tuple of all its arguments; its key is not its value."""
    if fill.write.helper and isinstance(value, ast.Tuple):
        key = {ast.dump(part) for part in (*fill.read.key, *fill.write.key[:1])}
        return next((part for part in reversed(value.elts) if ast.dump(part) not in key), value)
    return value


def _is_a_lock(entry: CachedEntry) -> bool:
    """`pipe.set(job_lock(query), job.id)`: a marker of what is running, and not the result."""
    said = " ".join(text_of(part) for part in entry.key)
    return any(is_locky(name) for name in re.findall(r"\w+", said))


def _is_named_by_the_caller(keyed: set[str]) -> bool:
    """`def remember(cache_key, ...)`: the callers decide what tells entries apart. A `session_key` names a session."""
    return any(
        "." not in name and "key" in (said := {*words(name)}) and said.isdisjoint(_NAMED) for name in keyed
    )


def _tells_apart(module: Module, function: Function, name: str, covered: set[str]) -> bool:
    if name in covered or stem(name) in {stem(other) for other in covered}:
        return False
    if "." in name:
        owner = name.rpartition(".")[0]
        return owner not in covered and is_part(name) and not _is_the_same_for_all(module, function, name)
    if name in ("request", "req"):
        return False
    return not is_aside(module, function, name) and not describes(name, covered)


def _is_the_same_for_all(module: Module, function: Function, name: str) -> bool:
    """`self.company`, which `__init__` takes from nothing that it is given: each object of the class has the same."""
    cls = owner_class(function)
    given = (
        module.attributes.get((cls.name, last(name)), ())
        if cls is not None and name.startswith("self.")
        else ()
    )
    return bool(given) and all(
        where is None or (where.name == "__init__" and not Inputs(module, where).of([value], position(value)))
        for value, where in given
    )
