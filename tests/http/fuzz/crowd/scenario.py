"""One seed in virtual time: middlewares on one store, clients that come, wait and leave, an application that may fail.

Nothing is judged here, except that everything ends and nothing is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from stampede_guard import Policy, StampedeGuard
from stampede_guard.errors import StampedeError
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.engine.fuzz.journal import Journal, Moment
from tests.engine.fuzz.network import UnsteadyStore
from tests.http.asgi import scope_of
from tests.http.fuzz.crowd.drawing import MOST, Action, Answer, Case, drawn
from tests.leases.simulation.loop import VirtualLoop
from tests.support.seeded import seeded

__all__ = ["Boom", "Call", "Crowd", "Visitor", "body_of", "play"]

LONGEST = 600.0
"""Virtual seconds after which whoever still waits waits for ever."""
TIMES = {
    "lease_ttl": 1.5,
    "takeover_gap": 0.25,
    "wait_timeout": 5.0,
    "compute_timeout": 5.0,
    "poll_interval": 0.4,
}


class Boom(Exception):
    """The error of the application."""


@dataclass
class Call:
    """One call of the application. `visitor`: whose request it was for, or a refresh in the background (None)."""

    number: int
    path: str
    method: str
    cookie: str
    visitor: int | None
    began: Moment
    answer: Answer
    outcome: str = "runs"
    ended: Moment | None = None


@dataclass
class Visitor:
    index: int
    action: Action
    began: Moment
    messages: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    left: bool = False
    served: Moment | None = None
    """When it got the first line."""
    ended: Moment | None = None

    @property
    def method(self) -> str:
        return {"head": "HEAD", "put": "PUT"}.get(self.action.kind, "GET")

    @property
    def fields(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def is_complete(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)


def body_of(call: Call) -> bytes:
    """All that the call means to send. Every part shows of which call it is, and for whom."""
    part = f"{call.path} {call.number} {call.cookie};".encode()
    body = b"".join(b"%d" % place + part for place in range(call.answer.parts))
    fault, announced = call.answer.fault, call.answer.announced
    if fault == "large":
        return body + b"." * (MOST + 1)
    if announced or fault not in ("short", "long"):
        return body
    # Nobody can tell.
    return body[:-1] if fault == "short" else body + b"+"


class Crowd:
    def __init__(self, case: Case, loop: VirtualLoop) -> None:
        self.case = case
        self.journal = Journal(loop)
        self.calls: list[Call] = []
        self.visitors: list[Visitor] = []
        self.changes: list[tuple[Moment, Moment, int, str, str]] = []
        """When an invalidation began and returned, in which process, of which path, and what it answered."""
        self.memory = MemoryStore(clock=loop.time)
        self.stores = [
            UnsteadyStore(label, self.memory, case.weather, case.seed, self.journal)
            for label in case.processes
        ]
        near = {"l1_ttl": case.near} if case.near else {}
        policy, limits = Policy(**TIMES, **near), Limits(drain_timeout=0.5)
        self.guards = [StampedeGuard(s, namespace="t", policy=policy, limits=limits) for s in self.stores]
        self.sites = [
            StampedeMiddleware(
                self.app,
                guard=guard,
                clock=lambda: 1.7e9 + loop.time(),
                max_body_bytes=MOST,
                stale_if_error=0,
            )
            for guard in self.guards
        ]
        self._loop = loop

    # --- the application ---------------------------------------------------------------------------

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        path, method, fields = scope["path"], scope["method"], dict(scope["headers"])
        if method == "PUT":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})
            return
        answer = self.case.answer(path, sum(call.path == path for call in self.calls))
        cookie, number = fields.get(b"cookie", b"").decode(), len(self.calls) + 1
        visitor = scope["client"][1] if scope["type"] == "http" else None
        call = Call(number, path, method, cookie, visitor, self.journal.now(), answer)
        self.calls.append(call)
        self.journal.note(f"call {number} of {method} {path} {cookie}: {answer}")
        answering = asyncio.ensure_future(self._answer(call, send))
        listening = asyncio.ensure_future(_until_gone(receive)) if answer.listens else None
        try:
            if listening is not None:
                await asyncio.wait({answering, listening}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    call.outcome = "heard that its client left"
                    return
            await answering
            call.outcome = "whole"
        except BaseException as error:
            call.outcome = repr(error)
            raise
        finally:
            for task in (answering, listening):
                if task is not None:
                    task.cancel()
            call.ended = self.journal.now()
            self.journal.note(f"call {number} ends: {call.outcome}")

    async def _answer(self, call: Call, send: Any) -> None:
        answer, fault = call.answer, call.answer.fault
        if answer.adds == "hint":
            await send({"type": "http.response.early_hint", "links": []})
        await asyncio.sleep(100.0 if fault == "hangs early" else answer.first)
        if fault == "raises early":
            raise Boom(str(call.number))
        if fault == "returns early":
            return
        body = body_of(call)
        start = {
            "type": "http.response.start",
            "status": 503 if fault == "error" else 200,
            "headers": [(name.encode(), value.encode()) for name, value in _fields(call, len(body))],
        }
        if answer.adds == "trailers":
            start["trailers"] = True
        await send(start)
        if fault == "twice":
            await send(start)
        if call.method == "HEAD":
            body = b""
        await self._send_body(call, body, send)

    async def _send_body(self, call: Call, body: bytes, send: Any) -> None:
        answer, fault = call.answer, call.answer.fault
        if fault == "short" and answer.announced:
            body = body[:-1]
        size = max(1, len(body) // max(1, answer.parts))
        for begin in range(0, len(body), size):
            await asyncio.sleep(answer.pace)
            if begin and fault in ("raises", "hangs", "returns"):
                break
            if answer.adds == "empty":
                await send({"type": "http.response.body", "body": b"", "more_body": True})
            await send({"type": "http.response.body", "body": body[begin : begin + size], "more_body": True})
        if fault == "raises":
            raise Boom(str(call.number))
        if fault == "hangs":
            await asyncio.sleep(100.0)
        if fault in ("returns", "hangs"):
            return
        await send(
            {"type": "http.response.body", "body": b"+" if fault == "long" and answer.announced else b""}
        )
        if answer.adds == "more":
            await send({"type": "http.response.body", "body": b"too late"})
        if answer.adds == "trailers":
            await send({"type": "http.response.trailers", "headers": [(b"sum", b"1")]})

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
        began, answer = self.journal.now(), "done"
        if action.kind == "purge":
            try:
                answer = await self.sites[action.process].purge(url=f"http://example.test{action.path}")
            except StampedeError as error:
                answer = repr(error)
        else:
            visitor = await self._visit(index, action)
            if action.kind != "put" or not visitor.messages:
                return
        self.changes.append((began, self.journal.now(), action.process, action.path, answer))

    async def _visit(self, index: int, action: Action) -> Visitor:
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
            if gone.is_set() and action.how == "broken":
                raise OSError("the connection is gone")
            if message["type"] == "http.response.start":
                visitor.served = visitor.served or self.journal.now()
            if message["type"] != "http.response.early_hint":
                visitor.messages.append(message)
            await asyncio.sleep(action.reads)

        fields = [("cookie", action.cookie)] if action.cookie else []
        told = {"reload": "no-cache", "stored": "only-if-cached", "lenient": "max-stale=15"}.get(action.kind)
        fields += [("cache-control", told)] if told else []
        scope = scope_of(visitor.method, action.path, fields) | {"client": ("127.0.0.1", index)}
        visiting = self._loop.create_task(self.sites[action.process](scope, receive, send))

        def leave() -> None:
            if not visiting.done():
                visitor.left = True
                self.journal.note(f"visitor {index} leaves")
                gone.set()
                if action.how == "cancelled":
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
        visitor.ended = self.journal.now()
        self.journal.note(f"visitor {index} ends: {len(visitor.body)} bytes, {visitor.error!r}")
        return visitor

    # --- the end -----------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Everything lands; then nothing may be left."""
        problems = self.journal.problems
        for store in self.stores:
            store._end("")
            store.recover()
        await asyncio.sleep(120.0)
        for label, guard, site in zip(self.case.processes, self.guards, self.sites, strict=True):
            runtime, cache = guard.engine.runtime(), site.cache
            for what, left in {
                "flights": dict(runtime.flights),
                "fallbacks": runtime.fallbacks,
                "slots": runtime.slots._taken,
                "tasks": [task for task in cache._tasks if not task.done()],
                "waiting": dict(cache._waiting),
            }.items():
                if left:
                    problems.append(f"{label} has {what} left: {left}")
        for name in self.memory.names():
            if self.memory.look(name).lease is not None:
                problems.append(f"{name} is leased for ever")
        problems += [f"call {call.number} never ends" for call in self.calls if call.ended is None]
        for site in self.sites:
            await site.cache.aclose()
        wires = [task for store in self.stores for task in store.travelling]
        if wires:
            await asyncio.wait(wires)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if left:
            await asyncio.wait(left, timeout=5.0)
        if stay := [task for task in left if not task.done()]:
            problems.append(f"tasks are left: {stay}")


def _fields(call: Call, size: int) -> list[tuple[str, str]]:
    answer = call.answer
    control = [f"number={call.number}"]
    if answer.rule != "silent":
        control.append(f"max-age={answer.max_age}")
    control += {"public": ["public"], "personal": ["private"], "unstored": ["no-store"]}.get(answer.rule, [])
    if answer.stale:
        control.append(f"{answer.stale}={answer.stays:.0f}" if answer.stays else answer.stale)
    fields = [("cache-control", ", ".join(control))]
    if answer.rule == "cookie":
        fields.append(("set-cookie", f"token={call.number}"))
    if answer.rule == "varies":
        fields.append(("vary", "cookie"))
    if answer.announced:
        fields.append(("content-length", str(size)))
    return fields


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def play(case: Case | int) -> Crowd:
    """The crowd after all have gone. The laws are not judged here."""
    case = drawn(case) if isinstance(case, int) else case
    loop, disabled = VirtualLoop(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    unraisable: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, disabled)
        stack.enter_context(seeded(case.seed))
        stack.enter_context(
            mock.patch.object(sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value)))
        )
        crowd = Crowd(case, loop)
        loop.set_exception_handler(
            lambda _, context: crowd.journal.problems.append(f"the event loop reports {context}")
        )
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(crowd.run())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        if case.seed % 20 == 0:
            gc.collect()
    crowd.journal.problems += unraisable
    return crowd
