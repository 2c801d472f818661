"""One seed in virtual time: middlewares on one store, clients that read, range and leave, and a large body."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from stampede_guard import Policy, StampedeGuard
from stampede_guard.engine import previous
from stampede_guard.errors import StampedeError
from stampede_guard.http.large import bodies
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.http.pieces.layout import nonce_of_piece
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.engine.fuzz.journal import NEVER, Journal, Moment
from tests.engine.fuzz.network import UnsteadyStore
from tests.http.asgi import scope_of
from tests.http.large.fuzz.drawing import MOST, PIECE, SMALL, Action, Answer, Case, drawn
from tests.leases.simulation.loop import VirtualLoop
from tests.support.seeded import seeded

__all__ = ["Boom", "Call", "Fleet", "Visitor", "body_of", "play"]

LONGEST = 600.0
"""Virtual seconds after which whoever still waits waits for ever."""
POLICY = Policy(lease_ttl=1.5, takeover_gap=0.25, wait_timeout=5.0, compute_timeout=5.0, poll_interval=0.4)


class Boom(Exception):
    """The error of the application."""


def body_of(number: int, size: int) -> bytes:
    """Every part of it shows of which call it is, and where in it."""
    return b"".join(b"%c%c" % (number % 256, place % 256) for place in range(-(-size // 2)))[:size]


@dataclass
class Call:
    number: int
    path: str
    method: str
    process: str
    began: Moment
    answer: Answer
    outcome: str = "cancelled"
    ended: Moment = NEVER


@dataclass
class Visitor:
    index: int
    action: Action
    began: Moment
    messages: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    left: bool = False

    @property
    def fields(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def is_complete(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)


class Fleet:
    def __init__(self, case: Case, loop: VirtualLoop) -> None:
        self.case = case
        self.journal = Journal(loop)
        self.calls: list[Call] = []
        self.visitors: list[Visitor] = []
        self.purges: list[tuple[Moment, Moment, str, str]] = []
        self.dropped = self.closed = False
        self.bodies: set[str] = set()
        """Of which pieces are stored in the end."""
        self.memory = MemoryStore(clock=loop.time)
        self.stores = [
            UnsteadyStore(label, self.memory, case.weather, case.seed, self.journal)
            for label in case.processes
        ]
        limits = Limits(drain_timeout=0.5, max_local_computations=2)
        self.guards = [StampedeGuard(s, namespace="t", policy=POLICY, limits=limits) for s in self.stores]
        self.sites = [
            StampedeMiddleware(
                self.app_of(label),
                guard=guard,
                clock=lambda: 1.7e9 + loop.time(),
                max_body_bytes=SMALL,
                max_pieces_bytes=MOST,
                stream_timeout=2.0,
                stale_if_error=0.0,
            )
            for label, guard in zip(case.processes, self.guards, strict=True)
        ]
        self._loop = loop

    # --- the application ---------------------------------------------------------------------------

    def app_of(self, label: str) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            path, method = scope["path"], scope["method"]
            count = sum(call.path == path for call in self.calls)
            answer = self.case.answer(path, count)
            number = len(self.calls) + 1
            call = Call(number, path, method, label, self.journal.now(), answer)
            self.calls.append(call)
            self.journal.note(f"{label}: call {number} of {method} {path}: {answer}")
            try:
                await self._send_body(call, send)
                call.outcome = "whole"
            except BaseException as error:
                call.outcome = repr(error)
                raise
            finally:
                call.ended = self.journal.now()
                self.journal.note(f"{label}: call {number} ends: {call.outcome}")

        return app

    async def _send_body(self, call: Call, send: Any) -> None:
        answer, number = call.answer, call.number
        if answer.fails:
            await send(
                {"type": "http.response.start", "status": 503, "headers": [(b"number", b"%d" % number)]}
            )
            await send({"type": "http.response.body", "body": b"no"})
            return
        while_refreshed, if_error = self.case.stale
        told = f"stale-while-revalidate={while_refreshed}, stale-if-error={if_error}"
        fields = [
            ("cache-control", f"max-age={self.case.max_age}, {told}"),
            ("number", str(number)),
            ("etag", f'"{number}"'),
        ]
        if answer.announced:
            fields.append(("content-length", str(answer.size)))
        headers = [(name.encode(), value.encode()) for name, value in fields]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if call.method == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        body, begin = body_of(number, answer.sends), 0
        while begin < answer.sends:
            end = min(begin + answer.chunk, answer.sends)
            if begin <= answer.at < end or begin == answer.at:
                if answer.raises:
                    raise Boom(str(number))
                await asyncio.sleep(answer.stalls)
            await send({"type": "http.response.body", "body": body[begin:end], "more_body": True})
            await asyncio.sleep(answer.pace)
            begin = end
        if answer.raises:
            raise Boom(str(number))
        await send({"type": "http.response.body", "body": b""})

    # --- its clients -------------------------------------------------------------------------------

    async def run(self) -> None:
        loop = self._loop
        storms = [loop.create_task(store.endure(), name="weather") for store in self.stores]
        begin, tasks = loop.time(), []
        for index, action in enumerate(self.case.actions):
            await asyncio.sleep(max(0.0, begin + action.at - loop.time()))
            tasks.append(loop.create_task(self._act(index, action), name=f"action {index}"))
        await asyncio.wait([*tasks, *storms], timeout=LONGEST)
        for index, task in enumerate(tasks):
            if not task.done():
                stack = [f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in task.get_stack()]
                self.journal.problems.append(f"action {index} never ends: {self.case.actions[index]} {stack}")
                task.cancel()
            elif not task.cancelled() and task.exception() is not None:
                self.journal.problems.append(f"action {index}: {task.exception()!r}")
        for storm in storms:
            storm.cancel()
        await self._settle()

    async def _act(self, index: int, action: Action) -> None:
        self.journal.note(f"action {index}: {action}")
        match action.kind:
            case "purge":
                await self._purge(action)
            case "forget":
                await self._forget(index)
            case "close":
                self.closed = True
                await self.sites[action.process].cache.aclose()
            case _:
                await self._visit(index, action)

    async def _purge(self, action: Action) -> None:
        began = self.journal.now()
        try:
            answer: str = await self.sites[action.process].purge(url=f"http://example.test{action.path}")
        except StampedeError as error:
            answer = repr(error)
        self.journal.note(f"purged {action.path}: {answer}")
        self.purges.append((began, self.journal.now(), action.path, answer))

    async def _forget(self, index: int) -> None:
        """The store drops a piece, as a full server may."""
        names = sorted(name for name in self.memory.names() if "http3p:" in name)
        if names:
            self.dropped = True
            name = Random(f"{self.case.seed} {index}").choice(names)
            self.memory._entries.drop(name)
            self.journal.note(f"dropped {name}")

    async def _visit(self, index: int, action: Action) -> None:
        visitor = Visitor(index, action, self.journal.now())
        self.visitors.append(visitor)
        gone, asked = asyncio.Event(), [False]

        async def receive() -> Any:
            if not asked[0]:
                asked[0] = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            visitor.messages.append(message)
            await asyncio.sleep(action.reads)

        method = "HEAD" if action.kind == "head" else "GET"
        fields = [*action.asked, *([("cache-control", "no-cache")] if action.kind == "reload" else [])]
        site = self.sites[action.process]
        visiting = self._loop.create_task(site(scope_of(method, action.path, fields), receive, send))

        def leave() -> None:
            if not visiting.done():
                visitor.left = True
                self.journal.note(f"visitor {index} leaves")
                gone.set()
                if action.cancelled:
                    visiting.cancel()

        if action.leaves is not None:
            self._loop.call_later(action.leaves, leave)
        try:
            await visiting
        except asyncio.CancelledError as error:
            if not visiting.done():
                visiting.cancel()
                raise
            visitor.error = error
        except Exception as error:
            visitor.error = error
        self.journal.note(f"visitor {index} ends: {len(visitor.body)} bytes, {visitor.error!r}")

    # --- the end -----------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Everything lands; then nothing may be left."""
        problems = self.journal.problems
        for store in self.stores:
            store._end("")
            store.recover()
        await asyncio.sleep(60.0)
        for label, guard, site in zip(self.case.processes, self.guards, self.sites, strict=True):
            runtime, cache = guard.engine.runtime(), site.cache
            for what, left in {
                "flights": dict(runtime.flights),
                "fallbacks": runtime.fallbacks,
                "slots": runtime.slots._taken,
                "tasks": [task for task in cache._tasks if not task.done()],
                "waiting": dict(cache._waiting),
                "bodies": set(cache.large._writing),
                "drops": cache.large._dropping,
            }.items():
                if left:
                    problems.append(f"{label} has {what} left: {left}")
        for name in self.memory.names():
            entry = self.memory.look(name)
            if entry.lease is not None:
                problems.append(f"{name} is leased for ever")
            if entry.value is not None and (nonce := nonce_of_piece(name, "t")):
                self.bodies.add(nonce)
        for site in self.sites:
            await site.cache.aclose()
        left = [
            task
            for task in asyncio.all_tasks()
            if task is not asyncio.current_task() and "wire" not in task.get_name()
        ]
        if left:
            await asyncio.wait(left, timeout=5.0)
        if stay := [task for task in left if not task.done()]:
            problems.append(f"tasks are left: {stay}")
        for call in self.calls:
            if (
                call.outcome == "cancelled"
                and self.journal.lines
                and not any(f"call {call.number} ends" in line for line in self.journal.lines)
            ):
                problems.append(f"call {call.number} never ends")
        wires = [task for store in self.stores for task in store.travelling]
        if wires:
            await asyncio.wait(wires)


def play(case: Case | int) -> Fleet:
    """The fleet after it has ended. The laws are not judged here."""
    case = drawn(case) if isinstance(case, int) else case
    loop, disabled = VirtualLoop(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    unraisable: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, disabled)
        stack.enter_context(seeded(case.seed))
        for place, name, other in (
            (bodies, "PIECE_BYTES", PIECE),
            (previous, "time", SimpleNamespace(monotonic=loop.time)),
            (sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value))),
        ):
            stack.enter_context(mock.patch.object(place, name, other))
        fleet = Fleet(case, loop)
        loop.set_exception_handler(
            lambda _, context: fleet.journal.problems.append(f"the event loop reports {context}")
        )
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(fleet.run())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        if case.seed % 20 == 0:
            gc.collect()
    fleet.journal.problems += unraisable
    return fleet
