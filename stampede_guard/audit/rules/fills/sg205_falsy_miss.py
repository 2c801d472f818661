"""SG205: a falsy value treated as a miss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import Fill, fills, owned_name, what_is_cached
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.imported import followed_function
from stampede_guard.audit.caching.judging.cost import is_cheap_if_empty
from stampede_guard.audit.caching.judging.truth import truth
from stampede_guard.audit.caching.judging.worth import costs_little
from stampede_guard.audit.caching.tables import TABLE
from stampede_guard.audit.fixes.expressions import asks_for_none
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module, inside, position
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, names_in, path

_BYTES = re.compile(
    r"(?:^|\.)(?:aio|django_)?redis\w*\.|(?:^|\.)(?:valkey|coredis|glide|aioredis|pymemcache)\.|get_redis_connection"
)

# What these answer on a miss is empty, and not None.
_EMPTY_MISSES = frozenset("hgetall smembers lrange zrange zrevrange zrangebyscore hkeys hvals".split())


def check(module: Module) -> Iterator[Violation]:
    for fill in fills(module):
        flow = Flow(module, fill.function, fill.read)
        if fill.read.topic == TABLE:
            continue  # a row is never empty
        if fill.read.what != "read" or _gives_bytes(module, fill) or _misses_are_empty(module, fill):
            continue
        test = _truth_test(flow)
        falsy = truth(flow, _stored(fill), fill.write.call) if test is not None else "never"
        if test is not None and falsy != "never":
            cheap = is_cheap_if_empty(fill.function, fill.read, fill.write)
            yield Violation(
                node=test,
                confidence="low" if falsy == "unknown" or cheap else "medium",
                message=f"{what_is_cached(fill.function)} treats 0, '' or an empty list as a miss "
                "and computes it every time: test `is None`",
                level="information"
                if costs_little(module, fill.function, fill.read, fill.write)
                else "warning",
                function=owned_name(fill.function),
            )


def _truth_test(flow: Flow) -> ast.expr | None:
    direct = {
        name
        for node, names, value in flow.bindings
        if len(names) == 1 and _bare(value) is flow.read.call
        for name in names
    }
    for test in flow.function.tests:
        if not isinstance(test, ast.If) or (
            position(test) < position(flow.read.call) and not inside(flow.read.call, test.test)
        ):
            continue
        condition = test.test
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition = condition.operand
        if isinstance(condition, ast.NamedExpr) and _bare(condition.value) is flow.read.call:
            return test.test
        if isinstance(condition, ast.Name) and condition.id in direct:
            return test.test
        if direct & names_in(test.test):
            return None  # the first test of the value decides between hit and miss
    return None


def _bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _stored(fill: Fill) -> ast.expr | None:
    """The value that is stored. A setter of the project may be given a tuple of all its arguments."""
    value, key = fill.write.value, {ast.dump(part) for part in (*fill.read.key, *fill.write.key[:1])}
    if fill.write.helper and isinstance(value, ast.Tuple):
        return next((part for part in reversed(value.elts) if ast.dump(part) not in key), value)
    return value


def _gives_bytes(module: Module, fill: Fill) -> bool:
    """A client that stores text: 0 comes back as b"0", which is true."""
    call = fill.read.call
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or fill.read.helper:
        return False
    made = origin(module, call.func.value, fill.function)
    if made:
        return _BYTES.search(made) is not None
    # Without a constructor in the file: a method that only such clients have.
    write = fill.write.call
    return isinstance(write, ast.Call) and last(path(write.func)) in ("setex", "psetex", "hset")


def _misses_are_empty(module: Module, fill: Fill) -> bool:
    """A read that answers {} or [] on a miss. Redis has no empty hash or list, and `is None` would never be true."""
    call = fill.read.call
    if not isinstance(call, ast.Call):
        return False
    if last(path(call.func)) in _EMPTY_MISSES:
        return True
    helper = module.callee(call, fill.function)
    if helper is None:
        followed = followed_function(module, path(call.func))
        helper = followed[1] if followed is not None else None
    return helper is not None and any(last(path(inner.func)) in _EMPTY_MISSES for inner in helper.calls)


RULE = Rule(
    code="SG205",
    name="falsy-miss",
    summary='`if cached:` treats 0, "" or an empty list as a miss: such values are computed at every call',
    confidence="medium",
    scope="process",
    hints=(STORES,),
    near=lambda text: text.traces.may_fill,
    check=check,
    fix=asks_for_none,
    fixes=("unsafe",),
    documentation=Documentation(
        what="The miss test checks the value's truth instead of `is None`.",
        why="A count of 0, an empty result list and an empty text are correct answers. They are cached, "
        "but the test treats them as a miss. So they are computed at every call, often with the "
        "slowest query.",
        example="count = cache.get(key)\nif not count:\n    count = orders.count()\n    "
        "cache.set(key, count, 300)",
        instead="if count is None: ...",
        unless="A falsy value never occurs.",
        sure="Medium if the value is a number, a collection or an answer to a question, as far as its code or "
        "name shows; else low. Low also if a miss only asks the own database for rows of something that the key "
        "names: an empty answer then costs little. "
        "Information if a miss costs one row, if the key contains a user, a typed text or what a POST sends, or if it "
        "has fewer than two of SG201's points; else a warning, because each call computes, and not only a herd. "
        "Silent if it cannot be falsy: the write is under a test of the "
        "value, an empty value returns or raises before it, or it is an object, serialised text, a literal with "
        "contents, a token, or a value of which a constant part is read in each case. Silent for "
        "`hgetall` and its like, which answer a miss with {} or []. Silent for Redis clients, "
        "because 0 comes back from them as text.",
        fix="`if count:` becomes `if count is not None:`. Unsafe in each case: a stored empty value is then served "
        "for its lifetime, and no code shows whether it is an answer, or means that nobody may or nothing is "
        "known yet. None if an empty value is stored on a failure, or if the get names another default.",
    ),
)
