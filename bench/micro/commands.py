"""Which commands reach a server while something happens, each script counted as one."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from types import TracebackType
from typing import Self

import redis

__all__ = ["CommandCount"]


class CommandCount:
    """Counts within its `with` block. `counts` is by name, complete after the block.

    By MONITOR, which tells what a client sent from what its scripts did. `INFO commandstats` does not: it counts a
    script and each command in it. MONITOR costs the server time, so nothing is timed while it runs.
    """

    def __init__(self, url: str) -> None:
        self.counts: Counter[str] = Counter()
        self._client = redis.Redis.from_url(url)
        self._marker = redis.Redis.from_url(url)
        self._mark = uuid.uuid4().hex
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="command count", daemon=True)

    @property
    def total(self) -> int:
        return self.counts.total()

    def __enter__(self) -> Self:
        self._marker.ping()  # connected before anything is counted
        self._thread.start()
        if not self._listening.wait(10):
            raise RuntimeError("MONITOR did not start within 10 s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._marker.echo(self._mark)
        self._thread.join(10)
        self._marker.close()
        self._client.close()

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._listening.set()
            for command in monitor.listen():
                if self._mark in command["command"]:
                    return
                if command["client_type"] != "lua":
                    self.counts[command["command"].split(" ", 1)[0].upper()] += 1
