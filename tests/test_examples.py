"""Each example is run as its reader would, and prints what its docstring says."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def empty_valkey() -> Iterator[str]:
    """A server without the leavings of other tests: the examples say what they print the first time."""
    with ValkeyServer() as server:
        yield server.url


def promised(path: Path) -> str:
    """The text that stands in the docstring after "prints, the first time:"."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    _, found, output = docstring.partition("prints, the first time:\n")
    assert found, "the docstring says what the example prints"
    return textwrap.dedent(output).strip()


def test_there_are_examples_and_the_readme_points_to_them() -> None:
    assert len(EXAMPLES) >= 12
    assert "(examples)" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it_and_is_short(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.search(rf"^    python examples/{path.name}$", text, re.MULTILINE)
    assert len(text.splitlines()) <= 80


async def test_every_example_prints_what_it_says(empty_valkey: str) -> None:
    # Two at a time: most of an example's time is Python starting.
    turns = asyncio.Semaphore(2)

    async def run(path: Path) -> str:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("STAMPEDE_GUARD_")
        }
        environment |= {"REDIS_URL": empty_valkey, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        async with turns, asyncio.timeout(60):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error::RuntimeWarning", str(path), env=environment, cwd=ROOT,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            try:
                output, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return output.decode().strip() + ("" if process.returncode == 0 else f"\nexit {process.returncode}")

    outputs = await asyncio.gather(*map(run, EXAMPLES))
    assert dict(zip([path.name for path in EXAMPLES], outputs, strict=True)) == {
        path.name: promised(path) for path in EXAMPLES
    }
