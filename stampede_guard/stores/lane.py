"""A lane: one reserved connection on which commands travel one behind the other and answers come back in order.

Nobody waits for a pooled connection, and a caller that is cancelled leaves the connection as it was, because only the
lane's own tasks touch the socket. redis-py makes the connection (TLS, passwords, credential providers), without retries;
here is the deadline: an answer that is late by then means that the connection is given up, with everything on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable

__all__ = ["NOT_SERVING", "Call", "Lane", "let_go_after_fork", "store_error"]

NOT_SERVING = (BusyLoadingError, MasterDownError, ReadOnlyError)
"""Error replies of a server that is there and cannot serve for now: the same as a server that is away."""


class Call(Protocol):
    """One command on its way. `sent_at` is set by the lane (the loop's clock, seconds)."""

    sent_at: float

    def pack(self) -> bytes:
        """The bytes to send, asked for at the moment of sending."""

    def resolve(self, reply: Any) -> None:
        """The answer, or a ResponseError."""

    def fail(self, error: StoreError) -> None: ...


class Lane:
    """`deadline` bounds connecting and each answer, in seconds. `on_change(ok)` hears of answers and failures."""

    def __init__(
        self, connect: Callable[[], AbstractConnection], *, deadline: float, on_change: Callable[[bool], None]
    ) -> None:
        self._make_connection = connect
        self._deadline = deadline
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[Call] = []
        self._pending: deque[Call] = deque()
        self._connection: AbstractConnection | None = None
        self._wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, call: Call) -> None:
        """Queue a command; it is sent together with all others of this tick."""
        if self._closed:
            call.fail(StoreUnavailable("the store's session is closed"))
            return
        self._outgoing.append(call)
        if self._wake is not None:
            if not self._wake.done():
                self._wake.set_result(None)
        elif self._writer is None:
            self._writer = self._loop.create_task(self._write(), name="stampede_guard lane writer")

    async def aclose(self) -> None:
        self._closed = True
        await _stop(self._writer)
        await self._drop(StoreUnavailable("the store's session is closed"))

    def abandon(self) -> None:
        """After a fork: the socket is the parent's."""
        self._closed = True
        let_go_after_fork(self._connection)

    async def _write(self) -> None:
        while True:
            if not self._outgoing:
                self._wake = self._loop.create_future()
                await self._wake
                self._wake = None
            try:
                connection = self._connection or await self._connect()
            except StoreError as error:
                calls, self._outgoing = self._outgoing, []
                self._failed(calls, error)
                continue
            calls, self._outgoing = self._outgoing, []
            data = b"".join([call.pack() for call in calls])
            now = self._loop.time()
            for call in calls:
                call.sent_at = now
            self._pending.extend(calls)
            if self._watch is None:
                self._watch = self._loop.call_at(now + self._deadline, self._check, now + self._deadline)
            try:
                if not connection.is_connected:
                    # send_packed_command would connect again without a word, and nobody would read the answers.
                    raise ConnectionResetError("the connection was closed")
                await connection.send_packed_command([data], check_health=False)
            except (RedisError, OSError) as error:
                await self._broken(connection, store_error(error))

    async def _connect(self) -> AbstractConnection:
        connection = self._make_connection()
        try:
            async with asyncio.timeout(self._deadline):
                await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, TimeoutError) as error:
            with contextlib.suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)
            raise store_error(error) from error
        self._connection = connection
        self._reader = self._loop.create_task(self._read(connection), name="stampede_guard lane reader")
        return connection

    async def _read(self, connection: AbstractConnection) -> None:
        pending = self._pending
        read_response = connection.read_response
        while True:
            try:
                reply = await read_response(disable_decoding=True)
            except ResponseError as error:
                reply = error
            except (RedisError, OSError) as error:
                await self._broken(connection, store_error(error))
                return
            if not pending:
                await self._broken(
                    connection, StoreUnavailable("the store sent an answer that nobody asked for")
                )
                return
            self._on_change(not isinstance(reply, NOT_SERVING))
            pending.popleft().resolve(reply)

    def _check(self, due: float) -> None:
        """The deadline of the oldest unanswered command."""
        self._watch = None
        if not self._pending:
            return
        now = self._loop.time()
        deadline = self._pending[0].sent_at + self._deadline
        if now - due > self._deadline / 2:
            # This process was held up, not the store: the answer may lie unread in the socket.
            deadline = now + self._deadline
        if now >= deadline:
            error = StoreUnavailable(f"no answer from the store within {self._deadline:g} s")
            connection, self._connection = self._connection, None
            self._failed(self._take_pending(), error)
            if self._reader is not None:
                self._reader.cancel()
                self._reader = None
            if connection is not None:
                task = self._loop.create_task(_disconnect(connection))
                task.add_done_callback(lambda _: None)
            return
        self._watch = self._loop.call_at(deadline, self._check, deadline)

    async def _broken(self, connection: AbstractConnection, error: StoreError) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        reader, self._reader = self._reader, None
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        self._failed(self._take_pending(), error)
        await _disconnect(connection)

    async def _drop(self, error: StoreError) -> None:
        if self._watch is not None:
            self._watch.cancel()
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        await _stop(reader)
        for call in [*self._take_pending(), *self._outgoing]:
            call.fail(error)
        self._outgoing = []
        if connection is not None:
            await _disconnect(connection)

    def _take_pending(self) -> list[Call]:
        calls = list(self._pending)
        self._pending.clear()
        return calls

    def _failed(self, calls: list[Call], error: StoreError) -> None:
        if isinstance(error, StoreUnavailable):
            self._on_change(False)
        for call in calls:
            call.fail(error)


def store_error(error: BaseException) -> StoreError:
    """A refusal (wrong password, missing permission) is told apart from a store that is not there."""
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return StoreRefused(f"the store refuses this client: {type(error).__name__}: {error}")
    if isinstance(error, NOT_SERVING):
        return StoreUnavailable(f"the store cannot serve now: {error}")
    if isinstance(error, ResponseError):
        return StoreRefused(f"the store refused a command: {error}")
    if isinstance(error, TimeoutError):
        return StoreUnavailable("the store could not be reached in time")
    return StoreUnavailable(f"the store cannot be reached: {error}")


def let_go_after_fork(connection: AbstractConnection | None) -> None:
    """Close the copied socket in the child without a word to the server.

    The descriptor's number stays taken (it now points to nowhere), because the copied objects will close it once more
    when they are collected, and by then the number could belong to another file.
    """
    writer = getattr(connection, "_writer", None)
    find = getattr(writer, "get_extra_info", None)
    raw = find("socket") if find is not None else None
    if raw is None or raw.fileno() < 0:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, raw.fileno(), inheritable=False)
    finally:
        os.close(nowhere)


async def _stop(task: asyncio.Task[None] | None) -> None:
    if task is None or task.done():
        return
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _disconnect(connection: AbstractConnection) -> None:
    with contextlib.suppress(RedisError, OSError, asyncio.CancelledError):
        await connection.disconnect(nowait=True)
