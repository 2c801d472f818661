"""Worker processes that are forked from a server which has imported the package.

To start Python and import the package takes half a second of computing, and a test starts up to eight workers. A fork
takes some milliseconds. What runs is the same: a process of its own, in a group of its own, which may be killed.

A program that changes modules before others import them must start on its own: use `processes.start`.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from bench.herd import processes

__all__ = ["Forked", "prepare", "start"]

PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]
PRELOADED = [
    "redis.asyncio",
    "stampede_guard.api.guard",
    "stampede_guard.leases.redis",
    "stampede_guard.stores.cluster",
    "stampede_guard.stores.redis",
    "tests.chaos.hammer",
    "tests.chaos.tasks",
    "tests.soak.functions",
    "tests.support.forked",
]


class Forked:
    """Like a `subprocess.Popen`. The server is its parent, and tells how it ended."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
        return code

    def kill(self) -> None:
        self._process.kill()


def prepare() -> None:
    """Return when the server has imported the package: the next process starts at once."""
    process = _context().Process(target=os.getpid)
    process.start()
    process.join()


def start(program: str, *arguments: str, log: Path, sock: socket.socket | None = None) -> processes.Child:
    """As `python -m program [FD] arguments` would start, where FD is the number of `sock` in the process."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = _context().Process(
            target=_run, args=(program, arguments, log, sock, theirs, dict(os.environ)), daemon=True
        )
        process.start()
        theirs.close()
        ours.settimeout(PATIENCE)
        if not ours.recv(1):  # before that, no signal would reach the group
            raise RuntimeError(f"{program} did not start")
    return processes.adopt(Forked(process), end_signal=signal.SIGTERM, log=log)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _run(
    program: str,
    arguments: tuple[str, ...],
    log: Path,
    sock: socket.socket | None,
    ready: socket.socket,
    environment: dict[str, str],
) -> None:
    os.setpgid(0, 0)
    os.chdir(ROOT)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environment)
    ready.send(b"1")
    ready.close()
    first = () if sock is None else (str(sock.detach()),)
    sys.argv = [program, *first, *arguments]
    warnings.simplefilter("ignore", RuntimeWarning)  # that the program was imported before
    runpy.run_module(program, run_name="__main__", alter_sys=True)
