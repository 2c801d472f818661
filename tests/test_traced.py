"""The tracer of `make test` sees the beginning of each test, and stops before it makes a long one slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import traced

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import coverage
from tests.support import traced
traced.SECONDS = {seconds}

tracer = coverage.Coverage(data_file=None, config_file=False, include=["*/traced_here.py"], branch=True)
tracer.start()
with traced.measured():
    import traced_here
    traced_here.again()
    while {seconds} < 1_000.0 and sys.gettrace() is not None:
        traced_here.again()
    traced_here.late()
assert sys.gettrace() is not None, "the next test has the tracer again"
with traced.measured():
    traced_here.next_test()
tracer.stop()
print(tracer.analysis2(traced_here.__file__)[3])
"""
LINES = """
def again(): return 2

def late():
    return 3

def next_test():
    return 4
"""


def run(program: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        check=False, capture_output=True, text=True, cwd=cwd, env=environment, timeout=60,
    )  # fmt: skip


UNDER = """
import sys
sys.path.insert(0, {root!r})
import coverage
from tests.support import traced

started = [coverage.Coverage(data_file=None, config_file=False) for _ in range(3)]
for tracer in started:
    tracer.start()
traced.SECONDS = 0.05
with traced.measured():
    while sys.gettrace() is not None:
        pass
assert coverage.Coverage.current() is started[-1], "and it goes on"
started[-1].stop()
assert sys.gettrace() is None
"""


def test_the_tracers_below_the_newest_do_not_go_on_where_it_stops() -> None:
    """Otherwise the workers of `make test` measure every test to its end."""
    done = run(UNDER.format(root=str(Path(__file__).parent.parent)))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("seconds", "missed"), [(0.05, "[5]"), (10_000.0, "[]")])
def test_the_tracer_stops_when_a_test_has_computed_for_a_while_and_the_next_one_has_it_again(
    seconds: float, missed: str, tmp_path: Path
) -> None:
    (tmp_path / "traced_here.py").write_text(LINES)
    root = str(Path(__file__).parent.parent)
    done = run(PROGRAM.format(root=root, seconds=seconds), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == missed


RESTING = """
import sys
sys.path.insert(0, {root!r})
import coverage
from tests.support import traced

tracer = coverage.Coverage(data_file=None, config_file=False, include=["*/traced_here.py"], branch=True)
tracer.start()
import traced_here
worker = traced.Novelty()

def played(path, function):
    with worker.measured(path):
        yes = sys.gettrace() is not None
        function()
    assert sys.gettrace() is not None
    return "y" if yes else "n"

print("".join(played(f"tests/one.py::test_it[{{i}}]", traced_here.again) for i in range(13)))
print("".join(played(f"tests/one.py::test_it[late-{{i}}]", traced_here.late) for i in range(12)))
print("".join(played(f"tests/one.py::test_other[{{i}}]", traced_here.again) for i in range(3)))
print("".join(played(traced.WITH_CHILDREN[0] + "::test_it", traced_here.again) for _ in range(4)))
tracer.stop()
print(tracer.analysis2(traced_here.__file__)[3])
"""


def test_the_tracer_rests_while_the_cases_of_a_test_reach_nothing_new(tmp_path: Path) -> None:
    """Which are half of `make test`. Tests that fork are measured always."""
    (tmp_path / "traced_here.py").write_text(LINES)
    done = run(RESTING.format(root=str(Path(__file__).parent.parent)), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    longer_and_longer = "y" + "yn" + "ynn" + "ynnnn" + "yn"
    until_something_is_new = "nnnnnnn" + "y" + "yn" + "yn"
    assert done.stdout.split() == [longer_and_longer, until_something_is_new, "yny", "yyyy", "[8]"]


def test_most_processes_are_run_without_the_tracer_and_what_is_there_is_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COVERAGE_PROCESS_CONFIG", "given")
    with traced.without_children("tests/bench/test_micro.py::test_it"):
        assert "COVERAGE_PROCESS_CONFIG" not in os.environ
    with traced.without_children("tests/traps/test_forks.py::test_it"):
        assert os.environ["COVERAGE_PROCESS_CONFIG"] == "given"
    assert os.environ["COVERAGE_PROCESS_CONFIG"] == "given"


def test_what_was_measured_of_the_imports_is_given_once_and_only_where_there_is_any(tmp_path: Path) -> None:
    """Before that, a worker of pytest-xdist that begins would erase it."""
    kept, looked_for = tmp_path / "kept", tmp_path / ".coverage.one"
    kept.mkdir()
    traced.give_measured(kept)
    (kept / "measured").write_bytes(b"lines")
    (kept / "measured-for").write_text(str(looked_for))
    traced.give_measured(kept)
    traced.give_measured(kept)
    assert looked_for.read_bytes() == b"lines"
    assert not list(kept.iterdir())
