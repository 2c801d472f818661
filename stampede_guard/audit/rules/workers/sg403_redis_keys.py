"""SG403: KEYS instead of SCAN."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.worth import serves
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.fixes.expressions import scan
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.programs import is_started_by_hand
from stampede_guard.audit.source.words import is_cachy, last, path, text_of


def check(module: Module) -> Iterator[Violation]:
    for call in module.calls_of("keys", "execute_command"):
        function = module.owners.get(call)
        if not _is_keys(module, call, function) and not _is_command(call):
            continue
        if function is None or not is_started_by_hand(module, function):
            yield Violation(
                node=call,
                message="KEYS walks the whole keyspace in one step and blocks every other client: "
                "SCAN does not",
                level="warning" if function is not None and serves(module, function) else "information",
                function=function.name if function else "",
            )


def _is_keys(module: Module, call: ast.Call, function: Function | None) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "keys":
        return False
    if len(call.args) + len(call.keywords) > 1 or any(
        k.arg not in ("pattern", "search") for k in call.keywords
    ):
        return False
    receiver = call.func.value
    if not call.args and not call.keywords:
        # Without a pattern, `.keys()` looks like a dict's. Only an awaited one belongs to a client.
        return isinstance(module.parents.get(call), ast.Await) and kind(module, receiver, function) != "no"
    if isinstance(receiver, ast.Name | ast.Attribute | ast.Call) and kind(module, receiver, function) != "no":
        return True
    if is_cachy(last(path(receiver))) or "redis" in origin(module, receiver, function).lower():
        return True
    return "*" in text_of(call.args[0] if call.args else call.keywords[0].value)


def _is_command(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    return (
        last(path(call.func)) == "execute_command"
        and isinstance(first, ast.Constant)
        and str(first.value).upper() == "KEYS"
    )


RULE = Rule(
    code="SG403",
    name="redis-keys",
    summary="`KEYS` instead of SCAN",
    confidence="high",
    scope="fleet",
    hints=(
        (b".keys(", b"execute_command("),
        (re.compile(rb"\.keys\(\s*[^)\s]"), re.compile(rb"await [^\n]{0,300}\.keys\("), b"execute_command("),
    ),
    check=check,
    fix=scan,
    fixes=("unsafe",),
    documentation=Documentation(
        what="`keys(pattern)` is called on a Redis client.",
        why="KEYS is O(N) in all keys of the server, and the server runs nothing else during that time. "
        "With a million keys, all clients wait for it.",
        example='for key in await redis.keys("user:*"): ...',
        instead='async for key in redis.scan_iter("user:*", count=500): ...',
        unless="The server is small and used by this program only, as in a test. Management commands, and scripts "
        "that end, are not reported: a person starts them.",
        sure="High: `.keys` with a pattern, on an object that is a client by its name, its origin or the "
        "pattern. The report names a file once, with its number of calls; `--fix` mends each, editors show each. "
        "A warning where requests wait for it, by the names of the file and its folders, "
        "a route or a parameter `request`; else information.",
        fix="Unsafe: `keys(pattern)` becomes `scan_iter(pattern)`, collected in a list if it is not used "
        "in a loop. SCAN sees keys that appear and disappear during the scan, and may return a key "
        "twice.",
    ),
)
