"""A fix that fails costs its own finding, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stampede_guard.audit import all_rules
from stampede_guard.audit.command import main
from stampede_guard.audit.fixing import apply as applying
from stampede_guard.audit.fixing import files as fixing
from stampede_guard.audit.plan import FixPlan
from stampede_guard.audit.source.builder import build

ONE_LINE = """import json
import redis
r = redis.Redis()


def sales(k: str):
    found = r.get(k)
    if found is not None: return json.loads(found)
    v = query(k); r.setex(k, 60, json.dumps(v)); return v
"""
OTHER = "from aiocache import cached\n\n\n@cached(ttl=60)\nasync def rates() -> int:\n    return 1\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(ONE_LINE)
    (tmp_path / "b.py").write_text(OTHER)
    return tmp_path


FIX = [".", "--no-config", "--no-cache", "--fix", "--unsafe-fixes", "--min-confidence", "low"]


def test_statements_that_share_a_line_are_left_alone(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(FIX) in (0, 1)
    said = capsys.readouterr()
    assert "a.py stays as it is: SG201 in sales: the statements to change share a line" in said.err
    assert "SG201" in said.out
    assert (project / "a.py").read_text() == ONE_LINE
    assert "locked_cache" in (project / "b.py").read_text()


def test_an_error_while_a_fix_is_applied_is_the_reason(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_given: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(applying, "enclosed", failing)
    (project / "a.py").write_text(ONE_LINE.replace("; ", "\n    "))
    assert main(FIX) in (0, 1)
    said = capsys.readouterr()
    assert "SG201 in sales: the fix failed: IndexError('tuple index out of range')" in said.err
    assert "locked_cache" in (project / "b.py").read_text()


def test_an_error_in_a_file_is_the_reason_for_that_file(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = fixing._todo

    def failing(path: str, *given: Any, **options: Any) -> Any:
        if path == "a.py":
            raise KeyError(path)
        return todo(path, *given, **options)

    monkeypatch.setattr(fixing, "_todo", failing)
    assert main(FIX) in (0, 1)
    assert "a.py stays as it is: the fix failed: KeyError('a.py')" in capsys.readouterr().err
    assert "locked_cache" in (project / "b.py").read_text()


def test_a_rule_whose_fix_fails_still_has_its_findings() -> None:
    def failing(*_given: object) -> FixPlan:
        raise KeyError("no such name")

    [rule] = [rule for rule in all_rules() if rule.code == "SG102"]
    [finding] = replace(rule, fix=failing).findings(build("b.py", OTHER))
    assert finding.fix is None and finding.no_fix == "the fix failed: KeyError('no such name')"
