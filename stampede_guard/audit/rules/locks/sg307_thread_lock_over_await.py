"""SG307: a lock of threads that a coroutine holds while it awaits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, inside
from stampede_guard.audit.source.origins import origin

_LOCKS = re.compile(r"^(?:threading|multiprocessing)\.(R?Lock|Condition|(?:Bounded)?Semaphore)\(\)$")
_WITH = re.compile(r"^[ \t]+with\b", re.MULTILINE)


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions_with(_WITH):
        if not function.is_async:
            continue
        for block in function.withs:
            if not isinstance(block, ast.With):
                continue
            for item in block.items:
                made = _LOCKS.match(origin(module, item.context_expr, function))
                if made is not None and _awaits(function, block):
                    yield Violation(
                        node=item.context_expr,
                        message=_message(function, made.group(1)),
                        function=owned_name(function),
                    )


def _awaits(function: Function, block: ast.With) -> bool:
    """Whether the event loop may run another coroutine while the block holds the lock."""
    loops = [loop for loop in function.loops if isinstance(loop, ast.AsyncFor)]
    if any(inside(node, statement) for node in (*function.awaits, *loops) for statement in block.body):
        return True
    return _comprehends(block)


def _comprehends(block: ast.With) -> bool:
    """`[row async for row in rows()]`, but not in a function that is defined here and runs later."""
    nodes: list[ast.AST] = [*block.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp):
            nodes += ast.iter_child_nodes(node)
    return False


def _message(function: Function, kind: str) -> str:
    if kind in ("RLock", "Condition"):
        return (
            f"{owned_name(function)}() awaits in a lock of threads that its own thread may take again: all coroutines "
            "of the event loop enter at once"
        )
    return (
        f"{owned_name(function)}() awaits while it holds a lock of threads: the next coroutine that wants the lock "
        "stops the event loop, and nobody can free it"
    )


RULE = Rule(
    code="SG307",
    name="thread-lock-over-await",
    summary="a coroutine awaits while it holds a `threading.Lock`: the next one stops the event loop",
    confidence="high",
    scope="process",
    hints=((b"threading", b"multiprocessing"), (b"Lock", b"Condition", b"Semaphore"), (b"async def",)),
    check=check,
    documentation=Documentation(
        what=(
            "`with lock:` in a coroutine, where `threading` or `multiprocessing` made the lock, and an `await` inside."
        ),
        why=(
            "At the `await`, the event loop runs another coroutine of the same thread. If that one takes the lock, it "
            "blocks the thread, so the first one never gets back to free it: the worker hangs. A `RLock` does not "
            "block its own thread, so it lets all coroutines in."
        ),
        example="lock = threading.Lock()\n\nasync def load():\n    with lock:\n        return await fetch()",
        instead="lock = asyncio.Lock()\n\nasync def load():\n    async with lock:\n        return await fetch()",
        unless="One coroutine at most ever runs the function. Blocks without an `await` are not reported.",
        sure="High: the file shows what made the lock.",
        fix="No automatic fix: threads may need the lock as well, and `asyncio.Lock` does not work between them.",
    ),
)
