"""Eight uvicorn workers behind one port, each a process of its own."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bench.herd import processes

__all__ = ["METRICS_FOLDER", "Fleet", "Settings"]

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with which a worker's prometheus-client adds its metrics to those of the others."""
_START_PATIENCE = 180.0
_REPOSITORY = Path(__file__).resolve().parents[2]


class Settings(Protocol):
    """What a worker must know."""

    def to_environment(self) -> dict[str, str]: ...


@dataclass(slots=True)
class Fleet:
    """`size` workers that all listen on one loopback port, each a run of `module`.

    On Linux each worker has its own socket (SO_REUSEPORT), so the kernel spreads connections by their address. With one
    shared socket, a worker that wakes takes all waiting connections, and some workers get none. Raises `RuntimeError`
    with a worker's last output if one does not start, and `OSError` if `port` is taken. Port 0: any free one.
    """

    settings: Settings
    size: int
    port: int = 0
    module: str = "bench.herd.worker"
    _children: list[processes.Child] = field(default_factory=list, init=False, repr=False)
    _metrics: Path | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children]

    def start(self) -> None:
        """Start all workers and wait until every one is ready."""
        logs = processes.temporary_directory("herd-workers-")
        sockets = _listening_sockets(self.size, self.port)
        self.port = sockets[0].getsockname()[1]
        read_end, write_end = os.pipe()
        # A folder for each fleet: numbers of an earlier one would be added.
        self._metrics = processes.temporary_directory("herd-metrics-")
        environment = {
            **os.environ,
            **self.settings.to_environment(),
            METRICS_FOLDER: str(self._metrics),
        }
        try:
            for number, listening in enumerate(sockets):
                child = processes.start(
                    [sys.executable, "-m", self.module, str(listening.fileno()), str(write_end)],
                    env=environment,
                    cwd=_REPOSITORY,  # where `bench` is found, whatever PYTHONPATH says
                    pass_fds=(listening.fileno(), write_end),
                    log=logs / f"worker-{number}.log",
                )
                self._children.append(child)
            self._wait_until_ready(read_end)
        finally:
            for listening in set(sockets):
                listening.close()
            os.close(read_end)
            os.close(write_end)

    def forget_dead(self) -> None:
        """Gauges of workers that have ended leave the sums. Their counters stay: a counter may not fall."""
        # Loaded late: the workers of hand-written modes need no metrics.
        from prometheus_client.multiprocess import mark_process_dead

        for child in self._children:
            if not child.running and self._metrics is not None:
                mark_process_dead(child.pid, str(self._metrics))  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        for child in self._children:
            child.send(child.end_signal)
        for child in self._children:
            child.stop(patience=5.0)

    def last_words(self) -> str:
        """The ends of the workers' logs, those that say something."""
        return "\n".join(filter(None, (child.last_words() for child in self._children)))

    def _wait_until_ready(self, read_end: int) -> None:
        ready = 0
        deadline = time.monotonic() + _START_PATIENCE
        while ready < self.size:
            if select.select([read_end], [], [], 0.2)[0]:
                ready += len(os.read(read_end, self.size))
            dead = next((child for child in self._children if not child.running), None)
            if dead is not None:
                raise RuntimeError(f"a worker ended at its start:\n{dead.last_words()}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{ready} of {self.size} workers were ready after {_START_PATIENCE:g} s: is the machine busy with "
                    f"other things?"
                )


def _listening_sockets(count: int, port: int) -> list[socket.socket]:
    if not sys.platform.startswith("linux"):
        return [
            _bound_socket(port, share=False)
        ] * count  # elsewhere SO_REUSEPORT does not spread connections
    if port:
        # Without SO_REUSEPORT: another program's socket with that option would take a part of the requests.
        _bound_socket(port, share=False).close()
    first = _bound_socket(port, share=True)
    port = first.getsockname()[1]
    return [first, *(_bound_socket(port, share=True) for _ in range(count - 1))]


def _bound_socket(port: int, *, share: bool) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT if share else socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError:
        listening.close()
        raise
    return listening
