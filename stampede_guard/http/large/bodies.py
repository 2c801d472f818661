"""The bodies of large responses: stored in pieces while they arrive, read in all processes meanwhile.

The response itself is stored as soon as its first piece is, under the fence of its URL's flight. It has the layout of
its body. If its URL is invalidated meanwhile, its writer can only write pieces that no stored response names.

A response whose length is not known is stored after its last piece. Only its own client reads it before that.

The store sets the pace of the application. A slow client reads the pieces later from the store, and delays nobody.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, NamedTuple

from msgspec.structs import replace

from stampede_guard.engine.engine import NOTHING, Engine
from stampede_guard.engine.plan import Plan
from stampede_guard.engine.tasks import CLOSE_PLAIN, running_loop
from stampede_guard.http.judging import LONGEST_STORED
from stampede_guard.http.pieces.handover import Handover
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import PIECE_BYTES, PieceGone, PieceUnread, plan_of_pieces
from stampede_guard.http.pieces.reading import read_pieces
from stampede_guard.http.pieces.shelf import Shelf
from stampede_guard.http.pieces.spool import Spool
from stampede_guard.http.pieces.writing import PieceWriter
from stampede_guard.http.requests.exchange import Exchange
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.fields import without
from stampede_guard.http.spec.ranges import ByteSpan
from stampede_guard.http.uncacheable.marks import Marks

__all__ = ["Begun", "BodySource", "LargeBodies"]

READING_SECONDS = 300.0
"""A piece is stored so much longer than its response is fresh: for readers that have begun."""
IN_VAIN_SECONDS = 60.0
"""If a body of unknown length was too large or too slow, the process stores nothing of the next ones for so long."""
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
        self._in_vain = Marks(IN_VAIN_SECONDS, engine.judged.now)

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
        draft, plan = self._lasting(draft)
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
        self._begin(self._write(writer, exchange, key, layout))
        try:
            await asyncio.wait({writer.first})
        except BaseException:
            # No client will read from it. A writer that waits for one would never end.
            writer.own.leave()
            raise
        # If a full server does not keep the first one, it is for its own client only.
        found = replace(draft, pieces=layout, unstorable=not writer.first.result())
        return Begun(found, BodySource(exchange, writer.own))

    def spools(self, key: str, request: CacheRequest, exchange: Exchange, draft: StoredResponse) -> bool:
        """Whether such a response, whose length is not known, may be stored in pieces."""
        may_be_stored = self._most_bytes > 0 and _is_whole(request, draft)
        return may_be_stored and exchange.length is None and not self._in_vain.passes(key)

    async def spool(
        self, key: str, exchange: Exchange, draft: StoredResponse, *, within: float, has_client: bool
    ) -> StoredResponse | str:
        """The response when its whole body is stored; or why not, if it is not stored within so many seconds. Its own
        client, if there is one, reads meanwhile and afterwards.
        """
        draft, plan = self._lasting(draft)
        layout = PieceLayout(secrets.token_hex(16), PIECE_BYTES, 0)
        shelf = Shelf(self._engine, plan, layout)
        if shelf.is_away(0):
            return "store"
        spool = Spool(shelf.put, shelf.look, size=PIECE_BYTES, most=self._most_bytes)
        if not has_client:
            spool.leave()
        exchange.go_into(spool)
        self._begin(_fill(spool, exchange, shelf))
        try:
            await asyncio.wait({spool.outcome}, timeout=within)
        finally:
            spool.cut_off("stream")
        if why := spool.outcome.result():
            if why in ("stream", "too large"):
                self._in_vain.note_all(key)
            return why
        fields = (*without(draft.fields, (b"content-length",)), (b"content-length", b"%d" % spool.length))
        return replace(draft, fields=fields, pieces=layout._replace(length=spool.length))

    def _lasting(self, draft: StoredResponse) -> tuple[StoredResponse, Plan]:
        """How long its pieces are stored. However long it may be served, that ends before them."""
        most = LONGEST_STORED - READING_SECONDS
        life = min(draft.lifetime, draft.age + most)
        left = round(max(0.0, life - draft.age), 3)
        keep = min(draft.keep, most - left)
        plan = plan_of_pieces(self._responses.policy, ttl=min(left + keep + READING_SECONDS, LONGEST_STORED))
        return replace(draft, lifetime=life, keep=max(0.0, keep)), plan

    def _begin(self, writing: Coroutine[Any, Any, None]) -> None:
        """In its own context: the computation in whose context this runs does not wait for it."""
        task = asyncio.get_running_loop().create_task(writing, context=Context())
        for tasks in (self._tasks, self._writing):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def read(
        self, layout: PieceLayout, wanted: ByteSpan, own: Handover | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Raises `PieceGone`: then call `drop`. Raises `PieceUnread`, which concerns this reader only."""
        return read_pieces(self._engine, self._plan, layout, wanted, own)

    async def is_there(self, key: str, layout: PieceLayout) -> bool:
        """Whether its first piece can be read now. If that is gone, the response is dropped."""
        try:
            await self._shelf(layout).look(0)
        except PieceGone:
            await self.drop(key, layout)
            return False
        except PieceUnread:
            return False
        return True

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
                await self._shelf(layout).drop(gone)
        finally:
            self._dropping.discard(layout.nonce)

    async def aclose(self, *, within: float) -> None:
        """Waits so many seconds for the bodies under way. The responses of the others are dropped, so the store must
        still be there.
        """
        loop = running_loop(CLOSE_PLAIN)
        if tasks := [task for task in list(self._writing) if task.get_loop() is loop]:
            _, left = await asyncio.wait(tasks, timeout=within)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=_DROPPING_SECONDS)

    def _shelf(self, layout: PieceLayout) -> Shelf:
        return Shelf(self._engine, self._plan, layout)

    async def _write(self, writer: PieceWriter, exchange: Exchange, key: str, layout: PieceLayout) -> None:
        try:
            await writer.write(_chunks(exchange))
        except BaseException as error:
            # First, so that no request comes to the pieces any more. The requests of its readers report the error.
            await self.drop(key, layout)
            _end(writer, exchange)
            await self._shelf(layout).drop(writer.published)
            if not isinstance(error, Exception):
                raise
        finally:
            _end(writer, exchange)


def _end(writer: PieceWriter, exchange: Exchange) -> None:
    writer.give_up()
    if not exchange.complete:
        exchange.cancel()


async def _fill(spool: Spool, exchange: Exchange, shelf: Shelf) -> None:
    try:
        async for part, _ in exchange.parts():
            await spool.add(part.chunk)
        await spool.end()
        if spool.outcome.result():
            await spool.left()
    except BaseException as error:
        # The request of its client reports it.
        spool.fail(error if isinstance(error, Exception) else PieceGone("the process ends"))
        if not exchange.complete:
            exchange.cancel()
        if not isinstance(error, Exception):
            raise
        await spool.left()
    finally:
        if spool.outcome.result():
            await shelf.drop(spool.tried)


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
