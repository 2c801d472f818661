"""Get, miss, compute, set: finds cache fills in a function, and decides whether a second caller computes too.

Three questions decide (the rules SG201 to SG203 only phrase the answer):

1. Does the miss test depend on the value of the get?
2. Is it the same key?
3. Is the stored value computed, and not made from the value of the get?

The third question removes counters, TTL refreshes and read-modify-write. It also removes flags and markers, because
nothing was computed for them.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from dataclasses import dataclass, replace

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.accesses import Access, accesses
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.imported import elects
from stampede_guard.audit.caching.judging.keyed import BY_KEY, asked_by_key
from stampede_guard.audit.caching.judging.memos import is_memo
from stampede_guard.audit.caching.judging.misses import miss
from stampede_guard.audit.caching.judging.serving import is_served
from stampede_guard.audit.caching.judging.sparing import spares
from stampede_guard.audit.caching.judging.wrappers import decorator_around
from stampede_guard.audit.caching.keys import gets_another_key, same_key, skeleton
from stampede_guard.audit.caching.lockuse import key_text
from stampede_guard.audit.caching.receivers import SERVERS
from stampede_guard.audit.caching.tables import TABLE, are_of_one_row, has_tables, table_accesses
from stampede_guard.audit.caching.traces import Traces
from stampede_guard.audit.source.model import Function, Module, inside, owner_class, position
from stampede_guard.audit.source.words import is_cachy, last, names_in, path, words


@dataclass(frozen=True, eq=False)
class Fill:
    """A cache fill."""

    function: Function
    read: Access
    write: Access
    # If this is the wrapper of a decorator: the decorated function.
    decorator: Function | None
    sure: bool
    # Whether concurrent misses share one computation, or a second one costs next to nothing.
    spared: bool = False


def fills(module: Module) -> list[Fill]:
    """The unlocked fills of a file, at most one per read. Computed once for several rules."""
    known: list[Fill] | None = module.memo.get("fills")
    if known is None:
        known = module.memo["fills"] = [fill for fill in all_fills(module) if not fill.spared]
    return known


def all_fills(module: Module) -> list[Fill]:
    """The fills of a file, also those that a lock or their low cost spares a herd."""
    known: list[Fill] | None = module.memo.get("all-fills")
    if known is None:
        known = [fill for function in module.functions for fill in _of_function(module, function)]
        module.memo["all-fills"] = known
    return known


def fill_of(module: Module, function: Function, read: Access, write: Access) -> Fill | None:
    """The fill that a read and a write make together, if they do, and if no lock lets one caller through."""
    if not _fills(module, function, read, write, [read]) or _protected(module, function, read, write, [read]):
        return None
    return Fill(function, read, write, decorator_around(function), False)


def accesses_of(module: Module, function: Function) -> list[Access]:
    memo: dict[Function, list[Access]] = module.memo.setdefault("accesses", {})
    if function not in memo:
        memo[function] = _seen(module, function) if _is_traced(module, function) else []
    return memo[function]


def _seen(module: Module, function: Function) -> list[Access]:
    seen = accesses(module, function)
    if not has_tables(module):
        return seen
    of_tables = list(table_accesses(module, function))
    taken = {access.call for access in of_tables}
    others = [access for access in seen if access.call not in taken]
    return sorted((*others, *of_tables), key=lambda access: position(access.call))


def _is_traced(module: Module, function: Function) -> bool:
    """Whether the function's text shows a read or a write. Most functions do not, and their bodies are not walked."""
    lines: list[int] | None = module.memo.get("traces")
    if lines is None:
        lines = module.memo["traces"] = Traces(module.source.encode("utf-8", "replace")).lines()
    index = bisect_left(lines, function.node.lineno)
    return index < len(lines) and lines[index] <= (function.node.end_lineno or 0)


def _of_function(module: Module, function: Function) -> list[Fill]:
    seen = accesses_of(module, function)
    writes = [
        access for access in seen if access.what in ("write", "write-many") and access.value is not None
    ]
    if not writes:
        return []
    reads = [access for access in seen if access.what in ("read", "read-many", "exists")]
    reads = reads or list(asked_by_key(function, seen))
    found: list[Fill] = []
    taken: set[str] = set()
    for read in reads:
        spot = f"{read.receiver}.{read.helper}:{ast.dump(read.key[0]) if read.key else ''}"
        if spot in taken:
            continue
        write = next((write for write in writes if _fills(module, function, read, write, reads)), None)
        if write is None:
            continue
        taken.add(spot)
        spared = (
            _protected(module, function, read, write, reads)
            or is_memo(module, function, read, write)
            or _is_in_one_step(module, function, read, write)
        )
        if any(fill.write is write and fill.spared is spared for fill in found):
            continue  # two reads for one entry: its value, and the time when it was stored
        sure = read.sure and write.sure
        found.append(Fill(function, read, write, decorator_around(function), sure, spared))
    return found


def _fills(module: Module, function: Function, read: Access, write: Access, reads: list[Access]) -> bool:
    if read.call is write.call or position(write.call) <= position(read.call):
        return False
    write = _wider(read, write)
    if write.value is None:
        return False
    if not (read.sure or write.sure) or not _belong_together(module, function, read, write):
        return False
    if gets_another_key(function, read, write):
        return False
    flow = Flow(module, function, read, reads)
    return (
        flow.tested
        and (flow.tells_misses() or not _in_batches(module, read, write))
        and not flow.on_hit_side(write.call)
        and not flow.derived(write.value, write.call)
        and flow.computed(write.value, write.call)
        and (
            is_served(flow, write.call)
            or _read_again(function, read, reads)
            or _in_batches(module, read, write)
            or flow.says_nothing_found(write.value, write.call)
        )
        and spares(flow, write.call, write.value)
        and not _edits_what_is_there(module, function, read, write, reads)
    )


def _edits_what_is_there(
    module: Module, function: Function, read: Access, write: Access, reads: list[Access]
) -> bool:
    """Whether a second get of the key produced the stored value. Then the function edits that value."""
    assert write.value is not None
    return any(
        other is not read
        and other.what == "read"
        and other.receiver == write.receiver
        and position(read.call) < position(other.call) < position(write.call)
        and same_key(function, read.key, other.key)
        and Flow(module, function, other, reads).derived(write.value, write.call)
        for other in reads
    )


def _wider(read: Access, write: Access) -> Access:
    """`cache.get(region, key)`, `cache.set(region, key, value)`: two arguments are the key."""
    if (
        not isinstance(read.call, ast.Call)
        or not isinstance(write.call, ast.Call)
        or read.helper
        or write.helper
    ):
        return write
    asked = {ast.dump(argument) for argument in _arguments(read.call)}
    told = _arguments(write.call)
    if len(asked) < 2 or not asked <= {ast.dump(argument) for argument in told}:
        return write
    value = next((argument for argument in told if ast.dump(argument) not in asked), None)
    return replace(write, key=read.key, value=value) if value is not None else write


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _belong_together(module: Module, function: Function, read: Access, write: Access) -> bool:
    if TABLE in (read.topic, write.topic):
        return read.topic == write.topic and are_of_one_row(read, write)
    if _in_batches(module, read, write) and read.receiver == write.receiver:
        return bool(read.helper) == bool(write.helper) and read.topic == write.topic
    if read.what == "read-many" and write.what == "write" and not write.helper:
        looped = any(isinstance(node, ast.For | ast.AsyncFor) for node in module.up(write.call))
        return looped and (read.receiver == write.receiver or _is_pipeline(function, write.receiver))
    if read.what == "read-many" or write.what == "write-many":
        return read.receiver == write.receiver and read.what != "read" and write.what != "write"
    if _gives_its_key(function, read, write):
        return True
    if bool(read.helper) != bool(write.helper):
        alike = same_key(function, read.key, write.key) or same_key(function, read.key, write.key[:1])
        if alike and (is_cachy(last(read.receiver) or read.helper) or read.topic == BY_KEY):
            return True
        return _half_by_a_helper(module, function, read, write)
    if read.helper:
        if read.receiver != write.receiver and read.receiver and write.receiver:
            return False
        if read.topic and write.topic and not (read.topic & write.topic):
            return False
        if not read.key or (_says_its_key_itself(write) and read.topic == write.topic):
            return bool(read.topic & write.topic) or not (read.topic or write.topic)
        if read.topic == write.topic and _one_by_one(module, read, write):
            return True
        given = write.call.args if isinstance(write.call, ast.Call) else []
        if len(given) > 1 and same_key(function, read.key[:1], (given[-1],)):
            return True  # `set_history(rows, key)`
        return same_key(function, read.key[:1], write.key[:1]) or _same_subject(read.key[0], write.key[0])
    related = _same_receiver(read.receiver, write.receiver) or _is_pipeline(function, write.receiver)
    return related and same_key(function, read.key, write.key)


def _gives_its_key(function: Function, read: Access, write: Access) -> bool:
    """`hit, key = cached_report(day)`: a helper returns the value with the key for the set."""
    key = write.key[0] if write.key else None
    return (
        bool(read.helper)
        and isinstance(key, ast.Name)
        and any(
            len(names) > 1
            and key.id in names
            and (value.value if isinstance(value, ast.Await) else value) is read.call
            for _node, names, value in function.bindings
        )
    )


def _in_batches(module: Module, read: Access, write: Access) -> bool:
    """One loop gets each key, and a later loop stores the missing values. The keys have other names there."""
    if read.what != "read" or write.what != "write":
        return False
    asking = [node for node in module.up(read.call) if isinstance(node, ast.For | ast.AsyncFor)]
    storing = [node for node in module.up(write.call) if isinstance(node, ast.For | ast.AsyncFor)]
    return bool(asking and storing) and not set(asking) & set(storing)


def _one_by_one(module: Module, read: Access, write: Access) -> bool:
    """`get_cached_prices(ids)`, and later `for id in missing: set_cached_price(id, ...)`."""
    loops = [node for node in module.up(write.call) if isinstance(node, ast.For | ast.AsyncFor)]
    return any(
        names_in(loop.target) & names_in(write.key[0]) and not inside(read.call, loop) for loop in loops
    )


def _says_its_key_itself(write: Access) -> bool:
    """`set_match(match)`: the only argument contains its key."""
    return isinstance(write.call, ast.Call) and len(write.call.args) + len(write.call.keywords) == 1


def _half_by_a_helper(module: Module, function: Function, read: Access, write: Access) -> bool:
    """`get_cached_schema()` beside `redis.set(self._schema_key, ...)`: the helper's action, or its subject,
    decides.
    """
    helper, plain = (read, write) if read.helper else (write, read)
    if not plain.key:
        return False
    callee = module.callee(helper.call, function) if isinstance(helper.call, ast.Call) else None
    if callee is None:
        said = {word for part in key_text(function, plain.key[0]).split() for word in words(part)}
        return bool(helper.topic) and helper.topic <= {word.removesuffix("s") for word in said}
    return any(
        inner.key
        and not inner.helper
        and (inner.what == "write") == (helper.what == "write")
        and _same_receiver(inner.receiver, plain.receiver)
        and skeleton(callee, inner.key[0]) == skeleton(function, plain.key[0]) != ""
        for inner in accesses_of(module, callee)
    )


def _same_subject(one: ast.expr, other: ast.expr) -> bool:
    """`get_metadata_cache(doc.pk)` and `set_metadata_cache(doc, ...)`."""
    first, second = path(one), path(other)
    return bool(first and second) and (first.startswith(f"{second}.") or second.startswith(f"{first}."))


def _same_receiver(one: str, other: str) -> bool:
    if one == other:
        return True
    # For a pipeline, or a second client of the same store, the key decides.
    related = {last(one).strip("_"), last(other).strip("_")}
    if related <= SERVERS:  # `sentinel.slave.get(key)`, `sentinel.master.setex(key, ...)`
        return one.rpartition(".")[0] == other.rpartition(".")[0]
    return "pipe" in " ".join(related) or all(is_cachy(name) for name in related)


def _is_pipeline(function: Function, receiver: str) -> bool:
    """`with client.pipeline() as p`: whatever its name."""
    return any(
        names == [receiver] and path(value).endswith(".pipeline()")
        for _node, names, value in function.bindings
    )


def _read_again(function: Function, read: Access, reads: list[Access]) -> bool:
    """`if cache.exists(key): return cache.get(key)`: a second read uses the value."""
    return any(
        other is not read and other.what == "read" and same_key(function, read.key, other.key)
        for other in reads
    )


def _protected(module: Module, function: Function, read: Access, write: Access, reads: list[Access]) -> bool:
    """Whether concurrent misses in one process share one computation."""
    again = [
        r for r in reads if r is read or (r.helper == read.helper and same_key(function, read.key, r.key))
    ]
    for scope in function.chain():
        for node in locks.locks_of(module, scope):
            if inside(write.call, node) and any(inside(r.call, node) for r in again):
                return True
    for claim in locks.claims(module, function):
        if claim is not write.call and position(claim) < position(write.call):
            return True
    if locks.joins_a_flight(module, function) or locks.called_under_lock(module, function):
        return True
    if any(r.helper and elects(module, function, r.call) for r in again) or _lost_a_lock(module, read):
        return True
    return _computed_under_lock(module, function, write, again)


def _is_in_one_step(module: Module, function: Function, read: Access, write: Access) -> bool:
    """A coroutine of this process that awaits nothing from the read to the write, and asks nobody.

    Without parameters: what a parameter decides may be much, and workers share a store.
    """
    start, end = position(read.call), position(write.call)
    if not function.is_async or function.parameters or decorator_around(function) is not None:
        return False
    if any(
        start <= position(node) <= end or inside(read.call, node) or inside(write.call, node)
        for node in function.awaits
    ):
        return False
    asked = miss(module, function, (start, end))
    return not asked.queries and not asked.remote


def _lost_a_lock(module: Module, read: Access) -> bool:
    """`except LockError: found = cache.get(...)`: what computes is what the lock let through."""
    return any(
        isinstance(around, ast.ExceptHandler)
        and around.type is not None
        and "Lock" in ast.unparse(around.type)
        for around in module.up(read.call)
    )


def _computed_under_lock(module: Module, function: Function, write: Access, again: list[Access]) -> bool:
    """The value is read again and computed inside the lock, and stored after it."""
    stored = names_in(write.value)
    for node in locks.locks_of(module, function):
        if not any(inside(read.call, node) for read in again):
            continue
        for where, names, value in function.bindings:
            asked = any(inside(read.call, value) for read in again)
            if inside(where, node) and set(names) & stored and not asked:
                return True
    return False


def what_is_cached(function: Function) -> str:
    """The name of the place in a message: `Prices.latest()`."""
    return f"{owned_name(function)}()"


def owned_name(function: Function) -> str:
    """`Prices.latest`, or `latest` outside a class."""
    cls = owner_class(function)
    return f"{cls.name}.{function.name}" if cls is not None else function.name
