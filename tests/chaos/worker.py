"""A worker process of the chaos tests: a guard, and a control socket that says what to do with it.

`python -m tests.chaos.worker FD SETTINGS`. Lines of JSON go both ways on the descriptor. What it is told: `call`,
`open`, `cancel`, `invalidate`, `hammer`, `invalidate_tag`, `stop`, `status`, `close`. What it reports: `ready`, a
computation's `started` and end, each `answered` ask, each `gap` of the subscription, its `log`, and the results of what
it was told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.urls import store_from_url
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.stores.scripted import ScriptedSession
from tests.chaos.hammer import Hammer
from tests.chaos.journal import Journal
from tests.chaos.tasks import Tasks
from tests.support.fields import fields_of_guard

__all__ = ["Worker", "main"]


class Worker:
    """`settings`: name, url, namespace, journal (a path), policy (fields, also of Limits), deadline (s, or None)."""

    def __init__(self, settings: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._tasks = Tasks(settings["name"], Journal(Path(settings["journal"])), self.report)
        self._calls: dict[str, list[asyncio.Task[Any]]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._namespace = settings["namespace"]
        fields = fields_of_guard(**settings["policy"])
        self.guard = StampedeGuard(client_or_store(settings), namespace=settings["namespace"], **fields)
        self.hammer = Hammer(settings["name"], self.guard, Journal(Path(settings["journal"])))
        self._watch()

    def report(self, event: str, **details: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(
                json.dumps({"event": event, "at": time.monotonic(), **details}).encode() + b"\n"
            )

    async def serve(self, reader: asyncio.StreamReader) -> None:
        self.report("ready", pid=os.getpid())
        while line := await reader.readline():
            told = json.loads(line)
            if told["do"] == "close":
                break
            task = asyncio.create_task(self._do(told))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        await self.guard.aclose()
        self.report("closed")
        await self._writer.drain()

    async def _do(self, told: dict[str, Any]) -> None:
        match told:
            case {"do": "call", "call": call}:
                await self._call(call, told)
            case {"do": "open", "computation": name}:
                self._tasks.open(name)
            case {"do": "cancel", "call": call, "caller": number}:
                self._calls[call][number].cancel()
            case {"do": "invalidate", "key": key}:
                self.report("invalidated", key=key, result=await self.guard.invalidate(key))
            case {"do": "hammer", "keys": keys, "callers": callers}:
                await self.hammer.run(keys, callers)
                self.report("hammered", served=self.hammer.served)
            case {"do": "invalidate_tag", "times": times}:
                self.report("tag invalidated", tries=await self.hammer.invalidate(times))
            case {"do": "stop"}:
                self.hammer.stop()
            case {"do": "status"}:
                runtime = self.guard.engine.runtime()
                self.report(
                    "status",
                    away=runtime.away,
                    flights=len(runtime.flights),
                    abandoned=runtime.abandoned,
                    l1=len(runtime.l1),
                )
            case _:
                self.report("misunderstood", told=told)

    async def _call(self, call: str, told: dict[str, Any]) -> None:
        key, fields = told["key"], told.get("fields", {})
        compute = self._tasks.make(key, told["task"])

        async def one() -> Any:
            return await self.guard.get_or_compute(key, compute, **fields)

        began = time.monotonic()
        callers = self._calls[call] = [asyncio.create_task(one()) for _ in range(told["callers"])]
        results = await asyncio.gather(*callers, return_exceptions=True)
        values: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for result in results:
            if isinstance(result, BaseException):
                errors[f"{type(result).__name__}: {result}"] += 1
            else:
                values[result] += 1
        del self._calls[call]
        self.report(
            "called", call=call, key=key, values=values, errors=errors, seconds=time.monotonic() - began
        )

    # --- what a test waits for -----------------------------------------------------------------

    def _watch(self) -> None:
        """Report what a test must know of before it strikes, at the moment it happens."""
        acquire, gap = ScriptedSession.acquire, Runtime.gap
        report, front = self.report, len(self._namespace) + 2

        async def reported(session: ScriptedSession, name: str, **options: Any) -> Any:
            answer = await acquire(session, name, **options)
            suspect = getattr(answer, "suspect", False)
            report("answered", key=name[front:], answer=type(answer).__name__, suspect=suspect)
            return answer

        def noticed(runtime: Runtime) -> None:
            gap(runtime)
            inbox = getattr(runtime.session, "_inbox", None)  # in a cluster there are several
            report("gap", confirmed=inbox is None or bool(inbox.confirmed_name))

        ScriptedSession.acquire = reported  # type: ignore[method-assign,assignment]
        Runtime.gap = noticed  # type: ignore[method-assign,assignment]
        handler = _LogReporter(self.report)
        logging.getLogger("stampede_guard").addHandler(handler)
        logging.getLogger("stampede_guard").setLevel(logging.INFO)
        logging.getLogger("asyncio").addHandler(handler)


class _LogReporter(logging.Handler):
    def __init__(self, report: Any) -> None:
        super().__init__()
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report("log", level=record.levelname, text=self.format(record))


def client_or_store(settings: dict[str, Any]) -> Any:
    url = f"{settings['url']}?client_name={settings['name']}"
    if settings["deadline"] is not None:
        url += f"&socket_timeout={settings['deadline']:g}"
    return store_from_url(url)


async def main(descriptor: int, settings: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    await Worker(settings, writer).serve(reader)
    writer.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    if given["uvloop"]:
        import uvloop

        uvloop.run(main(int(sys.argv[1]), given))
    else:
        asyncio.run(main(int(sys.argv[1]), given))
