"""One flight of one cache key: from the miss to the `set` that ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import StampedeError
from stampede_guard.integrations.django.bridge import submit, wait
from stampede_guard.integrations.django.client import LINGER_MS, MISSING, flight_key

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.integrations.django.client import Client

__all__ = ["Lease"]

log = logging.getLogger("stampede_guard")

_VALUE, _IN_REDIS, _PASS = b"v", b"r", b"p"
_LATE_MS = LINGER_MS // 3
"""How long the guard keeps the value for waiters whose wake-up was lost."""
_HEADER = 5


class Lease:
    """After `enter`, `leading` says whether this caller computes. Otherwise `value` is what another one computed.

    The value is `MISSING` if there is nothing to share. Then the caller computes for itself.
    """

    def __init__(
        self, guard: StampedeGuard, client: Client, key: str, caller: object, request: object
    ) -> None:
        self.key = key
        self.caller = caller
        self.request = request
        """Under ASGI, the request. One object of the cache may serve several of them."""
        self.awaits_set = False
        self._pid = os.getpid()
        self._ended = False
        self._until = time.monotonic() + guard.policy.compute_timeout
        self.leading = False
        self.kept: bytes | None = None
        self.value: Any = MISSING
        self._client = client
        self._policy = guard.policy
        self._mark = uuid.uuid4().hex
        self._block = guard.single(
            flight_key(key),
            ttl=_seconds,
            type=bytes,
            name="django.cache",
            # Many callers may leave without a value here. A second computation beside a slow one would not help.
            max_handovers=100_000,
            fallback_limit=0,
        )

    @property
    def is_over(self) -> bool:
        """Whether the computation has taken longer than a lease lives. Then a `set` is one of Django's own."""
        return time.monotonic() >= self._until

    def enter(self) -> None:
        """Wait until there is a value, or until it is this caller's turn. Raises `StampedeError`."""
        try:
            wait(self._block.__aenter__)
            self._entered()
        except BaseException:
            self.withdraw()
            raise

    async def aenter(self, in_thread: Callable[..., Awaitable[Any]]) -> None:
        """The same without blocking an event loop."""
        entering = submit(self._block.__aenter__())
        try:
            await asyncio.wrap_future(entering)
            await in_thread(self._entered)
        except BaseException:
            entering.cancel()
            self.abandon()
            raise

    def _entered(self) -> None:
        if not self._block.missing:
            self.value = self._shared(self._block.value)
            return
        data = self._client.begin(
            self.key, self._mark, self._policy.compute_timeout + self._policy.wait_timeout
        )
        if data is None:
            self.leading = True
            self._until = time.monotonic() + self._policy.compute_timeout
            return
        # The flight before stored it, after this caller had missed it.
        self.value = self._client.decode(data)
        self._end(_VALUE, 0, data)

    def _shared(self, body: bytes) -> Any:
        if body[:1] == _VALUE:
            return self._client.decode(body[_HEADER:])
        return self._client.get(self.key, MISSING) if body[:1] == _IN_REDIS else MISSING

    def keep(self, data: bytes, timeout: int | None) -> None:
        """Store the value, and go on: `finish` ends the flight."""
        self._client.store(self.key, self._mark, data, timeout)
        self.kept = data

    def settle(self, data: bytes, timeout: int | None) -> None:
        """Store the value, and give it to all waiters."""
        stored = self._client.store(self.key, self._mark, data, timeout)
        # Without a mark, a deletion would not find what the guard keeps.
        milliseconds = (_LATE_MS if timeout is None else min(timeout * 1000, _LATE_MS)) if stored else 0
        if stored and timeout != 0 and len(data) > self._policy.inline_bytes - _HEADER:
            self._end(_IN_REDIS, milliseconds, b"")
        else:
            self._end(_VALUE, milliseconds, data)

    def finish(self) -> None:
        """End the flight with the kept value. Without one, let all waiters compute beside each other for a while."""
        if self.kept is not None:
            self._end(_VALUE, 0, self.kept)
        else:
            self._end(_PASS, int(self._policy.uncacheable_ttl * 1000), b"")

    def withdraw(self) -> None:
        """End the flight. A waiter takes it over."""
        self._carry_out(self._leave)

    def abandon(self) -> None:
        """The same without waiting until it is done. The caller was cancelled."""
        if self._is_mine_to_end():
            submit(self._leave())

    def fail(self, error: BaseException) -> None:
        """End the flight. Waiters get a copy of the error."""
        self._carry_out(lambda: self._leave(error))

    def _end(self, kind: bytes, milliseconds: int, data: bytes) -> None:
        async def give() -> None:
            try:
                await self._block.set(kind + milliseconds.to_bytes(_HEADER - 1, "big") + data)
            finally:
                await self._leave()

        self._carry_out(give)

    async def _leave(self, error: BaseException | None = None) -> None:
        await self._block.__aexit__(type(error) if error is not None else None, error, None)

    def _carry_out(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._is_mine_to_end():
            return
        try:
            wait(work)
        except StampedeError as error:
            # The caller has its value. For example, it took longer than `compute_timeout`.
            log.warning("a flight of the cache ended badly: %s", error)

    def _is_mine_to_end(self) -> bool:
        """Only once, and not in a child process. The child has a copy of the flight, and no task there would end it."""
        mine, self._ended = not self._ended and self._pid == os.getpid(), True
        return mine


def _seconds(body: bytes) -> float:
    return max(0.001, int.from_bytes(body[1:_HEADER], "big") / 1000)
