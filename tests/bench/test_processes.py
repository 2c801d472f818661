"""Nothing outlives the process that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from bench.herd import processes

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE = 60.0

STARTER = """
import os, sys, time
import psutil
from bench.herd import processes
directory = processes.temporary_directory("herd-test-")
grandparent = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
processes.start(["sh", "-c", {first!r}])
child = processes.start([sys.executable, "-c", grandparent])
while not psutil.Process(child.pid).children():
    time.sleep(0.01)
print(directory, flush=True)
{ending}
"""


ORDINARY = "exec sleep 600"
STUBBORN = "trap '' TERM; while :; do sleep 600; done"


def run_starter(
    ending: str, first: str = ORDINARY
) -> tuple[subprocess.Popen[str], Path, list[psutil.Process]]:
    runner = subprocess.Popen(
        [sys.executable, "-c", STARTER.format(ending=ending, first=first)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert runner.stdout is not None
    directory = runner.stdout.readline().strip()
    started = psutil.Process(runner.pid).children(recursive=True)
    assert len(started) >= 4  # two children, a grandchild and the keeper
    return runner, Path(directory), started


def ended(process: psutil.Process) -> bool:
    """Gone, or not reaped yet by whoever inherited it."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def assert_gone(started: list[psutil.Process], directory: Path) -> None:
    _, alive = psutil.wait_procs(started, timeout=PATIENCE)
    running = [process for process in alive if not ended(process)]
    for process in running:
        process.kill()
    assert running == []
    assert not directory.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_a_signal_to_the_runner_ends_everything_it_started(number: signal.Signals) -> None:
    runner, directory, started = run_starter("time.sleep(600)")
    runner.send_signal(number)
    runner.wait(PATIENCE)
    assert_gone(started, directory)


@pytest.mark.parametrize("ending", ["pass", "raise RuntimeError('a crash')", "os._exit(3)"])
def test_however_the_runner_ends_by_itself_everything_it_started_ends(ending: str) -> None:
    runner, directory, started = run_starter(f"sys.stdin.readline()\n{ending}")
    runner.communicate("end\n", timeout=PATIENCE)
    assert_gone(started, directory)


def test_a_runner_that_died_before_its_keeper_was_up_is_still_heard() -> None:
    child = processes.start(["sleep", "600"])
    no_parent_of_it = "0"
    keeper = [sys.executable, str(Path(processes.__file__).with_name("keeper.py")), no_parent_of_it]
    said = f"watch {child.pid} {int(signal.SIGTERM)}\n".encode()
    subprocess.run(keeper, input=said, check=True, timeout=PATIENCE)
    assert child.process.wait(PATIENCE) == -signal.SIGTERM


def test_a_child_that_ignores_its_end_signal_does_not_outlive_a_killed_runner() -> None:
    runner, directory, started = run_starter("time.sleep(600)", first=STUBBORN)
    runner.kill()
    runner.wait(PATIENCE)
    assert_gone(started, directory)


def test_a_forked_copy_that_exits_ends_and_removes_nothing() -> None:
    directory = processes.temporary_directory("herd-test-")
    child = processes.start(["sleep", "600"])
    link = processes._link()
    try:
        pid = os.fork()
        if pid == 0:
            link._end_everything()
            os._exit(0)
        os.waitpid(pid, 0)
        assert child.running
        assert directory.exists()
    finally:
        child.stop()


def test_a_child_leads_its_own_group_so_that_ctrl_c_reaches_only_the_runner() -> None:
    child = processes.start(["sleep", "600"])
    try:
        assert os.getpgid(child.pid) == child.pid
    finally:
        child.stop()


def test_a_paused_child_can_be_stopped() -> None:
    child = processes.start(["sleep", "600"])
    child.send(signal.SIGSTOP)
    child.stop(patience=PATIENCE)
    assert child.process.returncode == -signal.SIGTERM


def test_a_child_that_ignores_its_end_signal_is_killed() -> None:
    child = processes.start(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"])
    child.stop(patience=0.0)
    assert not child.running


def test_stopping_twice_is_no_error() -> None:
    child = processes.start(["sleep", "600"])
    child.stop()
    child.stop()
    child.kill()
    assert child.process.returncode == -signal.SIGTERM


def test_the_end_of_the_log_is_kept_for_an_error_message(tmp_path: Path) -> None:
    child = processes.start(["sh", "-c", "seq 1 100; echo oops >&2"], log=tmp_path / "log")
    child.process.wait(PATIENCE)
    assert child.last_words(lines=2) == "100\noops"
    child.stop()
