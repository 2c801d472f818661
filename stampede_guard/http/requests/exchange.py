"""One run of the application in its own task, separate from any request. Several readers may read its response as
it comes.

The application sees the same as without a cache: the scope, the messages and the ContextVars of the request that it
runs for. What it sets there is carried back. Its messages are kept until the response is complete. This does not
delay it, because the body is bounded. Once it is known that the response will not be stored, it belongs to one
client: each message goes to that client, and the application waits until it has been sent.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from stampede_guard.engine.tasks import AT_ITS_PACE, done_within
from stampede_guard.http.pieces.files import content_of, read_on
from stampede_guard.http.pieces.spool import Spool
from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields, Response

__all__ = ["BrokenOff", "Exchange", "Message", "Receive", "Send"]

log = logging.getLogger("stampede_guard")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class BrokenOff(RuntimeError):
    """The application ended before its response did."""


class BodyPart(NamedTuple):
    """A message of a body, and its bytes. The message differs if it names a file (`pathsend`)."""

    message: Message
    chunk: bytes


class Exchange:
    """`error` is the exception of the application before its response was complete, or a `BrokenOff`.

    `too_large`: the body is larger than `max_body_bytes`. `live`: from now on it belongs to one client. `in_pieces`:
    it is stored while it comes. `paced`: either of both, so the application waits for the one reader of its messages.
    `shared`: it was offered to several, because its length is known. `ours` are the conditions that the middleware
    added for validation. `told_of_leaving`: the application knows that its client left, so it may stop in mid-body.
    `spool`: the body goes there, and its own client reads on there. `start` is the first line from the application.
    `late` is an exception after its response was complete. `send` is its own client's, for messages before the first
    line. `served`: its own client needs no more, or there is none. `holds_file`: the application waits, because that
    client gets a file of its own. `is_for_others` returns whether other requests wait for this response.
    """

    def __init__(
        self,
        app: App,
        scope: MutableMapping[str, Any],
        context: contextvars.Context,
        receive: Receive,
        *,
        max_body_bytes: int,
        ours: Fields = (),
        original: MutableMapping[str, Any] | None = None,
        send: Send | None = None,
        is_for_others: Callable[[], bool] = lambda: True,
    ) -> None:
        self.ours = ours
        self.status = 0
        self.fields: Fields = ()
        self.start: Message = {}
        self.error: BaseException | None = None
        self.late: BaseException | None = None
        self.complete = self.too_large = False
        self.live = False
        self.in_pieces = False
        self.paced = False
        self.shared = False
        self.told_of_leaving = False
        self.spool: Spool | None = None
        self.size = 0
        self.length: int | None = None
        self._max_body_bytes = max_body_bytes
        self._parts: list[BodyPart] = []
        self._dropped = 0
        self._sent = 0
        self._gone = False
        self.is_kept = False
        self._outlet: Send | None = None
        self._own_send = send
        self.served, self.holds_file = send is None, False
        self._is_for_others = is_for_others
        self._server = receive
        self._scope, self._original = scope, original
        self._context = context
        self._before = context.copy()
        self._changed: asyncio.Event | None = None
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
                self.late = error
                if self._gone:
                    # Its response is being served, so no caller is left to get the error.
                    log.exception("an application failed after its response was complete")
            else:
                self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            if self._original is not None:
                self._mirror(self._original)
            self._tell()

    # --- the application's side ----------------------------------------------------------------

    async def _receive(self) -> Message:
        message = await self._server()
        if message["type"] == "http.disconnect":
            # Its client has left. That concerns only this client if others wait for the same response. It also holds
            # before the first line: each client that asks and leaves would end a call that a herd waits for.
            while not (self.complete or self._over) and self._serves_others:
                await self._change()
            self.told_of_leaving = True
        return message

    async def _send(self, message: Message) -> None:
        if self._outlet is not None:
            await self._hand_on(message)
            return
        kind = message["type"]
        if kind == "http.response.start":
            await self._begin(message)
        elif kind == _BODY:
            # What is kept beyond this call is a copy: the application may use its message and its buffer again.
            chunk = bytes(message.get("body", b""))
            await self._take({**message, "body": chunk}, chunk)
        elif kind in _BODIES:
            await self._take_file({**message})
        elif self._own_send is not None and not self._gone:
            # Early hints, pushes, information for a test client: only for the client of this call.
            try:
                await self._own_send(message)
            except Exception:
                if not self._serves_others:
                    raise
                self._own_send = None

    async def _begin(self, message: Message) -> None:
        if self.status:
            raise RuntimeError("http.response.start was sent twice")
        self.fields = as_fields(message.get("headers", ()))
        self.length = content_length(self.fields)
        self.start = dict(message)
        self.status = int(message["status"])
        if self._original is not None:
            self._mirror(self._original)
        self._tell()
        # The waiters now decide who gets the response, and nothing of it is sent before that.
        while not (self.is_kept or self._outlet or self._gone):
            await self._change()
        if self._outlet is not None:
            await self._hand_on(message)

    async def _hand_on(self, message: Message) -> None:
        """To its one client, as without a cache: the application sees an error of sending."""
        assert self._outlet is not None
        await self._outlet(message)
        if message["type"] in _BODIES and not message.get("more_body", False):
            self.complete = True
            self._tell()

    async def _take(self, message: Message, chunk: bytes) -> None:
        if not self.status:
            raise RuntimeError("http.response.body was sent before http.response.start")
        if self.complete:
            return
        certain = self.shared or self.in_pieces
        if certain and self.length is not None and self.size + len(chunk) > self.length:
            raise RuntimeError("more was sent than Content-Length says")
        self.size += len(chunk)
        self._parts.append(BodyPart(message, chunk))
        if not self.paced and self.size > self._max_body_bytes:
            self.too_large = True
        self.complete = not message.get("more_body")
        self._tell()
        number = self._dropped + len(self._parts)
        while (self.paced or self.too_large) and self._sent < number and not self._gone:
            await self._change()

    async def _take_file(self, message: Message) -> None:
        """The application may close or delete a file as soon as this returns. So its own client has it before, or gets
        its content as bytes: if more follows, that client may be waiting for the end.
        """
        content = await asyncio.to_thread(content_of, message, self._max_body_bytes)
        self.too_large = self.too_large or content is None
        if content is not None and (message.get("more_body") or message["type"] != "http.response.pathsend"):
            await asyncio.to_thread(read_on, message, len(content))
            message = {"type": _BODY, "body": content, "more_body": bool(message.get("more_body"))}
        self.holds_file = message["type"] != _BODY
        await self._take(message, content or b"")
        while self.holds_file and not (self.served or self._gone):
            await self._change()

    def _mirror(self, original: MutableMapping[str, Any]) -> None:
        """Copies what the application and its routers wrote into our scope to the scope of the request."""
        for name, value in list(self._scope.items()):
            if name not in _OUR_OWN and original.get(name) is not value:
                original[name] = value

    def _tell(self) -> None:
        if self._changed is not None:
            changed, self._changed = self._changed, None
            changed.set()

    async def _change(self) -> None:
        """Waits for the next change. Most exchanges change more often than anything waits for that."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    # --- the readers' side ---------------------------------------------------------------------

    async def head(self) -> Response | None:
        """The response without its body; None if the application failed before."""
        while not self.status and not self._over:
            await self._change()
        return Response(self.status, self.fields) if self.status else None

    async def settled(self, *, within: float | None = None) -> bool:
        """Waits until the whole response is there, or known never to be. False: not within so many seconds."""
        try:
            async with asyncio.timeout(within) if within is not None and not self.is_settled else AT_ITS_PACE:
                while not self.is_settled:
                    await self._change()
        except TimeoutError:
            return self.is_settled
        return True

    @property
    def is_settled(self) -> bool:
        return self.complete or self.too_large or self._over

    @property
    def is_short(self) -> bool:
        """Whether it is complete, but not as long as announced."""
        return self.complete and self.length is not None and self.length != self.size

    def whole(self) -> bytes | None:
        """The body of a settled response; None if it is too large, broken off, or not as long as announced."""
        if self.too_large or not self.complete:
            return None
        if self.is_short:
            self.error = self.error or BrokenOff("the body is not as long as Content-Length says")
            return None
        return b"".join([part.chunk for part in self._parts])

    async def decided(self) -> None:
        """Waits until it is known whether the response is stored."""
        while not (self.live or self.complete or self._over):
            await self._change()

    @property
    def _serves_others(self) -> bool:
        return self.in_pieces or self._is_for_others()

    @property
    def _over(self) -> bool:
        return self.error is not None or self.task.done()

    async def parts(self, *, spooled: bool = True) -> AsyncIterator[tuple[BodyPart, int]]:
        """Messages as they come, with the bytes so far. Raises the application's error. `spooled`: also those that
        are for its `spool`.
        """
        number, sent = 0, 0
        while spooled or self.spool is None:
            while number - self._dropped < len(self._parts):
                part = self._parts[number - self._dropped]
                number += 1
                sent += len(part.chunk)
                yield part, sent
                if self.spool is not None and not spooled:
                    return
                self._sent = max(self._sent, number)
                if self.paced:
                    self._tell()
            # A shared response broke off. It is as small as announced, and the slowest reader has yet to read it.
            if self.paced and not self.shared and number > self._dropped:
                # No reader needs the parts any more that its one reader has. The application may continue.
                del self._parts[: number - self._dropped]
                self._dropped = number
                self._tell()
            if self.complete:
                return
            if self._over:
                raise self.error or BrokenOff("the application ended before its response was complete")
            await self._change()

    def keep(self) -> None:
        """The response will be stored, or concerns a stored one: the application's messages are kept for all."""
        self.is_kept = True
        self._tell()

    def go_into_pieces(self) -> None:
        """It is stored while it comes, at the pace of the store, and belongs to no client."""
        self.is_kept = self.in_pieces = self.paced = True
        self._tell()

    def go_into(self, spool: Spool) -> None:
        """Its length is not known, and it is too large for the memory."""
        self.spool, self.paced = spool, True
        self._tell()

    def go_live(self) -> None:
        """It will not be stored: it belongs to one client, at that client's pace."""
        self.live = self.paced = True
        self._tell()

    def count_others(self) -> None:
        """Another request has stopped waiting for it."""
        self._tell()

    def hand_to(self, send: Send) -> None:
        """From its first line on, every message goes to this client, in the application's own task."""
        self._outlet = send
        self._tell()

    def carry(self) -> None:
        """Copies the ContextVars that the application set into the context of its request."""
        for variable, value in list(self._context.items()):
            if self._before.get(variable, _UNSET) is not value and variable.get(_UNSET) is not value:
                variable.set(value)

    def leave(self) -> None:
        """Its one client has gone, so messages have no receiver."""
        self._gone = True
        self._tell()

    async def end(self, *, within: float | None = None) -> None:
        """Wait for the application's work after its response, at most so many seconds. Raises the application's
        error.
        """
        if not await done_within(within, self.task):
            # No caller is left for its outcome.
            self.leave()
        if (error := self.error or self.late) is not None:
            raise error

    def let_go(self) -> None:
        """What it holds for its own client."""
        if self.spool is not None:
            self.spool.leave()
        self._tell()

    def cancel(self) -> None:
        self.leave()
        self.task.cancel()

    async def unwind(self) -> None:
        """Cancels it, and waits a moment until the application has ended."""
        self.cancel()
        await asyncio.wait({self.task}, timeout=_UNWIND_SECONDS)


_UNSET: Any = object()
_UNWIND_SECONDS = 1.0
_OUR_OWN = frozenset({"headers", "method"})
_BODY = "http.response.body"
_BODIES = frozenset({_BODY, "http.response.pathsend", "http.response.zerocopysend"})


def as_fields(headers: Any) -> Fields:
    """As bytes with lower-case names, whatever form the application used."""
    return tuple(
        [
            # Servers give bytes. Two calls less for each field.
            (name.lower(), value)
            if type(name) is bytes and type(value) is bytes
            else (bytes(name).lower(), bytes(value))
            for name, value in headers
        ]
    )


def content_length(fields: Fields) -> int | None:
    found = lines(fields, b"content-length")
    return int(found[0]) if len(found) == 1 and found[0].isdigit() and len(found[0]) < 19 else None
