"""SG612: a memo that is made anew at each call, so it never hits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Function, Module

_MEMOS = re.compile(r"^(?:functools\.(?:lru_cache|cache)|cachetools\.(?:func\.)?\w+|async_lru\.alru_cache)$")
# Functions that run once: what they define lives on.
_ONCE = re.compile(
    r"^(?:create_app|make_\w+|get_\w+_router|setup|main|register\w*|init\w*|configure\w*|build_\w+)$|_factory$"
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        around = decoration.function.outer
        if around is None or not _MEMOS.match(decoration.name) or _ONCE.search(around.name):
            continue
        if _is_called_once_here(module, decoration, around):
            yield Violation(
                node=decoration.node,
                message=f"each call of {around.name}() makes a new {decoration.function.name}() with an empty memo: "
                "nothing that is kept is ever found",
                function=owned_name(around),
            )


def _is_called_once_here(module: Module, decoration: Decoration, around: Function) -> bool:
    """Whether the function is only called, outside of loops and of other functions: each memo is asked once."""
    name = decoration.function.name
    own = set(around.calls)
    called: list[ast.Call] = []
    for node in ast.walk(around.node):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            call = module.parents.get(node)
            if not isinstance(call, ast.Call) or call.func is not node or call not in own:
                return False
            called.append(call)
    return len(called) == 1 and not any(_repeats(node) for node in _within(module, called[0], around))


def _within(module: Module, call: ast.Call, around: Function) -> Iterator[ast.AST]:
    for node in module.up(call):
        if node is around.node:
            return
        yield node


def _repeats(node: ast.AST) -> bool:
    return isinstance(
        node,
        ast.For
        | ast.AsyncFor
        | ast.While
        | ast.Lambda
        | ast.ListComp
        | ast.SetComp
        | ast.DictComp
        | ast.GeneratorExp,
    )


RULE = Rule(
    code="SG612",
    name="memo-of-one-call",
    summary="`lru_cache` on a function inside another one: each call has a new, empty memo",
    confidence="high",
    scope="process",
    hints=((b"lru_cache", b"functools", b"cachetools"), (re.compile(rb"\n[ \t]+@[\w.]*cache"),)),
    check=check,
    documentation=Documentation(
        what=(
            "`lru_cache`, `cache` or a memo of cachetools decorates a function that is defined inside another one, "
            "which calls it once."
        ),
        why=(
            "The decorator runs with each call of the outer function. So each call begins with an empty memo, asks it "
            "once and drops it: the work is done each time."
        ),
        example='def check(user):\n    @lru_cache(maxsize=1)\n    def dummy():\n        return hash_password("x")\n\n'
        "    return verify(user, dummy())",
        instead='@lru_cache(maxsize=1)\ndef dummy():\n    return hash_password("x")',
        unless=(
            "The outer function runs once. Functions that are returned, passed on, called in a loop, by themselves or "
            "in several places are not reported."
        ),
        sure="High: all uses are in the outer function.",
        fix="No automatic fix: the inner function may use names of the outer one.",
    ),
)
