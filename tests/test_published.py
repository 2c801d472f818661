"""What a stranger gets: hints that name what exists, and public names that do not change silently."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

import hatch_build
from scripts.api_snapshot import SNAPSHOT, changes, public_api
from scripts.dist import NOT_FOR_USERS, check_contents
from scripts.extras import EXTRAS
from scripts.interpreters import SUPPORTED
from stampede_guard.deprecation import deprecated
from tests.test_repository import modules, tracked

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_INSTALLS = re.compile(r"pip install (?:-\S+ )*[\"'`]*stampede[_-]guard", re.IGNORECASE)


def test_no_hint_installs_the_package_under_a_name_that_no_index_has() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.suffix in (".py", ".md", ".toml", ".yml") and path.name != Path(__file__).name
        if _INSTALLS.search(path.read_text("utf-8"))
    ]
    assert found == [], "it is not published: name an extra of a clone of the repository"


def test_every_extra_that_a_hint_names_exists() -> None:
    named = {
        extra.strip()
        for path in tracked()
        if path.suffix in (".py", ".md")
        for extras in re.findall(r"pip install [\"'`]*\.\[([a-z0-9, ]+)\]", path.read_text("utf-8"))
        for extra in extras.split(",")
    }
    assert len(named) > 5 and named <= PROJECT["optional-dependencies"].keys()


def test_each_extra_for_users_is_tried_with_the_archives() -> None:
    assert PROJECT["optional-dependencies"].keys() - NOT_FOR_USERS == EXTRAS.keys()


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_program_that_tries_an_extra_runs_here(extra: str, tmp_path: Path) -> None:
    program = tmp_path / f"tried_{extra}.py"
    program.write_text(EXTRAS[extra], "utf-8")
    environ = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_nothing_that_a_checker_of_wheels_would_refuse(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    check_contents(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("stampede_guard/no-name.py", "")
    with pytest.raises(SystemExit, match="no-name"):
        check_contents(wheel)


def test_every_place_that_lists_the_supported_pythons_lists_the_same() -> None:
    def read(file: str, pattern: str) -> list[str]:
        return re.findall(r"3\.\d+", "".join(re.findall(pattern, (ROOT / file).read_text("utf-8"))))

    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert classifiers == list(SUPPORTED) == read(".github/workflows/ci.yml", r"python: \[(.*)\]")
    ends = [SUPPORTED[0], SUPPORTED[-1]]
    assert (
        read("Makefile", r"on every Python (.* to \S+)") == read("SECURITY.md", r"\| Python \| (.*);") == ends
    )


def test_every_place_that_names_the_oldest_python_names_the_same() -> None:
    oldest = SUPPORTED[0]
    told = {
        "pyproject.toml": (f'requires-python = ">={oldest}"', f'python_version = "{oldest}"',
                           f'pythonVersion = "{oldest}"', f'target-version = "py{oldest.replace(".", "")}"'),
        "Makefile": (f"a Python of {oldest} or later", f"needs Python {oldest} or later",
                     f"sys.version_info < ({oldest.replace('.', ', ')})"),
        "README.md": (f"Python {oldest}+",),
        ".ci/run": (f"Needs Python {oldest}+",),
        ".github/workflows/ci.yml": (f'python-version: "{oldest}"',),
        ".github/workflows/release.yml": (f'python-version: "{oldest}"',),
    }  # fmt: skip
    missing = {
        (file, text)
        for file, texts in told.items()
        for text in texts
        if text not in (ROOT / file).read_text("utf-8")
    }
    assert missing == set()


def test_what_make_installs_runs_on_the_first_release_of_the_oldest_python() -> None:
    """A distribution may have 3.11.2, and a package may ask for 3.11.5. Then `make` could install nothing there."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text("utf-8"), re.M))
    installed = [one for one in distributions() if pinned.get(one.metadata["Name"]) == one.version]
    assert len(installed) > 100
    needs = {one.metadata["Name"]: one.metadata.get("Requires-Python") or ">=3" for one in installed}
    refused = {name: told for name, told in needs.items() if f"{SUPPORTED[0]}.0" not in SpecifierSet(told)}
    assert refused == {}


def test_public_names_and_signatures_change_only_with_the_snapshot_and_a_line_in_the_changelog() -> None:
    before, now = SNAPSHOT.read_text("utf-8"), public_api()
    told = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    for change in changes(before, now):
        assert change.name in told, f"{change}: CHANGELOG.md has no line about it"
    assert now == before, "python -m scripts.api_snapshot writes docs/api.txt anew: commit it with the change"


def test_a_changed_signature_is_seen() -> None:
    before = "stampede_guard.f(a: int) -> str\nstampede_guard.g() -> None\n"
    after = "stampede_guard.f(a: int, b: int) -> str\nstampede_guard.h() -> None\n"
    assert [str(change) for change in changes(before, after)] == [
        "changed: stampede_guard.f",
        "removed: stampede_guard.g",
        "added: stampede_guard.h",
    ]


def test_a_deprecated_function_and_class_warn_at_the_place_of_their_use() -> None:
    @deprecated("old() is deprecated since 0.2 and goes in 0.4: write new()")
    def old(a: int) -> int:
        return a + 1

    @deprecated("Old is deprecated since 0.2 and goes in 0.4: write New")
    class Old:
        def __init__(self, a: int) -> None:
            self.a = a

    class Mine(Old):
        pass

    with pytest.warns(DeprecationWarning, match=r"write new\(\)") as told:
        assert old(1) == 2
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="write New"):
        assert Old(1).a == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Mine(2).a == 2
    assert old.__name__ == "old"


def test_every_deprecation_says_since_when_until_when_and_what_to_write() -> None:
    marks = [
        call.args[0].value
        for _, source in modules()
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "deprecated"
        if isinstance(call.args[0], ast.Constant)
    ]
    pattern = re.compile(r"is deprecated since \d+\.\d+ and goes in \d+\.\d+: write ")
    assert [mark for mark in marks if not pattern.search(mark)] == []
    assert pattern.search("old() is deprecated since 0.2 and goes in 0.4: write new()")


# --- addresses --------------------------------------------------------------------------------------------


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """The metadata of an archive that is built with this address."""

    def build(address: str) -> dict[str, Any]:
        monkeypatch.setenv(hatch_build.VARIABLE, address)
        metadata: dict[str, Any] = {}
        hatch_build.Addresses(str(ROOT), {}).update(metadata)
        return metadata

    return build


def test_without_an_address_nothing_is_invented(built: Callable[[str], dict[str, Any]]) -> None:
    metadata = built("")
    assert metadata["urls"] == {}
    assert metadata["readme"]["text"] == (ROOT / "README.md").read_text("utf-8")


def test_one_variable_sets_every_address(built: Callable[[str], dict[str, Any]]) -> None:
    metadata = built("https://code.example/me/guard/")
    tag = f"v{hatch_build.version(ROOT)}"
    assert metadata["urls"]["Repository"] == "https://code.example/me/guard"
    assert metadata["urls"]["Documentation"] == f"https://code.example/me/guard/blob/{tag}/docs"
    text = metadata["readme"]["text"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 20
    for image, link in links:
        assert re.match(r"https://", link), link
        kind, _, path = link.removeprefix("https://code.example/me/guard/").partition(f"/{tag}/")
        if link.startswith("https://code.example"):
            assert kind == ("raw" if image else "blob")
            assert (ROOT / path.partition("#")[0]).exists(), link


@pytest.mark.parametrize(
    "address", ["me/guard", "http://code.example/me/guard", "https://code.example", "https://a/b?c"]
)
def test_an_address_that_is_none_ends_the_build(built: Callable[[str], dict[str, Any]], address: str) -> None:
    with pytest.raises(ValueError, match="STAMPEDE_GUARD_REPOSITORY"):
        built(address)


def test_the_release_workflow_sets_the_address() -> None:
    assert (
        f"{hatch_build.VARIABLE}: ${{{{ github.server_url }}}}"
        in (ROOT / ".github/workflows/release.yml").read_text()
    )
