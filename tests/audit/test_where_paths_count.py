"""Paths in pyproject.toml count from the folder that it stands in, wherever the audit is called from."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stampede_guard.audit.command import main
from tests.audit.test_engine import FILL, lay

KEYS = b'def names(redis):\n    return redis.keys("user:*")\n'
Found = Callable[..., list[str]]
TABLE = "[tool.stampede-guard.audit]\n"
SETTINGS = [
    'exclude = ["app/keys.py"]',
    'exclude = ["./app/keys.py"]',
    'per-file-ignores = { "app/k*.py" = ["SG403"] }',
    'baseline = "ci/known.json"',
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages, and a baseline that knows of what is in keys.py."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    lay(root, {"app/main.py": FILL, "app/keys.py": KEYS, "lib/deep/more.py": FILL, "ci/empty": b""})
    assert main(["app/keys.py", "--write-baseline", "ci/known.json"]) == 0
    return root


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Found:
    """The files with findings, by their last names."""

    def run(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert main([*arguments, "--output-format", "json"]) in (0, 1)
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return sorted(Path(finding["path"]).name for finding in said["findings"])

    return run


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_means_the_same_from_every_folder_and_for_every_spelling(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    lay(project, {"pyproject.toml": f"{TABLE}{setting}\n".encode()})
    assert found(".") == ["main.py", "more.py"]
    assert found(str(project)) == ["main.py", "more.py"]
    monkeypatch.chdir(project / "app")
    assert found(".") == found(str(project / "app")) == ["main.py"]
    assert found("..") == ["main.py", "more.py"]
    monkeypatch.chdir(project / "lib" / "deep")
    assert found("../../app", ".") == found(str(project)) == ["main.py", "more.py"]
    monkeypatch.chdir(project.parent)
    assert found("project") == found(str(project)) == ["main.py", "more.py"]
    assert found("project", "--config", "project/pyproject.toml") == ["main.py", "more.py"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_folder_reached_by_a_link_is_the_folder(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    lay(project, {"pyproject.toml": f"{TABLE}{setting}\n".encode()})
    link = project.parent / "link"
    link.symlink_to(project)
    assert found(str(link)) == ["main.py", "more.py"]
    monkeypatch.chdir(link)
    assert found(str(link / "app"), str(project / "lib")) == ["main.py", "more.py"]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("folder", [".", "app", "lib/deep", ".."])
def test_an_editor_may_call_from_anywhere(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch, setting: str, folder: str
) -> None:
    lay(project, {"pyproject.toml": f"{TABLE}{setting}\n".encode()})
    monkeypatch.chdir(project / folder)
    stdin(monkeypatch, KEYS)
    assert found("-", "--stdin-filename", str(project / "app" / "keys.py")) == []
    stdin(monkeypatch, FILL)
    assert found("-", "--stdin-filename", str(project / "app" / "main.py")) == ["main.py"]


@pytest.mark.parametrize("glob", ["deep", "lib", "lib/*", "*.py"])
def test_an_editor_hears_nothing_of_what_a_walk_would_leave_out(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch, glob: str
) -> None:
    lay(project, {"pyproject.toml": f'{TABLE}exclude = ["{glob}"]\n'.encode()})
    stdin(monkeypatch, FILL)
    assert found("-", "--stdin-filename", "lib/deep/more.py") == found("lib") == []


def test_the_text_of_an_excluded_file_comes_back_as_it_was(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lay(project, {"pyproject.toml": f'{TABLE}exclude = ["app"]\n'.encode()})
    stdin(monkeypatch, KEYS)
    assert main(["-", "--stdin-filename", "app/keys.py", "--fix", "--unsafe-fixes"]) == 0
    assert capfdbinary.readouterr().out == KEYS


def test_paths_on_the_command_line_count_from_the_working_directory(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(project, {"pyproject.toml": f'{TABLE}exclude = ["lib"]\n'.encode()})
    monkeypatch.chdir(project / "app")
    assert found("..", "--exclude", "app/keys.py") == ["keys.py", "main.py"]
    assert found("..", "--exclude", "keys.py") == ["main.py"]
    assert found("..", "--baseline", "../ci/known.json") == ["main.py"]
    assert main(["..", "--baseline", "ci/known.json"]) == 2


def test_a_baseline_is_the_same_wherever_it_was_written(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(project, {"pyproject.toml": TABLE.encode()})
    monkeypatch.chdir(project / "lib")
    assert main([str(project), "--write-baseline", "../known.json"]) == 0
    monkeypatch.chdir(project)
    assert found(".", "--baseline", "known.json") == []


def test_the_nearest_table_of_what_is_judged_counts_where_the_working_directory_is_elsewhere(
    project: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(project, {"pyproject.toml": f'{TABLE}exclude = ["app"]\n'.encode()})
    other = project.parent / "other"
    lay(other, {"pyproject.toml": f'{TABLE}ignore = ["SG2"]\n'.encode(), "x/y.py": FILL + KEYS})
    monkeypatch.chdir(other)
    assert found(".") == ["y.py"]
    assert found(str(project)) == ["more.py"]
    assert found(str(project / "lib" / "deep" / "more.py"), str(project / "app")) == ["more.py"]


def test_a_named_configuration_is_that_file_and_no_other(
    project: Path, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(project, {"pyproject.toml": f'{TABLE}exclude = ["app"]\n'.encode()})
    lay(
        project,
        {"ci/pyproject.toml": b"[project]\n", "ci/strict.toml": f'{TABLE}ignore = ["SG4"]\n'.encode()},
    )
    assert found(".", "--config", "ci/strict.toml") == ["main.py", "more.py"]
    assert main([".", "--config", "ci/pyproject.toml"]) == 2
    assert "[tool.stampede-guard.audit]" in capsys.readouterr().err
