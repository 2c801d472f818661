"""The process that imports and collects all tests once. The workers of a run are forked from it.

To collect the suite takes thirteen seconds of computing: the frameworks that are tested, a thousand files of tests, and
sixteen thousand tests. Ten workers would do the same ten times. They share the memory, too.

A worker is what it would be after its own collection (`collected.py`). pytest-xdist starts `worker.py` in its place,
which passes on its streams and then waits. Where the collection fails, each worker tries again, and reports it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Preloaded"]

ROOT = Path(__file__).resolve().parents[2]


class Preloaded:
    """That process, as the controller of the run sees it."""

    def __init__(self, arguments: Sequence[str], specs: Sequence[Any]) -> None:
        """Start it for a run of pytest with these `arguments`. Each of `specs`, of execnet, then means a fork of it."""
        self._place = Path(tempfile.mkdtemp(prefix="stampede-guard-workers-"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._place / "socket"))
            listener.listen(len(specs))
            self._process = subprocess.Popen(
                [sys.executable, "-u", __file__, f"{listener.fileno()}"],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
        self._process.stdin.flush()
        for spec in specs:
            stands_for_it = [
                Path(__file__).with_name("worker.py"),
                self._place / "socket",
                spec.id,
                spec.execmodel,
            ]
            spec.python = shlex.join([sys.executable, "-I", "-S", *map(str, stands_for_it)])

    def pytest_xdist_getremotemodule(self) -> types.ModuleType:
        """A plugin's hook: what a worker runs, where this object is registered as one."""
        from tests.support import beginning

        return beginning

    def give_measured(self) -> None:
        """Give pytest-cov what was measured of the imports, when no worker erases it any more."""
        from tests.support.traced import give_measured

        give_measured(self._place)

    def close(self) -> None:
        """End it, and the workers that have not ended."""
        self._process.communicate()
        shutil.rmtree(self._place, ignore_errors=True)


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    arguments = json.loads(_line(0))
    sys.path[0] = str(ROOT)
    _collect_tests(arguments, Path(listener.getsockname()).parent)
    worker = _serve(listener)
    if worker is not None:
        _work(*worker)


def _collect_tests(arguments: Sequence[str], place: Path) -> None:
    import pytest

    from tests.support.collected import collect
    from tests.support.traced import measured_imports

    class Measured:
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self) -> None:
            measured_imports(place)

    with _without_output():
        collect(arguments, [Measured()])
    # No worker's garbage collector touches, and so copies, what is here.
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def _without_output() -> Iterator[None]:
    kept = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _serve(listener: socket.socket) -> tuple[str, str] | None:
    """Fork a worker for each connection, and return in it: its name and its execmodel. None: the run has ended."""
    workers: dict[int, socket.socket] = {}
    woken, waker = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    # What a terminal interrupts is the run. Its controller ends this process by closing the stream.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    while True:
        watched: list[int | socket.socket] = [0, woken, listener, *workers.values()]
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            return None
        for worker, connection in list(workers.items()):
            if connection in ready:  # who stood for the worker has gone: the controller had no more patience
                os.kill(worker, signal.SIGKILL)
            ended, status = os.waitpid(worker, os.WNOHANG)
            if ended:
                del workers[worker]
                with contextlib.suppress(OSError):
                    connection.send(bytes([os.waitstatus_to_exitcode(status) & 255]))
                connection.close()
        if woken in ready:
            woken.recv(4096)
        if listener in ready:
            connection, _ = listener.accept()
            told, streams, _, _ = socket.recv_fds(connection, 4096, 3)
            if (worker := _forked()) == 0:
                signal.set_wakeup_fd(-1)
                for ours in (*workers.values(), connection, listener, woken, waker):
                    ours.close()
                _take(streams)
                name, execmodel = json.loads(told)
                return name, execmodel
            workers[worker] = connection
            for stream in streams:
                os.close(stream)


def _forked() -> int:
    with warnings.catch_warnings():
        # Libraries that are imported may have threads. They know how to be forked.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _take(streams: Sequence[int]) -> None:
    """A worker has the streams and the signals of a new process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _work(name: str, execmodel: str) -> None:
    """What `execnet` lets the new process do that it usually starts."""
    from execnet.gateway_base import get_execmodel, init_popen_io, serve

    # No process that a test starts by multiprocessing is to import this file as its main one.
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["-c"]
    _line(0)  # the same in words that do not import execnet
    streams = init_popen_io(get_execmodel(execmodel))
    streams.write(b"1")
    serve(streams, id=f"{name}-worker")  # type: ignore[arg-type]  # as its own words do


def _line(stream: int) -> bytes:
    """Nothing beyond it is read: the rest belongs to others."""
    read = b""
    while not read.endswith(b"\n"):
        if not (more := os.read(stream, 1 << 16)):
            raise EOFError(f"the stream ended after {read[:80]!r}")
        read += more
    return read


if __name__ == "__main__":
    main()
