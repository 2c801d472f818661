"""A program that forks with a guard in use. `python -m tests.chaos.forking CASE URL NAMESPACE JOURNAL` prints JSON.

`inside`: forked while an event loop runs, with live connections. `preload`: as gunicorn does it, the guard was used in
an event loop of the parent that has ended. `orphan`: forked while the parent computes; then both wait to be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import redis

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.policy import Policy
from tests.chaos.journal import Journal
from tests.support.sessions import LONG

CHILDREN = 4
CALLERS = 25


class Program:
    def __init__(self, url: str, namespace: str, journal: Journal) -> None:
        self.url = f"{url}?client_name=guard-{namespace}&socket_timeout={LONG:g}"
        self.namespace = namespace
        self.guard = StampedeGuard.from_url(self.url, namespace=namespace, policy=Policy(lease_ttl=200.0))
        self.journal = journal

    async def call(self, key: str, seconds: float) -> str:
        async def compute() -> str:
            name = f"{os.getpid()}#{len(self.journal.lines(key))}"
            self.journal.write(key, name, "started")
            await asyncio.sleep(seconds)
            return name

        return await self.guard.get_or_compute(key, compute, type=str)

    async def herd(self, key: str) -> list[str]:
        return sorted(set(await asyncio.gather(*(self.call(key, 0.5) for _ in range(CALLERS)))))

    def inbox(self) -> str:
        session: Any = self.guard.engine.runtime().session
        return str(session._inbox.confirmed_name)

    def connections(self) -> list[str]:
        """The connections of this guard as the server sees them, children's included."""
        with redis.Redis.from_url(self.url.split("?")[0]) as client:
            return sorted(
                line["id"] for line in client.client_list() if line["name"] == f"guard-{self.namespace}"
            )

    def fork(self, run: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[int, int]:
        """A child that runs `run()` in an event loop of its own and writes its result. Returns pid and the read end."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write_end)
            return pid, read_end
        status = 1
        try:
            result = asyncio.run(run())
            os.write(write_end, json.dumps(result).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    async def report(self) -> dict[str, Any]:
        """What a child finds: the parent's value, one computation with its siblings, an inbox of its own."""
        async with self.guard:
            known = await self.call("known", 0.0)
            return {"known": known, "herd": await self.herd("herd"), "inbox": self.inbox()}

    def collect(self, children: list[tuple[int, int]]) -> list[dict[str, Any]]:
        reports = []
        for pid, read_end in children:
            with os.fdopen(read_end) as stream:
                text = stream.read()
            _, status = os.waitpid(pid, 0)
            if status:
                raise RuntimeError(f"a child ended with {status}")
            reports.append(json.loads(text))
        return reports

    async def inside(self) -> dict[str, Any]:
        known = await self.call("known", 0.0)
        inbox, before = self.inbox(), self.connections()
        children = [self.fork(self.report) for _ in range(CHILDREN)]
        mine = await self.herd("herd")
        # The children's calls and ends must not be heard on the parent's connections.
        reports = await asyncio.to_thread(self.collect, children)
        again = await self.call("known", 0.0)
        after = self.connections()
        away = self.guard.engine.runtime().away
        await self.guard.aclose()
        return {
            "known": known,
            "again": again,
            "herd": mine,
            "inbox": inbox,
            "children": reports,
            "before": before,
            "after": after,
            "away": away,
        }

    async def orphan(self) -> None:
        holding = asyncio.create_task(self.call("held", 3600.0))
        while not self.journal.lines("held"):  # noqa: ASYNC110 - a program of its own, for a moment
            await asyncio.sleep(0)
        if not os.fork():
            signal.pause()
        self.journal.write("forked", str(os.getpid()), "started")
        await holding

    def preload(self) -> dict[str, Any]:
        async def use() -> tuple[str, str]:
            return await self.call("known", 0.0), self.inbox()

        known, inbox = asyncio.run(use())
        return {
            "known": known,
            "inbox": inbox,
            "children": self.collect([self.fork(self.report) for _ in range(CHILDREN)]),
            "again": asyncio.run(self.call("known", 0.0)),
        }


if __name__ == "__main__":
    case, url, namespace, path = sys.argv[1:]
    program = Program(url, namespace, Journal(Path(path)))
    match case:
        case "inside":
            print(json.dumps(asyncio.run(program.inside())))
        case "preload":
            print(json.dumps(program.preload()))
        case "orphan":
            asyncio.run(program.orphan())
