"""SG311: a loop that asks for a lock again and again, without a pause."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import is_locky, last, path, words

_LOOPS = re.compile(r"^[ \t]+while\b", re.MULTILINE)
_PAUSES = frozenset("sleep wait wait_for pause delay join timeout select poll".split())
# Options of calls that wait by themselves for a lock that is taken.
_WAITS = frozenset("blocking_timeout timeout wait blocking block".split())
_ASKS = frozenset("is has need needs owns unlock release".split())
# What waits for the next thing to do.
_TAKES = frozenset(
    "get recv receive pop blpop brpop next accept read consume listen fetch poll take dequeue".split()
)


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions_with(_LOOPS):
        for loop in function.loops:
            if isinstance(loop, ast.While):
                yield from _spins(module, function, loop)


def _spins(module: Module, function: Function, loop: ast.While) -> Iterator[Violation]:
    pauses = [call for call in function.calls if inside(call, loop) and _pauses(call)]
    if not pauses:
        return
    for test in function.tests:
        if (
            not isinstance(test, ast.If)
            or not inside(test, loop)
            or not isinstance(test.body[-1], ast.Continue)
        ):
            continue
        asked = _asks_for_a_lock(function, test)
        if asked is None or _waits_before(function, loop, asked) or not _is_of(module, test.body[-1], loop):
            continue
        # A pause above the test, in its branch, or in a `finally` around it comes before the next attempt.
        if all(
            position(call) > position(test.body[-1]) and not _comes_first(module, call, test)
            for call in pauses
        ):
            yield Violation(
                node=asked,
                message=f"{owned_name(function)}() asks again at once while another process has the lock: `continue` "
                "leaves out the pause at the end of the loop",
                function=owned_name(function),
            )
            return


def _pauses(call: ast.Call) -> bool:
    return not _PAUSES.isdisjoint(words(last(path(call.func))))


def _asks_for_a_lock(function: Function, test: ast.If) -> ast.Call | None:
    """`if not await try_lock(...)`, or a name that holds the answer: the branch is for a lock that is taken."""
    if not isinstance(test.test, ast.UnaryOp) or not isinstance(test.test.op, ast.Not):
        return None
    asked = test.test.operand
    if isinstance(asked, ast.Name):
        values = [
            value
            for node, names, value in function.bindings
            if names == [asked.id] and inside(node, test) is False
        ]
        asked = values[-1] if values else asked
    while isinstance(asked, ast.Await):
        asked = asked.value
    if not isinstance(asked, ast.Call):
        return None
    name = last(path(asked.func))
    if name == "acquire":
        blocking = argument(asked, 0, "blocking")
        at_once = isinstance(blocking, ast.Constant) and blocking.value is False
        return asked if at_once and is_locky(last(path(asked.func).rpartition(".")[0])) else None
    if any(option.arg in _WAITS for option in asked.keywords):
        return None
    return asked if is_locky(name) and _ASKS.isdisjoint(words(name)) else None


def _waits_before(function: Function, loop: ast.While, asked: ast.Call) -> bool:
    """`message = await queue.get()`: each round waits for something to do."""
    return any(
        inside(node, loop) and position(node) < position(asked) and getattr(node, "value", None) is not asked
        for node in function.awaits
        if isinstance(node, ast.Await)
    ) or any(
        inside(call, loop) and position(call) < position(asked) and last(path(call.func)) in _TAKES
        for call in function.calls
    )


def _is_of(module: Module, node: ast.AST, loop: ast.While) -> bool:
    """Whether `continue` belongs to this loop, and not to one inside it."""
    nearest = next(
        (one for one in module.up(node) if isinstance(one, ast.While | ast.For | ast.AsyncFor)), None
    )
    return nearest is loop


def _comes_first(module: Module, pause: ast.Call, test: ast.If) -> bool:
    """In a `finally` around the test."""
    return any(
        isinstance(around, ast.Try) and any(inside(pause, statement) for statement in around.finalbody)
        for around in module.up(test)
    )


RULE = Rule(
    code="SG311",
    name="spins-without-lock",
    summary="a loop whose `continue` leaves out its pause while another process has the lock",
    confidence="high",
    scope="fleet",
    hints=(
        (b"while ",),
        (b"continue",),
        (b"acquire(", re.compile(rb"lock\w{0,80}\("), re.compile(rb"Lock\w{0,80}\(")),
        (b"sleep", b"wait", b"pause", b"delay"),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "An endless loop tries to take a lock. If another process has it, the loop begins again with `continue`, "
            "and the only pause stands below."
        ),
        why=(
            "The worker without the lock asks as fast as it can, as long as the other one works. It uses a processor "
            "and a connection of the store, and slows the holder down."
        ),
        example="while True:\n    if not try_lock():\n        continue\n    work()\n    time.sleep(60)",
        instead="while True:\n    if try_lock():\n        work()\n    time.sleep(60)",
        unless="The attempt itself waits: calls with a timeout are not reported.",
        sure="High: the loop, the attempt and the pause are in one function.",
        fix="No automatic fix: the pause may depend on what the loop has done.",
    ),
)
