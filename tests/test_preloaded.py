"""The workers of a run are forked from one process that has imported and collected the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

CONFTEST = """
import os
from pathlib import Path

import pytest

from tests.support.preloaded import Preloaded

HERE = Path(__file__).parent

def pytest_xdist_setupnodes(config, specs):
    config.preloaded = Preloaded(config.invocation_params.args, specs)
    config.pluginmanager.register(config.preloaded)

def pytest_collection_finish():
    HERE.joinpath(f"collected-{os.getpid()}").touch()

@pytest.hookimpl(optionalhook=True)
def pytest_worker_begins(session):
    HERE.joinpath(f"began-{os.getpid()}").write_text(session.config.workerinput["workerid"])

def pytest_unconfigure(config):
    if hasattr(config, "preloaded"):
        config.preloaded.close()
"""
WHERE = """
import os, sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HERE.joinpath(f"imported-{os.getpid()}").touch()

@pytest.fixture(scope="session")
def once(tmp_path_factory):
    yield tmp_path_factory.getbasetemp()
    HERE.joinpath(f"ended-{os.getpid()}").touch()

def test_where_it_runs(once, capfd):
    HERE.joinpath(f"ran-{os.getpid()}").write_text(str(os.getppid()))
    assert sys.modules["__main__"].__dict__.get("__file__") is None
    assert once.name == "popen-" + os.environ["PYTEST_XDIST_WORKER"]
    os.system("echo its own words")
    assert capfd.readouterr().out == "its own words\\n"

def test_failing(capfd):
    print("what it printed")
    assert False

def test_skipped():
    pytest.skip("with a reason")
"""
WARNING = """
import warnings
warnings.warn("while it is imported")

import pytest
pytest.skip("none of this file", allow_module_level=True)
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


def test_each_worker_is_a_process_of_its_own_and_the_tests_were_collected_once(tmp_path: Path) -> None:
    done = run(tmp_path, "--dist=each", "-rs", test_where=WHERE, test_warning=WARNING)
    assert done.returncode == 1, done.stdout + done.stderr

    def told(what: str) -> dict[str, str]:
        return {path.name.partition("-")[2]: path.read_text() for path in tmp_path.glob(f"{what}-*")}

    [imported], [collected] = told("imported"), told("collected")
    assert imported == collected
    assert list(told("ran").values()) == [imported, imported], "both are forked from who imported"
    assert imported not in told("ran")
    assert {*told("ran")} == {*told("began")} == {*told("ended")}
    assert sorted(told("began").values()) == ["gw0", "gw1"]
    assert "2 failed, 2 passed, 3 skipped, 2 warnings" in done.stdout
    for said in ("what it printed", "while it is imported", "none of this file", "with a reason"):
        assert said in done.stdout


def test_a_broken_file_is_reported_and_so_is_a_worker_that_ends(tmp_path: Path) -> None:
    options = ["--dist=load", "--continue-on-collection-errors"]
    done = run(tmp_path, *options, test_broken=BROKEN, test_crashing=CRASHING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No module named 'no_such_module_at_all'" in done.stdout
    assert "crashed while running 'test_crashing.py::test_it_ends_here'" in done.stdout
