"""SG302: a lock that any caller can free."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching import lockuse
from stampede_guard.audit.caching.judging.worth import number
from stampede_guard.audit.caching.keys import skeleton
from stampede_guard.audit.caching.locks import is_claim
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.fixes.owners import by_its_owner
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, argument, keyword_names
from stampede_guard.audit.source.words import last, names_in, words

_RELEASES = frozenset("release unlock free unlocked unlocks releases aexit exit".split())
# The work is over.
_ENDS = frozenset("done end ended finish finished complete completed stop stopped".split())
_SETS = frozenset(("set", "setex", "psetex"))
_TAKES = frozenset("acquire obtain".split())
_FORCES = re.compile(
    r"force|admin|init|setup|startup|clear|reset|flush|clean|purge|stale|test", re.IGNORECASE
)
_CLOCKS = frozenset("time monotonic perf_counter now utcnow".split())
_LONG = 300  # seconds
_DELETES = re.compile(r"delete|unlink")
# WATCH makes the comparison and the following commands one transaction.
_SCRIPTS = frozenset(("eval", "evalsha", "register_script", "fcall", "execute_command", "watch"))


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions_with(_DELETES):
        if _compares_an_owner(module, function):
            continue
        for call in lockuse.deletes(function):
            assert isinstance(call.func, ast.Attribute)
            if (
                "expire" in call.func.attr
                or len(call.args) != 1
                or kind(module, call.func.value, function) == "no"
                or _is_within_its_lifetime(module, function, call)
            ):
                continue
            lifetime = _lifetime(module, function, call.args[0])
            if 0 < _hard_limit(module, function) <= lifetime:
                continue
            if _frees_a_lock(module, function, call.args[0]):
                yield Violation(
                    node=call,
                    message="this deletes a lock without comparing its token: a holder that is "
                    "late frees another holder's lock",
                    level="information" if _outlasts_a_request(function, lifetime) else "warning",
                    function=function.name,
                )


def _lifetime(module: Module, function: Function, key: ast.expr) -> float:
    """How many seconds the lock lives that this function takes; 0 if it is not seen."""
    taken = [
        call
        for call in function.calls
        if is_claim(module, call)
        and lockuse.same_spelling(function, key, function, argument(call, 0, "name", "key"))
    ]
    given = [
        part for call in taken for part in (*call.args[1:], *(keyword.value for keyword in call.keywords))
    ]
    return max((number(module, part) for part in given), default=0.0)


def _hard_limit(module: Module, function: Function) -> float:
    """`@shared_task(time_limit=900)`: a worker is killed then, so its task never is late."""
    return max(
        (
            number(module, keyword.value)
            for decorator in function.node.decorator_list
            if isinstance(decorator, ast.Call)
            for keyword in decorator.keywords
            if keyword.arg == "time_limit"
        ),
        default=0.0,
    )


def _outlasts_a_request(function: Function, lifetime: float) -> bool:
    """A lock of ten minutes around one request, which servers and browsers give up long before."""
    return lifetime >= _LONG and any("request" in scope.parameters for scope in function.chain())


def _is_within_its_lifetime(module: Module, function: Function, call: ast.Call) -> bool:
    """`if time.monotonic() < timeout_at and status: cache.delete(lock)`, the recipe of Celery's documentation."""
    ends = {
        name
        for _node, names, value in function.bindings
        for name in names
        if any(_is_clock(module, part) for part in ast.walk(value)) and _has_margin(value)
    }
    early = {
        name
        for _node, names, value in function.bindings
        for name in names
        if any(_is_early(module, part, ends) for part in ast.walk(value))
    }
    tests = [around.test for around in module.up(call) if isinstance(around, ast.If)]
    return any(
        _is_early(module, part, ends) or (isinstance(part, ast.Name) and part.id in early)
        for test in tests
        for part in ast.walk(test)
    )


def _is_early(module: Module, node: ast.AST, ends: set[str]) -> bool:
    """Whether the clock is compared with a time that lies before the end. Without a margin, the deletion is late."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    sides = (node.left, node.comparators[0])
    if isinstance(node.ops[0], ast.Gt | ast.GtE):
        sides = (sides[1], sides[0])
    elif not isinstance(node.ops[0], ast.Lt | ast.LtE):
        return False
    return any(_is_clock(module, part) for part in ast.walk(sides[0])) and (
        bool(names_in(sides[1]) & ends) or _has_margin(sides[1])
    )


def _has_margin(value: ast.expr) -> bool:
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in ast.walk(value))


def _is_clock(module: Module, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last(module.resolve(node.func)) in _CLOCKS


def _compares_an_owner(module: Module, function: Function) -> bool:
    for call in function.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _SCRIPTS:
            return True
        if isinstance(call.func, ast.Name | ast.Attribute) and "script" in ast.dump(call.func).lower():
            return True
    got = {
        name
        for _node, names, value in function.bindings
        for name in names
        if any(_gets(module, function, n) for n in ast.walk(value))
    }
    for compare in function.compares:
        for inner in ast.walk(compare):
            if (
                isinstance(inner, ast.Name)
                and inner.id in got
                and isinstance(compare.ops[0], ast.Eq | ast.NotEq)
            ):
                return True
            if _gets(module, function, inner) and isinstance(compare.ops[0], ast.Eq | ast.NotEq):
                return True
    return False


def _gets(module: Module, function: Function, node: ast.AST) -> bool:
    """`redis.get`: the owner stands in the store. `session.get("token")` compares something else."""
    return (
        isinstance(node, ast.Attribute) and node.attr == "get" and kind(module, node.value, function) != "no"
    )


def _frees_a_lock(module: Module, function: Function, key: ast.expr) -> bool:
    text = lockuse.key_text(function, key)
    if lockuse.is_other(f"{text} {lockuse.around(function)}") or isinstance(key, ast.Starred | ast.List):
        return False
    named = lockuse.says_lock(text)
    own = [call for scope in function.chain() for call in scope.calls if is_claim(module, call)]
    if any(lockuse.same_spelling(function, key, function, argument(c, 0, "name", "key")) for c in own):
        return True
    if _FORCES.search(function.name):
        return False
    releases = set(words(function.name)) & _RELEASES
    if releases and named and lockuse.says_lock(function.name):
        return True  # `release_sync_lock`: it may be taken in another file
    if releases and (named or lockuse.says_lock(lockuse.around(function))):
        return any(is_claim(module, call) for call in module.calls) or any(
            set(words(sibling.name)) & _TAKES or _sets(sibling, function, key)
            for sibling in lockuse.siblings(module, function)
        )
    claims = [
        (sibling, call)
        for sibling in lockuse.siblings(module, function)
        for call in sibling.calls
        if is_claim(module, call)
    ]
    return any(named or _is_of_nobody(function, key, sibling, call) for sibling, call in claims)


def _is_of_nobody(function: Function, key: ast.expr, other: Function, claim: ast.Call) -> bool:
    """Whatever its name: `redis.set(key, 1, nx=True, ex=60)` in one method, and the end of the work deletes the key."""
    value = argument(claim, 1, "value")
    lifetime = {"ex", "px", "timeout"} & keyword_names(claim)
    return (
        isinstance(value, ast.Constant)
        and bool(value.value)
        and bool(lifetime)
        and not isinstance(key, ast.Name)  # in another method, that name may mean another key
        and not _ENDS.isdisjoint(words(function.name))
        and lockuse.same_spelling(function, key, other, argument(claim, 0, "name", "key"))
    )


def _sets(sibling: Function, function: Function, key: ast.expr) -> bool:
    """The lock may be taken in another way, such as a set between WATCH and EXEC."""
    mine = skeleton(function, key)
    return mine != "" and any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _SETS
        and bool(call.args)
        and skeleton(sibling, call.args[0]) == mine
        for call in sibling.calls
    )


RULE = Rule(
    code="SG302",
    name="unlock-without-owner",
    summary="DEL of a lock key without comparing a token",
    confidence="high",
    scope="fleet",
    hints=(
        STORES,
        (b".delete(", b".adelete(", b".unlink("),
        (b"lock", b"Lock", b"LOCK", b"mutex", b"nx="),
        # A call that takes the freed lock.
        (
            b"nx",
            b"NX",
            b"acquire",
            b".add(",
            b"set_if_absent",
            b"enter__",
            b"try",
            b"take",
            b"obtain",
            b"claim",
            b"watch(",
        ),
    ),
    check=check,
    fix=by_its_owner,
    fixes=("unsafe",),
    documentation=Documentation(
        what="A lock's key is deleted without a check of its owner.",
        why="A computation runs longer than the lock's TTL and loses the lock. Another process takes it. "
        "The first process then deletes the second one's lock, and a third process enters.",
        example="if await redis.set(lock, 1, nx=True, ex=30):\n    try: ...\n    finally:\n      "
        "  await redis.delete(lock)",
        instead="Store a random token, and delete with a script that compares it (or hold a lease: guard.single).",
        unless="The deletion happens only some time before the lifetime ends, by a clock (not reported). The task is "
        "killed before its lock ends (`time_limit=` of Celery, not reported). "
        "An operator frees the lock by hand: functions called force, clear, reset and the like are "
        "not reported.",
        sure="High if the same function or class takes the lock, or is called release. Information if a lock of five "
        "minutes or more is held for one request: the server ends that first.",
        fix="Unsafe: the constant becomes a random token, and the deletion becomes a script that compares "
        "it (EVAL). One function must take a lock of a Redis client with `set(lock, 1, nx=True, ...)` "
        "and delete it afterwards. None if the value is not a constant, if two functions take and "
        "free the lock, or if the function uses the key in another way.",
    ),
)
