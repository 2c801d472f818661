"""The workers of a run are forked from one process that has imported the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

CONFTEST = """
from tests.support.preloaded import Preloaded

def pytest_xdist_setupnodes(config, specs):
    config.preloaded = Preloaded(config.invocation_params.args, specs)

def pytest_unconfigure(config):
    if hasattr(config, "preloaded"):
        config.preloaded.close()
"""
WHERE = """
import os, sys
from pathlib import Path

HERE = Path(__file__).parent
HERE.joinpath(f"imported-{os.getpid()}").touch()

def test_where_it_runs():
    HERE.joinpath(f"ran-{os.getpid()}").write_text(str(os.getppid()))
    assert sys.modules["__main__"].__dict__.get("__file__") is None
"""
BROKEN = """
import no_such_module_at_all
"""
CRASHING = """
import os

def test_it_ends_here():
    os._exit(3)
"""


def run(place: Path, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest": CONFTEST, **files}.items():
        (place / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(place), "-p", "xdist"]
    return subprocess.run(
        [*command, "--numprocesses=2", "--max-worker-restart=0", *arguments, str(place)],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip


def test_each_worker_is_a_process_of_its_own_and_the_tests_were_imported_once(tmp_path: Path) -> None:
    done = run(tmp_path, "--dist=each", test_where=WHERE)
    assert done.returncode == 0, done.stdout + done.stderr
    [imported] = [path.name.removeprefix("imported-") for path in tmp_path.glob("imported-*")]
    ran = {path.name.removeprefix("ran-"): path.read_text() for path in tmp_path.glob("ran-*")}
    assert list(ran.values()) == [imported, imported], "both are forked from who imported"
    assert imported not in ran


def test_a_broken_file_is_reported_and_so_is_a_worker_that_ends(tmp_path: Path) -> None:
    options = ["--dist=load", "--continue-on-collection-errors"]
    done = run(tmp_path, *options, test_broken=BROKEN, test_crashing=CRASHING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No module named 'no_such_module_at_all'" in done.stdout
    assert "crashed while running 'test_crashing.py::test_it_ends_here'" in done.stdout
