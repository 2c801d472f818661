"""One run of the application, apart from any request: a task of its own, whose answer several may read as it comes.

It has a scope of its own and hears of no disconnect, so that the client that happened to be first may leave. What it
sends is kept until the whole is there, without holding the application back: the body is bounded. Once it is known
that the response is not to be stored, it is one client's: chunk by chunk, and not faster than that client reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields, Response

__all__ = ["BrokenOff", "Exchange", "Message", "Receive", "Send"]

log = logging.getLogger("stampede_guard")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_UNBUFFERED = 16
"""Chunks that may be ahead of the one client of a response that is not stored."""


class BrokenOff(RuntimeError):
    """The application ended before its response did."""


class Exchange:
    """`error` is what the application raised before its response was complete, or a `BrokenOff`.

    `too_large`: the body is larger than `max_body_bytes`. `live`: it is one client's, from now on. `shared`: it has
    been offered to several, because its length is known. `ours` are the conditions that we added for validation.
    """

    def __init__(
        self,
        app: App,
        scope: MutableMapping[str, Any],
        context: contextvars.Context,
        *,
        max_body_bytes: int,
        ours: Fields = (),
        body: bytes = b"",
    ) -> None:
        self.ours = ours
        self.status = 0
        self.fields: Fields = ()
        self.error: BaseException | None = None
        self.complete = False
        self.too_large = False
        self.live = False
        self.shared = False
        self.size = 0
        self.length: int | None = None
        self._max_body_bytes = max_body_bytes
        self._chunks: list[bytes] = []
        self._dropped = 0
        self._gone = asyncio.Event()
        self._asked_for_body = False
        self._body = body
        self._changed = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(
            self._run(app, scope), name="stampede_guard exchange", context=context
        )

    async def _run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
            if not self.complete:
                self.error = BrokenOff("the application returned before its response was complete")
        except asyncio.CancelledError:
            self.error = self.error or BrokenOff("the application was cancelled")
            raise
        except BaseException as error:
            if self.complete and not self.live:
                # Its response is being served, so nobody is there to be told.
                log.exception("an application failed after its response was complete")
            self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._tell()

    # --- the application's side ----------------------------------------------------------------

    async def _receive(self) -> Message:
        if not self._asked_for_body:
            self._asked_for_body = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self.status:
                raise RuntimeError("http.response.start was sent twice")
            self.fields = as_fields(message.get("headers", ()))
            self.length = content_length(self.fields)
            self.status = int(message["status"])
            self._tell()
            # Whoever waits for this decides now. An application that does not let go of the loop would else have sent
            # all of a body that belongs to one client before anybody could hold it back.
            await asyncio.sleep(0)
        elif kind == "http.response.body":
            await self._take(bytes(message.get("body", b"")), more=bool(message.get("more_body", False)))

    async def _take(self, chunk: bytes, *, more: bool) -> None:
        if not self.status:
            raise RuntimeError("http.response.body was sent before http.response.start")
        if self.complete:
            return
        if self.shared and self.length is not None and self.size + len(chunk) > self.length:
            raise RuntimeError("more was sent than Content-Length says")
        self.size += len(chunk)
        if chunk:
            self._chunks.append(chunk)
        if not self.live and self.size > self._max_body_bytes:
            self.too_large = True
        self.complete = not more
        self._tell()
        while (self.live or self.too_large) and len(self._chunks) > _UNBUFFERED and not self._gone.is_set():
            await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- the readers' side ---------------------------------------------------------------------

    async def head(self) -> Response | None:
        """The response without its body; None if the application failed before."""
        while not self.status and not self._over:
            await self._changed.wait()
        return Response(self.status, self.fields) if self.status else None

    async def whole(self) -> bytes | None:
        """The body; None if it is too large, or broken off, or not as long as it was said to be."""
        while not (self.complete or self.too_large or self._over):
            await self._changed.wait()
        if self.too_large or not self.complete:
            return None
        if self.length is not None and self.length != self.size:
            self.error = self.error or BrokenOff("the body is not as long as Content-Length says")
            return None
        return b"".join(self._chunks)

    async def decided(self) -> None:
        """Until it is known whether it is stored, one way or the other."""
        while not (self.live or self.complete or self._over):
            await self._changed.wait()

    @property
    def _over(self) -> bool:
        return self.error is not None or self.task.done()

    async def chunks(self) -> AsyncIterator[tuple[bytes, int]]:
        """Chunks as they come, with the bytes so far. Raises what the application raised."""
        number, sent = 0, 0
        while True:
            while number - self._dropped < len(self._chunks):
                chunk = self._chunks[number - self._dropped]
                number += 1
                sent += len(chunk)
                yield chunk, sent
            # What is shared broke off: it is as small as it was said to be, and the slowest has yet to read it.
            if self.live and not self.shared and number > self._dropped:
                # What its one client has, nobody needs any more. The application may go on.
                del self._chunks[: number - self._dropped]
                self._dropped = number
                self._tell()
            if self.complete:
                return
            if self._over:
                raise self.error or BrokenOff("the application ended before its response was complete")
            await self._changed.wait()

    def go_live(self) -> None:
        """It will not be stored: it belongs to one client, at that client's pace."""
        self.live = True
        self._tell()

    def leave(self) -> None:
        """Its one client has gone: the application is told, as by a server."""
        self._gone.set()
        self._tell()

    async def end(self) -> None:
        """Wait for what the application does after its response. Raises what it raised."""
        await asyncio.wait({self.task})
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        self.leave()
        self.task.cancel()


def as_fields(headers: Any) -> Fields:
    """As bytes with lower-case names, whatever the application wrote."""
    return tuple([(bytes(name).lower(), bytes(value)) for name, value in headers])


def content_length(fields: Fields) -> int | None:
    found = lines(fields, b"content-length")
    return int(found[0]) if len(found) == 1 and found[0].isdigit() and len(found[0]) < 19 else None
