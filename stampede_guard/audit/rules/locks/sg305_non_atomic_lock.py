"""SG305: a flag that is read, then set, and used as a lock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from stampede_guard.audit.caching import lockuse
from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.fills import accesses_of
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.judging import states
from stampede_guard.audit.caching.judging.worth import level_of_fill
from stampede_guard.audit.caching.keys import same_key
from stampede_guard.audit.caching.locks import locks_of
from stampede_guard.audit.finding import Level
from stampede_guard.audit.fixes.flags import in_one_step
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import last, path, words

_SHORT = 30  # seconds
_UPDATES = frozenset(("update", "aupdate", "update_one"))
# `_cache_miss(key)` counts what happened.
_COUNTS = frozenset("hit hits miss misses".split())
_TOLD = (
    "two callers can both find no mark between this get and the set, and both send the message: SET NX marks in one "
    "step, before it is sent"
)
_MESSAGE = (
    "two callers can both find the lock free between this get and the set: SET NX checks and takes it "
    "in one step"
)


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions:
        if _is_optimistic(function):
            continue
        seen = accesses_of(module, function)
        for read in seen:
            if read.what not in ("read", "exists") or not read.key:
                continue
            taken = [
                write
                for write in seen
                if write.what == "write"
                and position(write.call) > position(read.call)
                and same_key(function, read.key[:1], write.key[:1])
                and _is_flag(module, write.call)
                and _COUNTS.isdisjoint(words(write.helper)[-1:])
            ]
            if not taken:
                continue
            locks = states.is_compared(function, read, taken[0]) or _is_a_lock(
                module, function, read, taken[0]
            )
            if not locks and not states.tells_once(module, function, read, taken[0]):
                continue
            if not Flow(module, function, read).tested:
                continue
            if any(inside(taken[0].call, node) for node in locks_of(module, function)):
                continue
            yield Violation(
                node=read.call,
                message=_MESSAGE if locks else _TOLD,
                level=_level(module, function, read, taken[0]) if locks else "information",
                function=function.name,
            )
            break
        else:
            asked = states.asked_then_taken(module, function)
            if asked is not None:
                yield Violation(node=asked, message=_MESSAGE, function=function.name)


def _is_a_lock(module: Module, function: Function, read: Access, taken: Access) -> bool:
    key = read.key[0]
    return not _is_no_lock(function, key) and (
        _names_a_lock(function, key)
        or _is_freed(function, key, taken.call)
        or _is_taken_next(module, function, read.call, taken.call)
        or states.is_under_way(function, key, taken)
        or states.is_put_down(module, function, read, taken)
        or states.is_taken_at_once(module, function, read.call, taken)
    )


def _level(module: Module, function: Function, read: Access, taken: Access) -> Level:
    """A flag that is set last spares work as a cache entry does. One that guards a single UPDATE spares a write, and
    one that limits how often something is done lets it happen once more.
    """
    if lockuse.limits_a_rate(function):
        return "information"
    guarded = states.worked_after(module, function, taken)
    if not guarded and _is_bare_mark(function, read.key[0]):
        return level_of_fill(module, function, read, taken)
    if len(guarded) == 1 and last(path(guarded[0].func)) in _UPDATES:
        return "information"
    return "warning"


def _is_bare_mark(function: Function, key: ast.expr) -> bool:
    return not _names_a_lock(function, key) and not lockuse.deletes(function)


def _is_no_lock(function: Function, key: ast.expr) -> bool:
    return lockuse.is_other(lockuse.key_text(function, key))


def _names_a_lock(function: Function, key: ast.expr) -> bool:
    """The name of the key, or of the function that takes it."""
    text = lockuse.key_text(function, key)
    return lockuse.says_lock(text) or lockuse.says_busy(text) or lockuse.is_lock_key(function, key)


def _is_freed(function: Function, key: ast.expr, taken: ast.expr) -> bool:
    """Whatever its name: a constant that is set, then work, then the same key is deleted in `finally` or at the end."""
    value = argument(taken, 1, "value", "val") if isinstance(taken, ast.Call) else None
    if not isinstance(value, ast.Constant):
        return False
    return any(
        call.args
        and position(call) > position(taken)
        and same_key(function, (key,), (call.args[0],))
        and any(
            position(taken) < position(work) < position(call) for work in function.calls if work is not call
        )
        for call in lockuse.deletes(function)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("delete", "unlink", "adelete")
    )


def _is_taken_next(module: Module, function: Function, read: ast.expr, taken: ast.expr) -> bool:
    """Whatever its name: `if cache.get(key): return`, the next statement sets a constant for a short time, and then
    the work follows. So does `cache.add(key, 1)` whose answer nobody reads.
    """
    body = function.node.body
    for test, following in pairwise(body):
        if not isinstance(test, ast.If) or test.orelse or not inside(read, test.test):
            continue
        ends = test.body[-1]
        if not isinstance(ends, ast.Return) or ends.value is not None or len(test.body) > 1:
            return False
        if not isinstance(following, ast.Expr) or _bare(following.value) is not taken:
            return False
        assert isinstance(taken, ast.Call)
        value = argument(taken, 1, "value", "val")
        works = any(position(call) > position(taken) and call is not taken for call in function.calls)
        added = isinstance(taken.func, ast.Attribute) and taken.func.attr == "add"
        return works and isinstance(value, ast.Constant) and (added or _is_short(taken))
    return False


def _bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _is_short(call: ast.Call) -> bool:
    """A literal lifetime of some seconds: one of minutes limits how often something is done."""
    lifetime = argument(call, 2, "timeout", "ex", "ttl", "time", "expire")
    return (
        isinstance(lifetime, ast.Constant)
        and isinstance(lifetime.value, int | float)
        and 0 < lifetime.value <= _SHORT
    )


def _is_optimistic(function: Function) -> bool:
    """WATCH: the set fails if another client has written in between."""
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "watch" for call in function.calls)


def _is_flag(module: Module, call: ast.expr) -> bool:
    """Whether it is a plain flag: not SET NX, and no `add` whose answer is read."""
    if not isinstance(call, ast.Call):
        return False
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("setnx", "add"):
        return "nx" not in {keyword.arg for keyword in call.keywords}
    return call.func.attr == "add" and len(call.args) > 1 and isinstance(module.parents.get(call), ast.Expr)


RULE = Rule(
    code="SG305",
    name="non-atomic-lock",
    summary="a flag that is read and then set, used as a lock",
    confidence="medium",
    scope="fleet",
    hints=(STORES,),
    near=lambda text: text.traces.may_flag or text.has_any(states.ASKED),
    check=check,
    fix=in_one_step,
    fixes=("unsafe",),
    documentation=Documentation(
        what="A function reads a flag and sets it if it is missing: a lock in two steps.",
        why="Two callers read before either writes; both continue.",
        example='if not cache.get("sync:running"):\n    cache.set("sync:running", 1, 300)\n    sync()',
        instead='if cache.add("sync:running", token, 300):   # one step: SET NX EX\n    sync()',
        unless="It only saves work that may be done twice without harm.",
        sure="Medium: the name of the key or function contains lock, running, busy or the like, the "
        "same function deletes the flag after its work, another function of the file deletes it, or a constant is "
        "set without another question after `if flag: return`, under `if not flag:` or in its `else:`. After EXISTS, "
        "the value may be any. Also a mark that is set after "
        "a message was sent (`send_mail(...)`, `notify(...)`, `task.delay(...)`), as information. "
        "Information if the flag only guards one UPDATE, or if the function's name says that it limits a rate: the "
        "race then costs one more of it. A flag that is set after the work "
        "spares work like a cache entry, unless its name says lock: a warning if that is much work, see SG201.",
        fix="Unsafe: for a Redis client, `if redis.get(key): return` and the set with a TTL right after "
        "it become `if not redis.set(key, 1, ex=60, nx=True): return`. The same applies if the set is "
        "the first statement under `if not redis.get(key):`. A falsy value counted as free before, "
        "and does not after the fix. None for a set without a TTL, or with other statements in "
        "between.",
    ),
)
