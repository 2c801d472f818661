"""Get, compute, set by hand becomes `@locked_cache` over the computation alone: SG201, and SG203 for a decorator.

Only functions that consist of these steps and nothing else are rewritten: a get into a name, a test of it, the
computation, one set, one return. If the key consists of plain text and unchanged parameters, other parameters become
`unkeyed`; otherwise the key stays. This is never safe: other code may read, delete or list those keys.
"""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.fills import Fill, accesses_of, fills
from stampede_guard.audit.fixes import naming, ownkeys
from stampede_guard.audit.fixes.decorators import unkeyed
from stampede_guard.audit.fixes.durations import GUESSED, LifetimeCode, stored_for
from stampede_guard.audit.fixes.facts.removals import refuse_used
from stampede_guard.audit.fixes.facts.repeats import is_harmless, is_plain, is_pure, may_repeat
from stampede_guard.audit.fixes.facts.steps import Steps, bare, bound_by, steps_of, without_docstring
from stampede_guard.audit.fixes.ownkeys import is_query, keyed_parameters, own_key, said_in
from stampede_guard.audit.fixes.signature import is_closed, judge
from stampede_guard.audit.plan import Decorate, Delete, Edit, FixPlan, NoFix, Replace, Span, Unwrap
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module, inside
from stampede_guard.audit.source.routes import is_route
from stampede_guard.audit.source.words import last, names_in, path

_ELSEWHERE = "find other code that reads or deletes these keys: it would not see the new entries"
_WIRE = frozenset(
    "loads dumps json packb unpackb model_validate_json model_dump_json model_validate model_dump decode encode "
    "int float str bool dict list".split()
)
_ACTS = (
    ast.Raise,
    ast.Assert,
    ast.Delete,
    ast.AugAssign,
    ast.For,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
)


def by_decorator(module: Module, hit: Violation) -> FixPlan | None:
    fill = _fill(module, hit)
    if fill is None:
        raise NoFix("the function has more than one get with a set, or only asks whether the key exists")
    ownkeys.refuse_cache(module, fill.function, fill.read.receiver)
    _refuse_disturbed(module, fill)
    steps = steps_of(fill)
    if steps is None:
        raise NoFix("the function does more than get, test, compute, set and return")
    _refuse_skipped(fill, steps)
    node = fill.function.node
    if not is_closed(module, node.returns, lambda _name, _depth: False):
        raise NoFix("it declares no result of Python's own types: what it stores may be of a class")
    if _serves_no_empty_value(steps):
        raise NoFix("it computes an empty value again, and a decorator would serve it")
    name = naming.locked_cache(module, node)
    if isinstance(fill.read.key[0], ast.Name) and fill.read.key[0].id in fill.function.parameters:
        raise NoFix("the key is a parameter: other files choose it, and may delete it")
    if _calls_a_parameter(fill):
        raise NoFix("it computes what its argument says: it is itself the cache")
    keyed = keyed_parameters(fill) if fill.function.cls is None else None
    own, replaced = ("", set[str]()) if keyed is not None else _own_key(module, fill)
    left_out = [a.arg for a in fill.function.arguments if keyed is not None and a.arg not in keyed]
    route = any(map(is_route, node.decorator_list))
    verdict = judge(module, fill.function, is_route=route, own_key=bool(own), left_out=left_out)
    if not verdict.possible:
        raise NoFix(verdict.why)
    if own and is_query(fill.function, fill.write.value):
        raise NoFix("it stores a query, whose rows are objects")
    if name is None:
        return None
    lifetime = stored_for(module, fill.write.call)
    if lifetime is not None and _is_local(lifetime, fill):
        raise NoFix("its lifetime is a local name, which a decorator cannot see")
    reasons = [_ELSEWHERE, *verdict.reasons]
    if not fill.function.is_async:
        reasons.append("it computes in a thread of the guard: thread-locals of its caller are missing there")
    if lifetime is None:
        reasons.append(f"it has no lifetime: {GUESSED} seconds are a guess")
    elif not lifetime.sure:
        reasons.append(f"{lifetime.code} must be a number of seconds, and is asked once")
    said = [f"ttl={lifetime.code if lifetime else GUESSED}", *([unkeyed(left_out)] if left_out else [])]
    said += [own] if own else []
    edits: list[Edit] = [Decorate(Span.of(node), f"{name.code}({', '.join(said)})"), *name.imports]
    gone = _gone(fill, steps, replaced)
    edits += [Delete(Span.of(statement)) for statement in gone]
    edits += [] if steps.hit_first else [Unwrap(Span.of(steps.test))]
    return FixPlan(edits=tuple(edits), reasons=tuple(reasons), key=_said(fill))


def _refuse_skipped(fill: Fill, steps: Steps) -> None:
    """On a hit, a decorator runs nothing of the function: no check of permissions either."""
    asks = [steps.test.test, *(s.value for s in (steps.read,) if isinstance(s, ast.Assign | ast.AnnAssign))]
    if not all(
        s is steps.read or (may_repeat(fill, s) and not _looks_up(s)) for s in steps.before
    ) or not all(ask is None or is_pure(fill, ask) for ask in asks):
        raise NoFix("what it does before its answer would not be done on a hit")


def _looks_up(statement: ast.stmt) -> bool:
    """`user = users[token]` refuses callers that have none."""
    return any(isinstance(node, ast.Subscript) for node in ast.walk(getattr(statement, "value", statement)))


def _serves_no_empty_value(steps: Steps) -> bool:
    """`if cached: return cached`. Text of a value is never empty: `if cached: return json.loads(cached)`."""
    test = steps.test.test
    if isinstance(test, ast.UnaryOp):
        test = test.operand
    if not isinstance(test, ast.Name | ast.NamedExpr):
        return False
    answers = (*(steps.test.body if steps.hit_first else steps.rest),)
    return not any(isinstance(node, ast.Call) for answer in answers for node in ast.walk(answer))


def _own_key(module: Module, fill: Fill) -> tuple[str, set[str]]:
    if len(fill.read.key) != 1:
        raise NoFix("the key has several parts")
    return own_key(module, fill.function, fill.read.call, fill.read.key[0])


def _said(fill: Fill) -> str:
    """The text by which other files may know the key."""
    key = fill.read.key[0]
    if isinstance(key, ast.Name):
        key = next((value for _n, names, value in fill.function.bindings if names == [key.id]), key)
    return said_in(ast.unparse(key))


def _fill(module: Module, hit: Violation) -> Fill | None:
    found = [fill for fill in fills(module) if fill.read.call is hit.node]
    return found[0] if len(found) == 1 and is_plain(found[0]) else None


def _calls_a_parameter(fill: Fill) -> bool:
    """A helper that computes its argument is itself the cache."""
    return any(path(call.func) in fill.function.parameters for call in fill.function.calls)


def _refuse_disturbed(module: Module, fill: Fill) -> None:
    """There must be one get and one set, and no other line of the file may use such keys."""
    if len(accesses_of(module, fill.function)) != 2:
        raise NoFix("the function has more than one get and one set")
    refuse_used(module, fill, _said(fill))


def _gone(fill: Fill, steps: Steps, replaced: set[str]) -> list[ast.stmt]:
    """Statements that only the cache needed: get, set, the return on a hit, and names that nothing else uses."""
    gone: list[ast.stmt] = [s for s in (steps.read, steps.write, *steps.rest) if s is not None]
    gone += [steps.test] if steps.hit_first else []
    body = [s for s in ast.walk(fill.function.node) if isinstance(s, ast.Assign)]
    for statement in body:
        names = bound_by([statement])
        users = [n for n in ast.walk(fill.function.node) if isinstance(n, ast.Name) and n.id in names]
        loads = [n for n in users if isinstance(n.ctx, ast.Load)]
        only_here = loads and all(any(inside(n, g) for g in gone) for n in loads)
        if statement not in gone and only_here and (names <= replaced or not _computes(statement)):
            gone.append(statement)
    return gone


def _computes(statement: ast.Assign) -> bool:
    calls = [n for n in ast.walk(statement.value) if isinstance(n, ast.Call)]
    awaits = any(isinstance(n, ast.Await) for n in ast.walk(statement.value))
    return awaits or any(last(path(c.func)) not in _WIRE | {"format"} for c in calls)


def _is_local(lifetime: LifetimeCode, fill: Fill) -> bool:
    own = fill.function.parameters | {name for _n, names, _v in fill.function.bindings for name in names}
    return bool(names_in(ast.parse(lifetime.code, mode="eval")) & own)


# ---------------------------------------------------------------------------------------------------- decorator


def of_the_definition(module: Module, hit: Violation) -> FixPlan | None:
    """The project's own decorator returns `locked_cache`. This fixes all functions that it decorates."""
    fill = _fill(module, hit)
    if fill is None or fill.decorator is None or fill.function.outer is None:
        raise NoFix("its wrapper has more than one get with a set, or only asks whether the key exists")
    ownkeys.refuse_of_one_request(fill.read.receiver)
    refuse_used(module, fill, _said(fill))
    wrapper, outer = fill.function, fill.function.outer
    steps = steps_of(fill)
    body = without_docstring(outer.node.body)
    name = naming.locked_cache(module, fill.decorator.node)
    if steps is None:
        raise NoFix("its wrapper does more than get, test, compute, set and return")
    if not any(last(path(call.func)) == "dumps" and "json" in path(call.func) for call in wrapper.calls):
        raise NoFix("what it stores may be of a class")
    if len(outer.arguments) == 1:
        _refuse_lost(fill, steps, outer.arguments[0].arg)
    if name is None or len(outer.arguments) != 1 or len(body) != 2:
        raise NoFix("it does more than to define its wrapper and to return it")
    decorated = outer.arguments[0].arg
    made, returned = body
    if made is not wrapper.node or not isinstance(returned, ast.Return) or returned.value is None:
        return None
    if names_in(returned.value) != {wrapper.name} or not isinstance(returned.value, ast.Name):
        return None
    if len([call for call in wrapper.calls if path(call.func) == decorated]) != 1:
        return None
    lifetime = stored_for(module, fill.write.call)
    ttl = lifetime.code if lifetime is not None else str(GUESSED)
    used = _parameters_used(fill, outer.parameters) - {ttl}
    used |= ownkeys.parts_from_elsewhere(fill, wrapper.parameters | {decorated}) - outer.parameters
    if used:
        raise NoFix(
            f"{', '.join(sorted(used))} would have no effect: parts of the decorator's key would be lost"
        )
    edits: tuple[Edit, ...] = (
        Delete(Span.of(wrapper.node)),
        Replace(Span.of(returned.value), f"{name.code}(ttl={ttl})({decorated})"),
        *name.imports,
    )
    reasons = [
        "all decorated functions get new keys: every parameter must be a valid key part",
        _ELSEWHERE,
    ]
    return FixPlan(edits=edits, reasons=tuple(reasons), key=_said(fill))


def _refuse_lost(fill: Fill, steps: Steps, decorated: str) -> None:
    """The whole wrapper goes, so it may do nothing but to cache."""
    _refuse_skipped(fill, steps)
    wrapper, write = fill.function.node, fill.write.call
    inner = [node for statement in wrapper.body for node in ast.walk(statement)]
    called = write.func if isinstance(write, ast.Call) else write
    only_caches = all(
        node is fill.read.call
        or node is write
        or inside(node, called)
        or path(node.func) == decorated
        or is_harmless(fill, node)
        for node in inner
        if isinstance(node, ast.Call)
    )
    stored = (n for n in inner if isinstance(n, ast.Attribute | ast.Subscript))
    changes = any(isinstance(n, _ACTS) for n in inner) or any(isinstance(n.ctx, ast.Store) for n in stored)
    if not only_caches or changes or not _passes_on(fill, steps, decorated):
        raise NoFix("its wrapper does more than to cache, and all of it would go")


def _passes_on(fill: Fill, steps: Steps, decorated: str) -> bool:
    """Whether the decorated function gets the wrapper's own arguments, and callers get its result, unchanged."""
    bound = [
        (name, bare(value))
        for node, names, value in fill.function.bindings
        if node is not steps.read
        for name in names
    ]
    calls = {n: v for n, v in bound if isinstance(v, ast.Call) and path(v.func) == decorated}
    given = [a for call in calls.values() for a in (*call.args, *(k.value for k in call.keywords))]
    answers = steps.test.body if steps.hit_first else steps.rest
    inner = [s for s in ast.walk(fill.function.node) if isinstance(s, ast.Return) and s not in answers]
    return (
        {path(answer.value) for answer in inner} <= set(calls)
        and all([name for name, _v in bound].count(name) == 1 for name in calls)
        and names_in(ast.Tuple(given)) <= fill.function.parameters
        and all(isinstance(a, ast.Name | ast.Starred) for a in given)
    )


def _parameters_used(fill: Fill, own: set[str]) -> set[str]:
    """Parameters of the decorator that its wrapper uses."""
    given: set[str] = set()
    for scope in fill.function.chain():
        if scope is not fill.function:
            given |= scope.parameters
    read = {n.id for n in ast.walk(fill.function.node) if isinstance(n, ast.Name)}
    return (given - own) & read
