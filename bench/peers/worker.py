"""One of the eight processes: `python -m bench.peers.worker FD SETTINGS`. It reads commands from a socket, as lines of
JSON.

It has one adapter and one stand-in for a query: a coroutine that notes its start in the journal, sleeps, notes its
end. A command is answered when it is done. Another may come meanwhile. All times are of `time.monotonic`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.journal import Journal
from bench.micro.value import VALUE
from bench.peers.adapters import ADAPTERS
from bench.peers.hits import measure_hits

__all__ = ["QueryFailed", "Worker"]


LAST_WORDS: Final = 2.0
"""Seconds that a caller has to end after it was given up and cancelled."""


class QueryFailed(Exception):
    """What the stand-in raises in the scenario in which it does."""


class Worker:
    """`settings`: number, adapter (a name), url, journal (a path)."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._number: int = settings["number"]
        self._url: str = settings["url"]
        self._journal = Journal(Path(settings["journal"]))
        self._adapter = ADAPTERS[settings["adapter"]]()
        self._seconds = 0.0
        self._raises = False
        self.callers: list[asyncio.Task[None]] = []
        self._leader: asyncio.Task[Any] | None = None

    async def compute(self, key: str) -> dict[str, Any]:
        self._leader = self._leader or asyncio.current_task()
        self._journal.write(key, self._number, "started")
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self._journal.write(key, self._number, "cancelled")
            raise
        if self._raises:
            self._journal.write(key, self._number, "raised")
            raise QueryFailed("the database said no")
        self._journal.write(key, self._number, "ended")
        return dict(VALUE)

    async def do_open(self) -> dict[str, Any]:
        await self._adapter.open(self._url, self.compute)
        return {}

    async def do_call(self, *, key: str, seconds: float) -> dict[str, Any]:
        """One caller, to open what connections there are."""
        self._seconds = seconds
        if await self._adapter.call(key) != VALUE:
            raise RuntimeError("the peer does not return what was computed")
        return {}

    async def do_herd(
        self, *, key: str, seconds: float, raises: bool, callers: int, at: float, patience: float
    ) -> dict[str, Any]:
        """Does `callers` calls of one key at the same moment `at`. Returns the time and the result of each answer."""
        self._seconds, self._raises, self._leader = seconds, raises, None
        answers: list[tuple[float, str]] = []
        given_up = False

        async def caller() -> None:
            try:
                value = await self._adapter.call(key)
                kind = "value" if value == VALUE else "wrong value"
            except asyncio.CancelledError:
                kind = "cancelled"
            except Exception as error:
                kind = f"error: {type(error).__name__}"
            answers.append((time.monotonic(), "waiting" if given_up else kind))

        await asyncio.sleep(max(0.0, at - time.monotonic()))
        self.callers = [asyncio.create_task(caller()) for _ in range(callers)]
        _, pending = await asyncio.wait(self.callers, timeout=patience)
        given_up = True
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=LAST_WORDS)
        unanswered = callers - len(answers)
        return {"answers": answers + [(time.monotonic(), "waiting")] * unanswered}

    async def do_cancel(self) -> dict[str, Any]:
        """Cancel the caller that began the computation: the one in whose task it runs, or else the first."""
        leader = self._leader if self._leader in self.callers else self.callers[0]
        if leader is not None:
            leader.cancel()
        return {}

    async def do_hits(self, *, repetitions: int, calls: int, callers: int) -> dict[str, Any]:
        return await measure_hits(
            self._url, self._adapter.call, repetitions=repetitions, calls=calls, callers=callers
        )


async def _serve(descriptor: int, settings: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    worker = Worker(settings)
    under_way: set[asyncio.Task[None]] = set()

    async def obey(told: dict[str, Any]) -> None:
        number = told.pop("number")
        try:
            answer = await getattr(worker, f"do_{told.pop('do')}")(**told)
        except Exception as error:
            logging.exception("a command failed")
            answer = {"failed": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps({"number": number, **answer}).encode() + b"\n")

    while line := await reader.readline():
        task = asyncio.create_task(obey(json.loads(line)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    os._exit(0)  # the fleet has gone; some peers have threads that would wait for ever


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    asyncio.run(_serve(int(sys.argv[1]), json.loads(sys.argv[2])))
