"""What the pages write in code: each block of Python is run by some test, and what they name of ours exists."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from stampede_guard.audit import command as audit
from stampede_guard.ops.cli.app import app
from tests.test_repository import ELSEWHERE, PAGES

ROOT = Path(__file__).resolve().parent.parent
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
_FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
FILES_OF_A_TEST = {
    "docs/calls.md": {"test_shop.py"},
    "docs/ten-minutes.md": {"shop.py", "visitors.py", "test_shop.py"},
}
"""Blocks with the name of a file: `tests/testing/test_plugin.py` and `tests/test_ten_minutes.py` run them."""
LANGUAGES = {"", "console", "diff", "lua", "mermaid", "sh", "sql", "text", "toml", "yaml"}


def code() -> Iterator[tuple[str, str]]:
    """Each line of a block and each piece of code in a sentence, with its page."""
    for page, text in TEXTS.items():
        for _, block in _FENCE.findall(text):
            yield from ((page, line.removeprefix("$ ").strip()) for line in block.splitlines())
        for found in _CODE.findall(_FENCE.sub("", text)):
            yield page, found


@pytest.mark.parametrize("page", TEXTS)
def test_each_block_of_python_is_run_by_some_test(page: str) -> None:
    kinds = {info.strip() for info, _ in _FENCE.findall(TEXTS[page])}
    if "python" in kinds:
        assert page in {*PAGES, *ELSEWHERE}
    titled = set(re.findall(r'^```python title="([^"]+)"$', TEXTS[page], re.MULTILINE))
    assert titled <= FILES_OF_A_TEST.get(page, set())
    known = LANGUAGES | {"python"} | {f'python title="{name}"' for name in titled}
    assert kinds <= known, "a test must run Python: mark it python, or python title=... and add the test"


@pytest.mark.parametrize("page", TEXTS)
def test_no_block_of_python_hides_from_the_tests(page: str) -> None:
    """A block without a language, or an indented one, is none that Python could run."""
    plain = _FENCE.sub("", TEXTS[page])
    hidden = [block for info, block in _FENCE.findall(TEXTS[page]) if not info.strip()]
    hidden += re.findall(r"(?:^\n)((?: {4}.*\n)+)", plain, re.MULTILINE)
    assert [block for block in hidden if is_python(block)] == []


def is_python(block: str) -> bool:
    try:
        tree = compile(
            textwrap.dedent(block), "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
    except SyntaxError:
        return False
    values = [node.value if isinstance(node, ast.Expr) else node for node in tree.body]
    return any(isinstance(value, ast.stmt | ast.Call | ast.Await) for value in values)


def options(command: Any) -> set[str]:
    return {option for given in command.params for option in (*given.opts, *given.secondary_opts)} | {
        "--help",
        "--version",
    }


def wrong_in(words: list[str]) -> str:
    """What of a command line does not exist, or nothing."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        found = command.get_command(None, rest[0])
        if found is None:
            return rest[0]
        command = found
        rest.pop(0)
    known = options(command)
    if command.name == "audit":
        known |= {name for action in audit._parser()._actions for name in action.option_strings}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return next((option for option in given if option not in known), "")


def lines_of(program: str) -> list[tuple[str, list[str]]]:
    found = []
    for page, line in code():
        if line.startswith(f"{program} "):
            plain = re.split(r" (?:#|\||&&|>)", line)[0].rstrip(".,")
            found.append((page, shlex.split(plain)[len(program.split()) :]))
    return found


def test_commands_and_options_that_a_page_names_exist() -> None:
    lines = [*lines_of("stampede-guard"), *lines_of("python -m stampede_guard")]
    lines += [(page, ["audit", *rest]) for page, rest in lines_of("python -m stampede_guard.audit")]
    named = [(page, words) for page, words in lines if words and not words[0].isupper()]
    assert len(named) > 40
    wrong = {(page, " ".join(words), wrong_in(words)) for page, words in named if wrong_in(words)}
    assert wrong == set()


def test_a_wrong_command_and_a_wrong_option_are_found() -> None:
    assert wrong_in(["kesy"]) == "kesy"
    assert wrong_in(["leases", "lits"]) == "lits"
    assert wrong_in(["keys", "--limt", "7"]) == "--limt"
    assert wrong_in(["audit", ".", "--fxi"]) == "--fxi"
    assert wrong_in(["audit", ".", "--fix", "--output-format=json"]) == ""


def test_targets_of_make_that_a_page_names_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {(page, rest[0]) for page, rest in lines_of("make") if rest}
    assert len(named) > 5
    assert {one for one in named if one[1] not in targets} == set()


def test_modules_and_files_of_ours_that_a_page_names_exist() -> None:
    modules = {
        (page, found)
        for page, line in code()
        for found in re.findall(r"python -m ((?:bench|examples|scripts|tests|stampede_guard)[a-z_.]*)", line)
    }
    files = {
        (page, found)
        for page, line in code()
        for found in re.findall(r"^((?:bench|examples|scripts|tests|stampede_guard)/[\w./]+\.py)$", line)
    }
    assert len(modules) > 5 and len(files) > 20
    assert {one for one in modules if importlib.util.find_spec(one[1].rstrip(".")) is None} == set()
    assert {one for one in files if not (ROOT / one[1]).exists()} == set()


def test_pages_that_the_code_names_exist() -> None:
    """In docstrings, errors and log lines: a reader looks for what they name."""
    named = {
        (str(path.relative_to(ROOT)), page)
        for folder in ("stampede_guard", "scripts", "bench", "examples", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if "repo_sync" not in path.parts
        for page in re.findall(r"\bdocs/[a-z0-9-]+\.md\b", path.read_text("utf-8"))
    }
    assert len(named) > 30
    assert {one for one in named if not (ROOT / one[1]).exists()} == set()
