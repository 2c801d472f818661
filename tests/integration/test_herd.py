"""The herd itself, small: real PostgreSQL, real Valkey, eight workers, eighty users. Counts, never times."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import psutil  # type: ignore[import-untyped]
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 220.0
LOADS = (9, 40)
"""Seconds of load. A busy machine needs more of them to show the same: what is waited for are expiries."""
TTL = 1
"""Seconds. The guard's expiries are so far apart, which is twice what separates one from the next."""


def herd(*arguments: str | Path, **settings: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.herd", "--smoke", *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **settings,
    )


def running(processes: set[psutil.Process]) -> set[psutil.Process]:
    """Those that are still there; one that ended and was not reaped by the container's init is not."""
    alive = set()
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.add(process)
        except psutil.NoSuchProcess:
            continue
    return alive


@pytest.mark.alone(
    reason="its database and workers take both processors: beside others, expiries become too rare"
)
def test_the_fix_of_the_incident_stampedes_and_the_guard_computes_once_at_every_expiry(
    tmp_path: Path,
) -> None:
    modes = figures_of_two_expiries(tmp_path)
    guarded, fixed = modes["guard"], modes["incident-fix"]
    assert set(guarded["queries_per_expiry"]) == {1}
    assert guarded["peak_concurrent_queries"] == 1
    assert max(fixed["queries_per_expiry"]) > 1
    for mode in modes.values():
        assert mode["workers"] == 8
        assert mode["errors"] == 0
        assert len(mode["redis_commands_per_expiry"]) == len(mode["queries_per_expiry"])

    page = (tmp_path / "herd.html").read_text()
    assert "data:image/png;base64," in page
    assert 'src="http' not in page and "href=" not in page
    assert (tmp_path / "herd.png").read_bytes().startswith(b"\x89PNG")


def figures_of_two_expiries(directory: Path) -> dict[str, dict[str, Any]]:
    """By mode. Each of them has seen two complete expiries at least; played again for longer until that is so."""
    figures = directory / "herd.json"
    output = ""
    for seconds in LOADS:
        run = herd(
            "--modes", "incident-fix,guard", "--ttl", f"{TTL}", "--seconds", f"{seconds}",
            "--json", figures, "--report", directory / "herd.html",
        )  # fmt: skip
        output, _ = run.communicate(timeout=PATIENCE)
        if run.returncode == 1 and "run it again" in output:
            continue  # the kernel gave one of the workers no connection
        assert run.returncode == 0, output
        modes: dict[str, dict[str, Any]] = json.loads(figures.read_text())["modes"]
        if all(len(mode["queries_per_expiry"]) >= 2 for mode in modes.values()):
            return modes
    raise AssertionError(f"{LOADS[-1]} s of load showed no two expiries:\n{output}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_or_killed_run_leaves_no_process_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    run = herd(
        "--modes", "local", "--report", tmp_path / "herd.html", env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        started = descendants_once_locust_runs(run)
        names = {told(process, "name") for process in running(started)}
        assert {"postgres", "valkey-server"} <= names or {"postgres", "redis-server"} <= names
        run.send_signal(number)
        output, _ = run.communicate(timeout=PATIENCE)
        assert run.returncode == (130 if number == signal.SIGINT else -number), output
        # The keeper ends a dozen groups in turn, each in good order if it does so soon.
        deadline = time.monotonic() + PATIENCE
        while running(started) and time.monotonic() < deadline:
            psutil.wait_procs(running(started), timeout=0.2)
        assert running(started) == set()
    finally:
        run.kill()


def told(process: psutil.Process, what: Literal["name", "cmdline"]) -> Any:
    """None where it has ended meanwhile."""
    try:
        return getattr(process, what)()
    except psutil.Error:
        return None


def descendants_once_locust_runs(run: subprocess.Popen[str]) -> set[psutil.Process]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert run.poll() is None, run.communicate()[0]
        with contextlib.suppress(psutil.NoSuchProcess):
            found = set(psutil.Process(run.pid).children(recursive=True))
            if any("locust" in word for process in running(found) for word in told(process, "cmdline") or ()):
                return found
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.1)
    raise AssertionError("Locust was never started")
