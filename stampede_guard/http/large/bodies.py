"""The bodies of large responses: stored in pieces while they arrive, read in all processes meanwhile.

The response itself is stored as soon as its first piece is, under the fence of its URL's flight. It has the layout of
its body. If its URL is invalidated meanwhile, its writer can only write pieces that no stored response names.

The store sets the pace of the application. A slow client reads the pieces later from the store, and delays nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import Context
from typing import Any, NamedTuple

from msgspec.structs import replace

from stampede_guard.engine.engine import NOTHING, Engine
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StampedeError
from stampede_guard.http.judging import LONGEST_STORED
from stampede_guard.http.pieces.handover import Handover
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import PIECE_BYTES, plan_of_pieces
from stampede_guard.http.pieces.reading import read_pieces
from stampede_guard.http.pieces.writing import PieceWriter
from stampede_guard.http.requests.exchange import Exchange
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.ranges import ByteSpan

__all__ = ["Begun", "BodySource", "LargeBodies"]

READING_SECONDS = 300.0
"""A piece is stored so much longer than its response is fresh: for readers that have begun."""
_DROPPING_SECONDS = 1.0
_FILES = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""With these, the application may name a file instead of its bytes. The server then sends it without a copy."""


class BodySource(NamedTuple):
    """For the request whose own call of the application makes the body."""

    exchange: Exchange
    own: Handover


class Begun(NamedTuple):
    response: StoredResponse
    source: BodySource


class LargeBodies:
    """`plan`: of the responses. `invalidate`: the response with this key. `tasks`: those awaited at the end."""

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        most_bytes: int,
        invalidate: Callable[[str], Awaitable[None]],
        tasks: set[asyncio.Future[Any]],
    ) -> None:
        self._engine = engine
        self._responses = plan
        self._most_bytes = most_bytes
        self._invalidate = invalidate
        self._plan = plan_of_pieces(plan.policy, ttl=READING_SECONDS)
        self._tasks = tasks
        self._writing: set[asyncio.Future[Any]] = set()
        self._dropping: set[str] = set()

    def takes(self, request: CacheRequest, exchange: Exchange, draft: StoredResponse) -> bool:
        """Whether such a response may be stored in pieces."""
        return 0 < (exchange.length or 0) <= self._most_bytes and _is_whole(request, draft)

    async def begin(self, key: str, exchange: Exchange, draft: StoredResponse) -> Begun | None:
        """The response by which readers find its pieces, which are stored from now on. None: not now, because the store
        is away, or too much is under way.
        """
        length = exchange.length
        assert length is not None
        layout = PieceLayout(secrets.token_hex(16), PIECE_BYTES, length)
        # However long its lifetime is, it ends before its pieces.
        draft = replace(draft, lifetime=min(draft.lifetime, draft.age + LONGEST_STORED - READING_SECONDS))
        seconds = round(max(0.0, draft.lifetime - draft.age), 3) + READING_SECONDS
        plan = plan_of_pieces(self._responses.policy, ttl=min(seconds, LONGEST_STORED))
        name = self._engine.prefix + layout.name(0)
        if self._engine.judged.is_away(name):
            # Before its flight, which would wait for a turn of the few computations without the store.
            return None
        writer = PieceWriter(self._engine, plan, layout)
        try:
            ready = await writer.ready()
        except BaseException:
            writer.give_up()
            raise
        if not ready or self._engine.judged.is_away(name):
            writer.give_up()
            return None
        exchange.go_into_pieces()
        writing = self._write(writer, exchange, key, layout)
        task = asyncio.get_running_loop().create_task(writing, context=Context())
        for tasks in (self._tasks, self._writing):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        try:
            await asyncio.wait({writer.first})
        except BaseException:
            # No client will read from it. A writer that waits for one would never end.
            writer.own.leave()
            raise
        # Its pieces are stored for its lifetime only, so it is never served stale, nor validated. If a full server does
        # not keep the first one, it is for its own client only.
        found = replace(draft, pieces=layout, keep=0.0, unstorable=not writer.first.result())
        return Begun(found, BodySource(exchange, writer.own))

    def read(
        self, layout: PieceLayout, wanted: ByteSpan, own: Handover | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Raises `PieceGone`: then call `drop`. Raises `PieceUnread`, which concerns this reader only."""
        return read_pieces(self._engine, self._plan, layout, wanted, own)

    async def drop(self, key: str, layout: PieceLayout, *, gone: int = 0) -> None:
        """Invalidates the response if it still has this layout, because no reader could read it to its end. `gone`: the
        number of the missing piece. Those before it are deleted: their writer may have been killed.
        """
        if layout.nonce in self._dropping:
            return
        self._dropping.add(layout.nonce)
        try:
            _, stored = await self._engine.judged.read(self._responses, self._engine.prefix + key)
            if stored is not NOTHING and isinstance(stored, StoredResponse) and stored.pieces == layout:
                await self._invalidate(key)
                await self._delete(layout, gone)
        finally:
            self._dropping.discard(layout.nonce)

    async def aclose(self, *, within: float) -> None:
        """Waits so many seconds for the bodies under way. The responses of the others are dropped, so the store must
        still be there.
        """
        loop = asyncio.get_running_loop()
        if tasks := [task for task in list(self._writing) if task.get_loop() is loop]:
            _, left = await asyncio.wait(tasks, timeout=within)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=_DROPPING_SECONDS)

    async def _delete(self, layout: PieceLayout, count: int) -> None:
        """The first pieces, which nobody can come to any more. They would fill the store for the whole lifetime of the
        response. Ends at the first one that the store does not delete now.
        """
        with contextlib.suppress(StampedeError):
            for number in range(count):
                name = self._engine.prefix + layout.name(number)
                if self._engine.judged.is_away(name):
                    return
                if await self._engine.invalidate(name, self._plan.policy) == "pending":
                    return

    async def _write(self, writer: PieceWriter, exchange: Exchange, key: str, layout: PieceLayout) -> None:
        try:
            await writer.write(_chunks(exchange))
        except BaseException as error:
            # First, so that no request comes to the pieces any more. The requests of its readers report the error.
            await self.drop(key, layout)
            _end(writer, exchange)
            await self._delete(layout, writer.published)
            if not isinstance(error, Exception):
                raise
        finally:
            _end(writer, exchange)


def _end(writer: PieceWriter, exchange: Exchange) -> None:
    writer.give_up()
    if not exchange.complete:
        exchange.cancel()


async def _chunks(exchange: Exchange) -> AsyncIterator[bytes]:
    async for part, _ in exchange.parts():
        yield part.chunk


def _is_whole(request: CacheRequest, draft: StoredResponse) -> bool:
    """Whether it is a complete body for all who wait, given as bytes."""
    return (
        request.method == "GET"
        and draft.status == 200
        and draft.may_be_shared(draft.age)
        and _FILES.isdisjoint(request.scope.get("extensions") or ())
    )
