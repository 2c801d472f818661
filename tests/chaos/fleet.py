"""A fleet of worker processes: started, told what to do, struck by signals, and listened to.

A test never sleeps to wait: it waits for a worker's event (`first`, `next`), and is told at once when a worker that
was to live has died, with its last words.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.herd import processes
from tests.chaos.journal import Journal
from tests.support import forked

__all__ = ["PATIENCE", "STRUCK", "Call", "Event", "Fleet", "Outcome", "Worker"]

PATIENCE = 90.0
"""Seconds until a test gives up on an event. Nothing is concluded from how long one took."""
STRUCK = 2.0
"""Seconds, the deadline of commands to a server that a test strikes: four times the usual one, for a busy machine."""
WORKER = "tests.chaos.worker"
ROOT = Path(__file__).resolve().parents[2]

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the callers of one call got: values and errors, each with the number of callers."""

    values: Counter[str]
    errors: Counter[str]
    seconds: float

    @property
    def callers(self) -> int:
        return self.values.total() + self.errors.total()

    @property
    def value(self) -> str:
        """The one value that all of them got."""
        assert not self.errors and len(self.values) == 1, self
        return next(iter(self.values))


@dataclass(frozen=True, slots=True)
class Call:
    worker: Worker
    name: str
    callers: int

    async def outcome(self) -> Outcome:
        """Waits for the last caller."""
        event = await self.worker.next("called", call=self.name)
        outcome = Outcome(Counter(event["values"]), Counter(event["errors"]), event["seconds"])
        assert outcome.callers == self.callers
        return outcome

    async def cancel(self, caller: int) -> None:
        await self.worker.tell("cancel", call=self.name, caller=caller)


@dataclass(slots=True, eq=False)
class Worker:
    name: str
    fleet: Fleet = field(repr=False)
    child: processes.Child = field(repr=False)
    reader: asyncio.StreamReader = field(repr=False)
    writer: asyncio.StreamWriter = field(repr=False)
    expected_to_live: bool = True
    listener: asyncio.Task[None] | None = field(default=None, repr=False)

    async def tell(self, do: str, **details: Any) -> None:
        self.writer.write(json.dumps({"do": do, **details}).encode() + b"\n")
        await self.writer.drain()

    async def next(self, event: str, **details: Any) -> Event:
        """The next event of this worker that fits, also one that came before it was asked for."""
        _, found = await self.fleet.first(event, worker=self, **details)
        return found

    async def call(
        self, key: str, task: Mapping[str, Any] | str = "gate", *, callers: int = 1, **fields: Any
    ) -> Call:
        """Begin calls at once; `fields` are Policy fields."""
        task = {"kind": task} if isinstance(task, str) else task
        call = Call(self, self.fleet.new_name(), callers)
        await self.tell("call", call=call.name, key=key, task=task, callers=callers, fields=fields)
        return call

    async def open(self, computation: str) -> None:
        await self.tell("open", computation=computation)

    async def invalidate(self, key: str) -> str:
        await self.tell("invalidate", key=key)
        result: str = (await self.next("invalidated", key=key))["result"]
        return result

    async def status(self) -> Event:
        await self.tell("status")
        return await self.next("status")

    def kill(self) -> None:
        """SIGKILL."""
        self.expected_to_live = False
        self.child.kill()

    def freeze(self) -> None:
        self.child.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.child.send(signal.SIGCONT)


class Fleet:
    """`policy` and `deadline` are the workers' own; a worker can be given others when it is started."""

    def __init__(
        self, url: str, namespace: str, directory: Path, *, deadline: float | None = None, **policy: Any
    ) -> None:
        self.url = url
        self.namespace = namespace
        self.journal = Journal(directory / "journal")
        self.workers: list[Worker] = []
        self._directory = directory
        self._policy = policy
        self._deadline = deadline
        self._numbers = itertools.count(1)
        self._backlog: list[tuple[Worker, Event]] = []
        self._waiting: list[tuple[Callable[[Worker, Event], bool], asyncio.Future[tuple[Worker, Event]]]] = []

    def new_name(self) -> str:
        return f"call{next(self._numbers)}"

    async def start(
        self,
        count: int = 1,
        *,
        url: str = "",
        uvloop: bool = False,
        program: str = WORKER,
        deadline: float | None = None,
        **policy: Any,
    ) -> list[Worker]:
        """Start workers and wait until each is ready to be told something; none has used its guard yet."""
        policy, deadline = {**self._policy, **policy}, deadline or self._deadline
        started = [self._spawn(url or self.url, uvloop, program, policy, deadline) for _ in range(count)]
        workers = [await starting for starting in started]
        for worker in workers:
            await worker.next("ready")
        return workers

    def _spawn(
        self, url: str, uvloop: bool, program: str, policy: dict[str, Any], deadline: float | None
    ) -> Awaitable[Worker]:
        name = f"w{len(self.workers)}"
        settings = {
            "name": name,
            "url": url,
            "namespace": self.namespace,
            "journal": str(self.journal.path),
            "policy": policy,
            "deadline": deadline,
            "uvloop": uvloop,
        }
        ours, theirs = socket.socketpair()
        log, told = self._directory / f"{name}.log", json.dumps(settings)
        with theirs:
            if program == WORKER:
                child = forked.start(program, told, log=log, sock=theirs)
            else:
                child = processes.start(
                    [sys.executable, "-m", program, str(theirs.fileno()), told],
                    log=log,
                    cwd=ROOT,
                    pass_fds=[theirs.fileno()],
                )
        worker = Worker(name, self, child, None, None)  # type: ignore[arg-type]
        self.workers.append(worker)

        async def connect() -> Worker:
            worker.reader, worker.writer = await asyncio.open_connection(sock=ours)
            worker.listener = asyncio.create_task(self._listen(worker))
            return worker

        return connect()

    async def first(
        self, event: str, *, worker: Worker | None = None, **details: Any
    ) -> tuple[Worker, Event]:
        """The first event that fits, of any worker; each event is handed out once."""

        def fits(source: Worker, seen: Event) -> bool:
            return (
                seen["event"] == event
                and worker in (None, source)
                and all(seen.get(name) == wanted for name, wanted in details.items())
            )

        for index, (source, seen) in enumerate(self._backlog):
            if fits(source, seen):
                del self._backlog[index]
                return source, seen
        future: asyncio.Future[tuple[Worker, Event]] = asyncio.get_running_loop().create_future()
        self._waiting.append((fits, future))
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            raise AssertionError(f"no {event!r} {details} came; unclaimed: {self._backlog[-40:]}") from None

    def forget(self, event: str, **details: Any) -> int:
        """Drop the events of that kind that came so far: what is asked for next is from now on."""
        before = len(self._backlog)
        self._backlog = [
            (source, seen)
            for source, seen in self._backlog
            if seen["event"] != event or any(seen.get(name) != wanted for name, wanted in details.items())
        ]
        return before - len(self._backlog)

    def logged(self, text: str) -> list[Worker]:
        """The workers that have logged something with this text."""
        return [source for source, seen in self._backlog if seen["event"] == "log" and text in seen["text"]]

    async def _listen(self, worker: Worker) -> None:
        with contextlib.suppress(ConnectionResetError):
            while line := await worker.reader.readline():
                self._take(worker, json.loads(line))
        if worker.expected_to_live:
            words = worker.child.last_words()
            for _, future in self._waiting:
                if not future.done():
                    future.set_exception(AssertionError(f"{worker.name} died:\n{words}"))

    def _take(self, worker: Worker, event: Event) -> None:
        for fits, future in self._waiting:
            if not future.done() and fits(worker, event):
                future.set_result((worker, event))
                break
        else:
            self._backlog.append((worker, event))
        self._waiting = [(fits, future) for fits, future in self._waiting if not future.done()]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.kill()
            if worker.listener is not None:
                worker.listener.cancel()
                await asyncio.gather(worker.listener, return_exceptions=True)
            worker.writer.close()
            with contextlib.suppress(ConnectionError):
                await worker.writer.wait_closed()
