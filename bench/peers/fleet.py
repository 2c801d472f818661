"""The worker processes of one peer: started, told to stampede, killed, and never waited for beyond their patience."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.herd import processes
from bench.journal import Journal
from bench.peers.outcome import Answer, Outcome

__all__ = ["Fleet", "PeerFailed", "Worker"]

ROOT: Final = Path(__file__).resolve().parents[2]
WORKER = "bench.peers.worker"
RUN_UP: Final = 0.25
"""Seconds from the word to the start of a herd, so that every process has heard it."""
STARTING: Final = 60.0
GRACE: Final = 8.0
"""Seconds beyond its own patience that a process has to answer, before it counts as stuck and is killed."""


class PeerFailed(Exception):
    """A peer did not open, or did not return the computed value."""


@dataclass(slots=True, eq=False)
class Worker:
    number: int
    child: processes.Child
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _listener: asyncio.Task[None] | None = None
    killed: bool = False

    def listen(self) -> None:
        self._listener = asyncio.create_task(self._listen())

    async def tell(self, do: str, **details: Any) -> dict[str, Any]:
        """What it answers. Raises `PeerFailed` if the command failed there, `ConnectionError` if it has died."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.writer.write(json.dumps({"do": do, "number": number, **details}).encode() + b"\n")
        said = await answer
        if "failed" in said:
            raise PeerFailed(said["failed"])
        return said

    async def _listen(self) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await self.reader.readline():
                said = json.loads(line)
                self._waiting.pop(said["number"]).set_result(said)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError(f"process {self.number} has died"))

    def kill(self) -> None:
        """SIGKILL."""
        self.killed = True
        self.child.kill()
        self.writer.close()
        if self._listener is not None:
            self._listener.add_done_callback(lambda _: None)


class Fleet:
    """`healthy` turns false when a process was killed or a caller was given up: start a new one then."""

    def __init__(self, adapter: str, url: str, directory: Path) -> None:
        self.journal = Journal(directory / "journal")
        self.workers: list[Worker] = []
        self.healthy = True
        self._adapter = adapter
        self._url = url
        self._directory = directory

    async def start(self, count: int) -> None:
        """Raises `PeerFailed`."""
        self.workers = [await self._spawn(number) for number in range(count)]
        async with asyncio.timeout(STARTING):
            await asyncio.gather(*[worker.tell("open") for worker in self.workers])
            for worker in self.workers:  # in turn, so that each connects for a computation of its own
                await worker.tell("call", key=f"first:{worker.number}", seconds=0.0)

    async def _spawn(self, number: int) -> Worker:
        settings = {
            "number": number,
            "adapter": self._adapter,
            "url": self._url,
            "journal": str(self._directory / "journal"),
        }
        ours, theirs = socket.socketpair()
        with theirs:
            child = processes.start(
                [sys.executable, "-m", WORKER, str(theirs.fileno()), json.dumps(settings)],
                log=self._directory / f"{number}.log",
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 22)
        worker = Worker(number, child, reader, writer)
        worker.listen()
        return worker

    def stampede(
        self, key: str, *, seconds: float, callers: int, patience: float, raises: bool = False
    ) -> asyncio.Task[Outcome]:
        """Every process calls `key` with so many callers at the same moment; under way when this returns."""
        at = time.monotonic() + RUN_UP
        herds = [
            asyncio.create_task(
                self._herd(
                    worker, key=key, seconds=seconds, raises=raises, callers=callers, at=at, patience=patience
                )
            )
            for worker in self.workers
        ]
        return asyncio.create_task(self._outcome(key, at, herds))

    async def _herd(self, worker: Worker, *, callers: int, patience: float, **details: Any) -> list[Answer]:
        """The answers of one process. Empty if the scenario killed it. If it died by itself, all are errors."""
        try:
            async with asyncio.timeout(RUN_UP + patience + GRACE):
                said = await worker.tell("herd", callers=callers, patience=patience, **details)
        except ConnectionError:
            self.healthy = False
            died = Answer(worker.number, time.monotonic(), "error: its process died")
            return [] if worker.killed else [died] * callers
        except TimeoutError:
            self.healthy = False
            worker.kill()
            return [Answer(worker.number, time.monotonic(), "waiting")] * callers
        return [Answer(worker.number, at, kind) for at, kind in said["answers"]]

    async def _outcome(self, key: str, at: float, herds: Sequence[asyncio.Task[list[Answer]]]) -> Outcome:
        answers = [answer for herd in herds for answer in await herd]
        if any(answer.kind == "waiting" for answer in answers):
            self.healthy = False
        return Outcome(
            began=at,
            answers=answers,
            started=self.journal.lines(key, "started"),
            ended=self.journal.lines(key, "ended"),
        )

    async def first_computation(self, key: str, *, patience: float) -> Worker:
        """The process that computes `key` first, once it has begun. Raises `PeerFailed` if no process computes it."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            started = self.journal.lines(key, "started")
            if started:
                return self.workers[int(started[0].by)]
            await asyncio.sleep(0.01)
        raise PeerFailed(f"nobody computed within {patience:g} s")

    async def stop(self) -> None:
        for worker in self.workers:
            worker.kill()
        await asyncio.sleep(0)
