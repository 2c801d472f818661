"""Fills in two methods: one reads the cache and calls the other, which computes and stores."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.fills import Fill, accesses_of, decorator_around
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.judging.serving import is_served
from stampede_guard.audit.caching.keys import skeleton
from stampede_guard.audit.source.model import Function, Module, position
from stampede_guard.audit.source.words import names_in


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
    if any(access.what != "write" for access in inner):
        return None
    for write in inner:
        if write.value is None:
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


def _stores_the_got(module: Module, function: Function, read: Access, write: Access) -> bool:
    """`self.history = cache.get(...)` here, `cache.set(..., self.history)` there: an edit of the stored value."""
    return bool(Flow(module, function, read).names & {n for n in names_in(write.value) if "." in n})


def _about_the_same(
    module: Module, function: Function, read: Access, callee: Function, write: Access
) -> bool:
    if read.receiver and read.receiver == write.receiver and not read.helper and not write.helper:
        return bool(read.key and write.key) and (
            skeleton(function, read.key[0]) == skeleton(callee, write.key[0]) != ""
        )
    if read.helper and write.helper:
        return bool(read.topic & write.topic) or not (read.topic or write.topic)
    return False


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
