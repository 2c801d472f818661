"""The server's scope and messages of one request, for each call of the application that the request causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stampede_guard.http.requests.exchange import Message, Receive
from stampede_guard.http.requests.routes import Scope

__all__ = ["Incoming"]


_NO_BODY: Message = {"type": "http.request", "body": b"", "more_body": False}


def _is_empty(message: Message) -> bool:
    return message["type"] == "http.request" and not message.get("body")


class Incoming:
    """The application gets the server's own scope and `receive`, so that it and the middlewares around this one see
    the same request. It may be called twice for one request (after a useless 304). Then it finds both unchanged.
    `read` are messages that were read before.
    """

    def __init__(self, scope: Scope, receive: Receive, read: tuple[Message, ...] = ()) -> None:
        self.scope = scope
        self._server = receive
        self._read = list(read)
        self._before: dict[str, Any] | None = None

    def begin(self) -> Receive:
        """For one call: `scope` is as it came, and the messages start again from the first."""
        if self._before is None:
            self._before = dict(self.scope)
        else:
            # Routers write into the scope: otherwise a mounted router would look for the rest of a path that was
            # already removed.
            self.scope.clear()
            self.scope.update(self._before)
        return self.messages()

    def messages(self) -> Receive:
        """Its client's messages, from the first. The scope stays as the application left it."""
        # Copies: a middleware may change a message, and the next call must find it unchanged.
        told: Iterator[Message] = iter([dict(message) for message in self._read or (_NO_BODY,)])
        owed = not self._read

        async def receive() -> Message:
            nonlocal owed
            for message in told:
                return message
            message = await self._server()
            while owed and _is_empty(message):
                # The server's own message for what this function has already returned.
                owed = bool(message.get("more_body"))
                message = await self._server()
            owed = False
            if message["type"] == "http.request":
                self._read.append(message)
            return message

        return receive

    async def has_body(self) -> bool:
        """In HTTP/2 and 3, no field need announce a body: the first message shows it."""
        if not self._read:
            message = await self._server()
            self._read.append(message)
        first = self._read[0]
        return bool(first.get("body")) or bool(first.get("more_body"))
