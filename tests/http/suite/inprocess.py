"""A cache in this process, and time that only goes when it is told to."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from tests.http.asgi import request
from tests.http.suite.cases import Case, of_own
from tests.http.suite.origin import Origin
from tests.http.suite.play import Answer, Result, Seat, play
from tests.support.clock import Clock

__all__ = ["play_all"]


async def play_all(cases: dict[str, Case], *, own: bool = False, **options: Any) -> list[Result]:
    """`own`: these are the project's own cases, which have options of their own."""
    return [await _play(case, cases, options | (of_own(case.id) if own else {})) for case in cases.values()]


async def _play(case: Case, cases: dict[str, Case], options: dict[str, Any]) -> Result:
    clock = Clock(1_700_000_000.0)
    guard = StampedeGuard(MemoryStore(clock=clock), namespace="suite")

    async def pause(seconds: float) -> None:
        clock.advance(seconds)

    app = StampedeMiddleware(Origin(cases, clock=clock, sleep=pause), guard=guard, clock=clock, **options)

    async def client(method: str, path: str, fields: list[tuple[str, str]], body: bytes) -> Answer:
        try:
            answer = await request(app, method, path, fields=fields, body=body)
        except Exception as error:  # what a server makes of an application that raises
            return Answer(500, [("x-error", repr(error))], b"Internal Server Error")
        await settled(guard)
        return answer

    async with guard, asyncio.timeout(60):
        return await play(case, Seat(client, pause, "in-process"))


async def settled(guard: StampedeGuard) -> None:
    """Until no flight is under way."""
    while flights := list(guard.engine.runtime().flights.values()):
        await asyncio.wait([flight.landed for flight in flights])
