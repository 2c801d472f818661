"""The repository's own rules, so that nobody has to remember them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "stampede_guard"
LONGEST_FILE = 400
LONGEST_FUNCTION = 60

# A path of somebody's machine, or the address of a package index: true in one place only.
_LOCAL = re.compile(
    r"(?<![\w.:/-])/(?:root|home|Users|work|opt/(?!homebrew))/?\w"
    r"|https?://[^\s)\"']*(?:pypi\.|pythonhosted|npmjs|/simple\b)"
    r"|(?:extra-)?index-url|find-links"
)
_PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def tracked() -> list[Path]:
    """What a clone contains; in an unpacked source archive, what was archived."""
    if not (ROOT / ".git").exists():
        return [
            path for path in ROOT.rglob("*") if path.is_file() and "." not in str(path.relative_to(ROOT))[:1]
        ]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_a_file_of_the_package_is_one_noun_and_so_at_most_400_lines() -> None:
    lengths = {name: len(source.splitlines()) for name, source in modules()}
    assert lengths, "no modules found: the rule would hold for nothing"
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_a_function_of_the_package_fits_on_a_screen() -> None:
    too_long = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, source in modules()
        for node in functions(source)
        if (node.end_lineno or node.lineno) - node.lineno >= LONGEST_FUNCTION
    }
    assert too_long == {}


def test_the_core_awaits_nothing() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = {
        f"{name}:{node.lineno}"
        for name, source in modules(PACKAGE / "core")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, waiting)
    }
    assert found == set()


def test_every_module_of_the_package_says_what_it_is() -> None:
    assert [name for name, source in modules() if not ast.get_docstring(ast.parse(source))] == []


def test_nothing_tracked_names_a_machine_or_a_package_index() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        lines = enumerate(text.splitlines(), 1)
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line[:120]}"
            for number, line in lines
            if _LOCAL.search(line)
        ]
    assert found == []


def test_the_constraints_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    stated = [line for line in lines if line and not line.startswith("#")]
    assert stated and [line for line in stated if not _PIN.fullmatch(line)] == []


def test_the_version_of_the_package_has_its_part_of_the_changelog() -> None:
    import stampede_guard

    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {stampede_guard.__version__}" in changelog


ELSEWHERE = {"docs/timeouts.md", "docs/testing.md"}
"""Pages whose blocks are run where what they need is: a PostgreSQL, a pytest."""
PAGES = [
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text("utf-8") and str(path.relative_to(ROOT)) not in ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_as_it_is_written(page: str, valkey_url: str) -> None:
    command = [sys.executable, "-m", "tests.documents", str(ROOT / page), valkey_url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_an_exception_of_the_floors_is_for_types_only() -> None:
    """`ignore_imports` of a layers contract: upward, such an import names a type and loads nothing."""
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layered = [one for one in contracts if one["type"] == "layers"]
    exceptions = {rule for one in layered for rule in one.get("ignore_imports", []) if ".** -> " not in rule}
    assert exceptions, "no exceptions found: the rule would hold for nothing"
    found = []
    for rule in sorted(exceptions):
        importer, _, imported = rule.partition(" -> ")
        path = ROOT.joinpath(*importer.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        # `if TYPE_CHECKING:` at the top of a module, and nothing else, imports it.
        tree = ast.parse(file.read_text("utf-8"))
        found += [rule for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == imported]
    assert found == []
