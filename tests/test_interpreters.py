"""A tenth of the suite on each further Python: which tests it has, and what is said of a Python that is not here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts import interpreters
from tests.support.tenth import chosen

ROOT = Path(__file__).resolve().parent.parent
ENDLESS = """
import pathlib, time

def test_endless():
    pathlib.Path(__file__).with_name("begun-endless").touch()
    time.sleep(600)
"""


def test_a_test_is_in_the_tenth_by_its_id_alone() -> None:
    ids = [f"tests/core/test_flight.py::test_{number}" for number in range(10_000)]
    taken = [chosen(nodeid) for nodeid in ids]
    assert 900 < sum(taken) < 1_100
    assert taken == [chosen(nodeid) for nodeid in ids]
    assert [number for number, among in enumerate(taken[:40]) if among] == [36]


def test_pytest_runs_the_tenth_and_nothing_that_must_be_alone(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(
        "import pytest\n\n\n"
        '@pytest.mark.parametrize("number", range(200))\ndef test_one(number): ...\n\n\n'
        '@pytest.mark.alone(reason="x")\n@pytest.mark.parametrize("number", range(200))\ndef test_alone(number): ...\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "tests.support.tenth"]
    command += ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    clean = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    told = subprocess.run(
        [*command, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=clean,
    )
    shown = [line for line in told.stdout.splitlines() if "::" in line]
    assert shown == [nodeid for number in range(200) if chosen(nodeid := f"test_many.py::test_one[{number}]")]
    assert shown


def test_a_python_that_is_not_here_or_cannot_be_installed_is_not_run_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interpreters, "SUPPORTED", ("3.11", "3.97", "3.98", "3.99"))
    monkeypatch.setattr(interpreters, "interpreter", lambda version: None if version == "3.97" else version)

    def environment(python: str, name: str, pins: list[str], **more: object) -> str:
        if python == "3.98":
            raise subprocess.CalledProcessError(1, ["pip"])
        return python

    ran: list[str] = []

    def bounded(python: str, arguments: list[str], *, seconds: float) -> str:
        ran.append(python)
        return outcome

    monkeypatch.setattr(interpreters, "environment", environment)
    monkeypatch.setattr(interpreters, "bounded", bounded)
    for outcome, status in (("800 passed", 0), ("FAILED (1): 1 failed", 1)):
        assert interpreters.tenths(install_only=False) == status
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
        assert "NOT RUN: no such Python on this machine" in lines["3.97"]
        assert "NOT RUN: it cannot be installed" in lines["3.98"]
        assert outcome in lines["3.99"]
    assert {"3.98", "3.97"}.isdisjoint(ran)


def test_the_further_pythons_run_at_once_and_are_broken_off_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of the first two waits for the other. Of the next two, one is interrupted and one has no end."""
    (tmp_path / "test_both.py").write_text(
        "import pathlib, sys, time\n\n\n"
        "def test_both():\n"
        "    here = pathlib.Path(__file__).parent\n"
        "    (here / f'begun-{time.monotonic_ns()}').touch()\n"
        "    while len(list(here.glob('begun-*'))) < 2:\n"
        "        time.sleep(0.01)\n"
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they would start slowly
    monkeypatch.setattr(interpreters, "SUPPORTED", ("3.98", "3.99"))
    monkeypatch.setattr(interpreters, "interpreter", lambda version: version)
    monkeypatch.setattr(interpreters, "environment", lambda *_, **more: sys.executable)
    monkeypatch.setattr(interpreters, "TENTH", ["-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)])
    assert interpreters.tenths(install_only=False) == 0

    def interrupted(python: str, arguments: list[str], *, seconds: float) -> str:
        if not more_than_one:
            more_than_one.append(True)
            while len(list(tmp_path.glob("begun-*"))) < 3:
                time.sleep(0.01)
            raise KeyboardInterrupt
        (tmp_path / "test_both.py").write_text(ENDLESS)
        return bounded(python, arguments, seconds=seconds)

    bounded, more_than_one = interpreters.bounded, list[bool]()
    monkeypatch.setattr(interpreters, "bounded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        interpreters.tenths(install_only=False)


def test_a_run_that_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text("import time\n\n\ndef test_endless(): time.sleep(600)\n")
    arguments = ["-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    assert interpreters.bounded(sys.executable, arguments, seconds=0.5) == "FAILED: broken off after 0.5 s"


def test_what_pytest_said_last_is_told(tmp_path: Path) -> None:
    path = tmp_path / "test_one.py"
    arguments = ["-c", "/dev/null", "--rootdir", str(tmp_path), str(path)]
    path.write_text("def test_one(): ...\n")
    assert interpreters.bounded(sys.executable, arguments, seconds=120).startswith("1 passed")
    path.write_text("def test_one(): assert False\n")
    assert interpreters.bounded(sys.executable, arguments, seconds=120).startswith("FAILED (1): 1 failed")
