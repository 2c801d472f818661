"""Test files are compiled once, before six workers would each compile them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.compiled import uncompiled


def test_a_file_is_compiled_when_pytest_has_collected_it_and_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "test_one.py"
    path.write_text("def test_one() -> None:\n    assert 1\n")
    assert uncompiled(tmp_path) == [path]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(path)]
    subprocess.run(collect, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
    assert uncompiled(tmp_path) == []
    later = path.stat().st_mtime + 1_000
    os.utime(path, (later, later))
    assert uncompiled(tmp_path) == [path]
