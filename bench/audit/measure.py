"""One run of one program: how long, and how much memory all its processes held at once."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass

import psutil

__all__ = ["LONGEST", "Run", "best_of", "run"]

LONGEST = 120.0
"""Seconds. A program that takes longer is stopped, and its row shows it. One tool had not ended after eight minutes."""

_EVERY = 0.02  # seconds between looks at the memory


@dataclass(frozen=True)
class Run:
    """`seconds` of wall time; `cpu` seconds of all processes; `memory` in bytes, the largest sum of resident sets."""

    seconds: float
    cpu: float
    memory: int


def best_of(command: list[str], times: int, longest: float = LONGEST) -> Run | None:
    """The quickest of some runs, with the most memory any of them took. None if one took longer than `longest`.

    Raises RuntimeError.
    """
    runs = []
    for _ in range(times):
        one = run(command, longest)
        if one is None:
            return None
        runs.append(one)
    quickest = min(runs, key=lambda one: one.seconds)
    return Run(quickest.seconds, quickest.cpu, max(one.memory for one in runs))


def run(command: list[str], longest: float = LONGEST) -> Run | None:
    """None if it was stopped after `longest` seconds. Raises RuntimeError for a program that fails."""
    before, started = _children(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        memory = _watch(process, started + longest)
        if memory is None:
            return None
        said = process.stderr.read() if process.stderr is not None else b""
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said.decode()[-400:]}")
    return Run(seconds, _children() - before, memory)


def _watch(process: subprocess.Popen[bytes], until: float) -> int | None:
    most = 0
    while True:
        if time.perf_counter() > until:
            _stop(process.pid)
            return None
        most = max(most, _resident(process.pid))
        try:
            process.wait(_EVERY)
        except subprocess.TimeoutExpired:
            continue
        return most


def _stop(pid: int) -> None:
    """The program with its workers: each of them would read on."""
    try:
        parent = psutil.Process(pid)
        for process in (*parent.children(recursive=True), parent):
            process.kill()
    except psutil.Error:
        pass  # it ended meanwhile


def _resident(pid: int) -> int:
    """Shared pages count for each process that maps them: the truth is a little less."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.Error:
        pass  # it ended while it was looked at
    return total


def _children() -> float:
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
