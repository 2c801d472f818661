"""One peer, up and filled: its workers behind one port, or nginx in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from bench.herd import processes
from bench.herd.fleet import Fleet
from bench.http.client import ask_once
from bench.http.nginx import Nginx
from bench.http.peers import NGINX, ORIGIN
from bench.http.settings import PATH, AppSettings

__all__ = ["Stage", "settings_for"]


def settings_for(peer: str, redis_url: str, *, ttl: int, seconds: float, folder: Path) -> AppSettings:
    return AppSettings(
        peer=ORIGIN if peer == NGINX else peer,
        redis_url=redis_url,
        namespace=f"http-{uuid.uuid4().hex[:8]}",
        ttl=ttl,
        seconds=seconds,
        folder=str(folder),
    )


class Stage:
    """`ttl` and `seconds` are the application's. Raises `RuntimeError` if the peer does not come up."""

    def __init__(self, peer: str, redis_url: str, *, workers: int, ttl: int, seconds: float) -> None:
        folder = processes.temporary_directory("bench-http-")
        self.settings = settings_for(peer, redis_url, ttl=ttl, seconds=seconds, folder=folder)
        self.port = 0
        self._peer = peer
        self._workers = workers
        self._fleet = Fleet(self.settings, workers, module="bench.http.worker")
        self._nginx: Nginx | None = None
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._start)
        return self

    def _start(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._fleet).start()
            self.port = self._fleet.port
            if self._peer == NGINX:
                self._nginx = stack.enter_context(Nginx(self.port, self._workers))
                self.port = self._nginx.port
            self._stack = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stack.close)

    async def fill(self, *, requests: int) -> None:
        """Send requests until the entry is stored and connections are open. Raises `RuntimeError` with the output."""
        try:
            for _ in range(requests):
                await ask_once(self.port, PATH)
        except (OSError, RuntimeError, TimeoutError) as error:
            words = self._fleet.last_words()
            raise RuntimeError(f"{type(error).__name__}: {error}\n{words}".strip()) from error

    def cpu_seconds(self) -> float:
        """That the processes which answer have used so far."""
        if self._nginx is None:
            found = [psutil.Process(pid) for pid in self._fleet.pids]
        else:
            found = psutil.Process(self._nginx.pid).children(recursive=True)
        return sum(times.user + times.system for times in (process.cpu_times() for process in found))
