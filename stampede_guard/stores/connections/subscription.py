"""A subscription whose socket we read ourselves, and the check that its server is still there.

redis-py's reader takes three more turns of the event loop per message, and makes a time-out for each. A wake-up that
fifty callers wait for would begin that much later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from redis.asyncio.connection import AbstractConnection

from stampede_guard.stores.connections.calls import pack_command
from stampede_guard.stores.connections.patience import more_time
from stampede_guard.stores.connections.pipe import Pipe, take_over

__all__ = ["Subscription", "subscription_on"]


class Subscription:
    """`on_reply(reply)` runs in the turn in which a reply arrives. What it raises ends the subscription.

    `quiet`: after this many seconds without a reply, it sends a PING. `deadline` limits the wait for its answer.
    """

    def __init__(self, on_reply: Callable[[Any], None], *, quiet: float, deadline: float) -> None:
        self._on_reply = on_reply
        self._quiet = quiet
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._end: asyncio.Future[Exception] = self._loop.create_future()
        self.pipe: Pipe | None = None
        self.asked = False
        """Whether a PING has no answer yet."""

    def send(self, *parts: bytes) -> None:
        if self.pipe is not None and not self.pipe.is_closing():
            self.pipe.write(pack_command(list(parts)))

    def received(self, reply: Any) -> None:
        if self._end.done():
            return
        try:
            self._on_reply(reply)
        except Exception as error:
            self.end(error)
        self._heard_at, self.asked = self._loop.time(), False

    def end(self, error: Exception) -> None:
        if not self._end.done():
            self._end.set_result(error)

    async def drain(self) -> NoReturn:
        """Raises the error that ends the subscription: a lost connection, a silent server, or a wrong answer."""
        spared = False
        while True:
            now = self._loop.time()
            due = now + self._deadline if self.asked else self._last_sign() + self._quiet
            await asyncio.wait({self._end}, timeout=max(0.0, due - now))
            if self._end.done():
                raise self._end.result()
            if not self.asked:
                spared = False
                if self._last_sign() + self._quiet <= self._loop.time():
                    self.send(b"PING")
                    self.asked = True
            elif self._last_sign() <= now:
                spared = more_time(self._deadline, late=self._loop.time() - due, spared=spared) > 0
                if not spared:
                    raise ConnectionError("the subscription's connection is silent")

    def _last_sign(self) -> float:
        """When a message, or a part of a large one, arrived last."""
        return max(self._heard_at, self.pipe.progress.moved_at if self.pipe is not None else 0.0)


def subscription_on(
    connection: AbstractConnection, on_reply: Callable[[Any], None], *, quiet: float, deadline: float
) -> Subscription | None:
    """None for connections that redis-py must go on reading: see `take_over`."""
    made = Subscription(on_reply, quiet=quiet, deadline=deadline)
    made.pipe = take_over(
        connection, on_reply=made.received, on_end=made.end, on_ready=lambda: None, deadline=deadline
    )
    return made if made.pipe is not None else None
