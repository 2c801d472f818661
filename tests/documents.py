"""Run the Python of a Markdown page as a reader would: block after block, in one program.

    python -m tests.documents README.md redis://127.0.0.1:6379/0

Blocks marked `python` run in order and share their names; `await` works at the top level. A block without it runs
without an event loop. The second argument takes the place of `redis://localhost:6379/0` in the text.

Left out are the halves of a pair, below "Before:" and "After:". Each needs a process of its own: see `tests.migrating`.
"""

from __future__ import annotations

import ast
import asyncio
import contextvars
import inspect
import re
import sys
import types
from collections.abc import Awaitable
from pathlib import Path

_BLOCK = re.compile(r"(?<!^Before:\n\n)(?<!^After:\n\n)^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DEADLINE = 15.0
_WRITTEN_URL = "redis://localhost:6379/0"


def blocks(page: str) -> list[tuple[int, str]]:
    """The line each block begins on, and its text."""
    return [(page.count("\n", 0, found.start(1)) + 1, found[1]) for found in _BLOCK.finditer(page)]


def run(path: Path, url: str) -> None:
    # Eight guards that connect at once may miss the library's deadline on a busy machine, and then count it as away.
    url = f"{url}?socket_timeout={DEADLINE:g}"
    # A real module: annotations and dataclasses look their names up there.
    module = types.ModuleType("page")
    sys.modules["page"] = module
    context = contextvars.copy_context()
    with asyncio.Runner() as runner:
        for line, text in blocks(path.read_text("utf-8")):
            source = "\n" * (line - 1) + text.replace(_WRITTEN_URL, url)
            code = compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            # A block without `await` is plain code: no event loop runs around it.
            result = context.run(eval, code, module.__dict__)
            if inspect.isawaitable(result):
                runner.run(_awaited(result), context=context)


async def _awaited(result: Awaitable[object]) -> None:
    await result


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
