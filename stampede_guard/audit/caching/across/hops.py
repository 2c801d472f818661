"""Fills in several functions: one reads the cache and calls another one, which computes and stores; or one computes,
and calls others to look up and to store.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.fills import Fill, accesses_of, fill_of, fills
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.judging.serving import is_served
from stampede_guard.audit.caching.judging.wrappers import decorator_around
from stampede_guard.audit.caching.keys import skeleton
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import Function, Module, inside, position, returns
from stampede_guard.audit.source.words import names_in, path

_READS = ("read", "read-many", "exists")


def split_fills(module: Module) -> list[Fill]:
    known: list[Fill] | None = module.memo.get("split-fills")
    if known is None:
        known = [fill for function in module.functions if (fill := _split(module, function))]
        module.memo["split-fills"] = known
    return known


def _split(module: Module, function: Function) -> Fill | None:
    seen = accesses_of(module, function)
    if any(access.what in ("write", "write-many") for access in seen):
        return None
    reads = [access for access in seen if access.what in ("read", "exists")]
    for read in reads:
        for call in function.calls:
            if position(call) <= position(read.call) or call is read.call:
                continue
            write = _stores(module, function, call, read)
            if write is not None and _unlocked(module, function, read, call, write):
                return Fill(function, read, write, decorator_around(function), True)
    return None


def _stores(module: Module, function: Function, call: ast.Call, read: Access) -> Access | None:
    """The write inside the called function, if that function computes the stored value and both have the same
    subject.
    """
    callee = module.callee(call, function)
    if callee is None or callee is function:
        return None
    inner = accesses_of(module, callee)
    if any(_asks_first(module, callee, access, read) for access in inner):
        return None
    for write in inner:
        if write.value is None or write.what != "write":
            continue
        flow = Flow(module, callee, write)
        flow.since = None
        if _stores_the_got(module, function, read, write):
            continue
        if flow.computed(write.value, write.call) and _about_the_same(module, function, read, callee, write):
            return Access(
                write.call, "write", write.receiver, write.key, write.value, callee.name, write.topic, True
            )
    return None


def _asks_first(module: Module, callee: Function, access: Access, read: Access) -> bool:
    """Whether the called function looks into the cache itself. To compare with what it has fetched, it may."""
    if access.what == "write":
        return False
    held = {n for _n, names, value in callee.bindings if inside(access.call, value) for n in names}
    fetched = [
        node
        for node, _names, value in callee.bindings
        if position(node) < position(access.call) and calls_work(value) and not inside(access.call, value)
    ]
    return access.helper != read.helper or not read.helper or not held or not fetched


def _stores_the_got(module: Module, function: Function, read: Access, write: Access) -> bool:
    """`self.history = cache.get(...)` here, `cache.set(..., self.history)` there: an edit of the stored value."""
    return bool(Flow(module, function, read).names & {n for n in names_in(write.value) if "." in n})


def _about_the_same(
    module: Module, function: Function, read: Access, callee: Function, write: Access
) -> bool:
    if read.receiver and read.receiver == write.receiver and not read.helper and not write.helper:
        return _is_one_key(function, read, callee, write)
    if read.helper and isinstance(read.call, ast.Call):
        getter = module.callee(read.call, function)
        if getter is not None and any(
            access.what == "read"
            and bool(access.helper) == bool(write.helper)
            and access.topic == write.topic
            and _is_one_key(getter, access, callee, write)
            for access in accesses_of(module, getter)
        ):
            return True
    if read.helper and write.helper:
        return bool(read.topic & write.topic) or not (read.topic or write.topic)
    return False


def _is_one_key(reader: Function, read: Access, writer: Function, write: Access) -> bool:
    return bool(read.key and write.key) and (
        skeleton(reader, read.key[0]) == skeleton(writer, write.key[0]) != ""
    )


def _unlocked(module: Module, function: Function, read: Access, call: ast.Call, write: Access) -> bool:
    flow = Flow(module, function, read)
    if not flow.tested or flow.on_hit_side(call) or not is_served(flow, call):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(flow.names & names_in(argument) for argument in given):
        return False  # a cursor: the other method continues from the read value
    if locks.joins_a_flight(module, function) or any(
        position(claim) < position(call) for claim in locks.claims(module, function)
    ):
        return False
    return not locks.locks_of(module, function) and not locks.called_under_lock(module, function)


def own_fills(module: Module) -> list[Fill]:
    """`_known(day)`, compute, `_keep(day, rates)`: what the file's own functions do to a cache is seen in their bodies,
    whatever their names.
    """
    known: list[Fill] | None = module.memo.get("own-fills")
    if known is None:
        known = module.memo["own-fills"] = list(_through_own(module))
    return known


def _through_own(module: Module) -> Iterator[Fill]:
    does = {function: done for function in module.functions if (done := _done(module, function))}
    if len({done.what for done in does.values()}) < 2:
        return
    asking: dict[Function, list[tuple[ast.Call, Function]]] = {}
    storing: dict[Function, list[tuple[ast.Call, Function]]] = {}
    for callee, done in does.items():
        for call in module.uses(callee):
            user = module.owners.get(call)
            if user is not None and user is not callee:
                (asking if done.what == "read" else storing).setdefault(user, []).append((call, callee))
    reported = {fill.function for fill in (*fills(module), *split_fills(module))}
    for user, asked_here in asking.items():
        if user in reported:
            continue
        made = (
            fill_of(module, user, read, write)
            for asked, reader in asked_here
            for stored, writer in storing.get(user, ())
            if _one_entry(reader, does[reader], writer, does[writer])
            and _is_returned(user, asked)
            and (read := _as_access(asked, reader, does[reader], "read")) is not None
            and (write := _as_access(stored, writer, does[writer], "write")) is not None
        )
        found = next((fill for fill in made if fill is not None), None)
        if found is not None:
            yield found


def _is_returned(function: Function, call: ast.Call) -> bool:
    """Whether a hit is what the function returns. Otherwise the value may be the state of a job, such as its id."""
    held: set[str] = set()
    for _node, names, value in function.bindings:
        if inside(call, value) or (held & names_in(value) and not calls_work(value)):
            held |= set(names)
    ends = [end.value for end in returns(function) if end.value is not None]
    return any(inside(call, value) or held & names_in(value) for value in ends)


def _done(module: Module, function: Function) -> Access | None:
    """The access of a function that only reads a cache, or only writes to it, under one key and without a lock."""
    seen = accesses_of(module, function)
    if not 0 < len(seen) <= 2 or any(not a.sure or a.helper or not a.key for a in seen):
        return None
    if len({(a.what, ast.dump(a.key[0])) for a in seen}) > 1 or seen[0].what not in ("read", "write"):
        return None
    if locks.locks_of(module, function) or locks.claims(module, function):
        return None
    return seen[0]


def _one_entry(reader: Function, read: Access, writer: Function, write: Access) -> bool:
    """Whether both get their key, or build the same one."""
    one, other = _is_given(reader, read), _is_given(writer, write)
    return one == other and (one or skeleton(reader, read.key[0]) == skeleton(writer, write.key[0]) != "")


def _is_given(function: Function, access: Access) -> bool:
    return isinstance(access.key[0], ast.Name) and access.key[0].id in function.parameters


def _as_access(
    call: ast.Call, callee: Function, done: Access, what: Literal["read", "write"]
) -> Access | None:
    """The call as a getter or a setter of the project: its key first, and without the cache that it passes."""
    names = [argument.arg for argument in callee.arguments if argument.arg not in ("self", "cls")]
    told = [
        *zip(names, call.args, strict=False),
        *((keyword.arg, keyword.value) for keyword in call.keywords),
    ]
    key = path(done.key[0])
    given = [value for name, value in told if name == key]
    given += [value for name, value in told if name not in (key, done.receiver)]
    if what == "read":
        return Access(call, "read", "", tuple(given), None, callee.name, frozenset(), True)
    if not given:
        return None
    stored = [value for value in given[1:] if not isinstance(value, ast.Constant)] or given
    value = ast.copy_location(ast.Tuple(elts=stored, ctx=ast.Load()), call)
    return Access(call, "write", "", tuple(given), value, callee.name, frozenset(), True)
