"""A lane: one reserved connection. Commands travel one after the other, and answers come back in order.

No caller waits for a pooled connection. A cancelled caller leaves the connection intact, because only the lane's own
tasks touch the socket. redis-py makes the connection (TLS, passwords, credential providers), without retries. The lane
adds the deadline. If an answer is late and no part of it moves (see `stores.connections.progress`), the lane gives
up the connection with everything on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.connections.patience import more_time, patiently
from stampede_guard.stores.connections.pipe import Pipe, take_over
from stampede_guard.stores.connections.progress import LARGE, LONGEST
from stampede_guard.stores.connections.replies import is_not_serving, may_be_elsewhere, store_error
from stampede_guard.stores.connections.wire import malformed
from stampede_guard.stores.introducing import connect_as
from stampede_guard.values.forks import let_go

__all__ = ["LaneCall", "Lane", "abort_of", "disconnect", "let_go_after_fork", "stop"]

SAMPLE_SECONDS = 0.05
"""Minimum time between two samples of the time to an answer."""
LEAVE_SECONDS = 0.25
"""Minimum time between two occasions on which a connection is left because it leads to a replica."""


class LaneCall(Protocol):
    """One command on its way. `sent_at` is set by the lane (the loop's clock, seconds)."""

    sent_at: float

    def pack(self) -> bytes:
        """The bytes to send. Called at the moment of sending."""

    def resolve(self, reply: Any) -> None:
        """The answer, or a ResponseError."""

    def fail(self, error: StoreError) -> None: ...


class Lane:
    """`deadline` limits connecting and each answer, in seconds. An answer that is arriving may take up to `LONGEST`
    deadlines. `on_change` receives None for an answer, or the failure.

    A lost connection counts as a failure only if nothing was answered on it. Servers and middle boxes close idle
    connections, and a reset hits all connections of a session at once. The next connection shows if the store is there.

    `not_serving` returns whether an error answer is as bad as none. The lane then gives up the connection. A connection
    to a replica is left in order: calls already sent there are still answered, and the next call waits for a new
    connection. `on_connected` is called after each new connection. `on_sample(seconds)` receives how long a command
    waited for its answer: of the last command of a tick, and at most every `SAMPLE_SECONDS`.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        *,
        client_name: str,
        deadline: float,
        on_change: Callable[[StoreError | None], None],
        not_serving: Callable[[BaseException], bool] | None = None,
        on_connected: Callable[[], None] = lambda: None,
        on_sample: Callable[[float], None] | None = None,
    ) -> None:
        self._make_connection = connect
        self._client_name = client_name
        self._on_connected = on_connected
        self._on_sample = on_sample or (lambda seconds: None)
        self._sample: LaneCall | None = None
        self._sample_at = math.inf if on_sample is None else -math.inf
        self._deadline = deadline
        self._on_change = on_change
        self._not_serving = not_serving or is_not_serving
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[LaneCall] = []
        self._pending: deque[LaneCall] = deque()
        self._connection: AbstractConnection | None = None
        self._pipe: Pipe | None = None
        self._abort: Callable[[], None] = lambda: None
        self._answered = self._leaves = False
        self._left_at = -math.inf
        self._wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, call: LaneCall) -> None:
        """Queue a command. All commands of one tick are sent together."""
        if self._closed:
            call.fail(StoreUnavailable("the store's session is closed"))
            return
        self._outgoing.append(call)
        if self._pipe is None:
            self._call_writer()
        elif len(self._outgoing) == 1:
            self._loop.call_soon(self._flush)

    def _call_writer(self) -> None:
        if self._wake is not None:
            if not self._wake.done():
                self._wake.set_result(None)
        elif self._writer is None:
            # An empty context, without variables of the first request: the credential provider serves all requests.
            self._writer = self._loop.create_task(
                self._write(), name="stampede_guard lane writer", context=Context()
            )
            self._writer.add_done_callback(self._writer_ended)

    def _writer_ended(self, writer: asyncio.Task[None]) -> None:
        """Something cancelled all tasks of the event loop, and its callers may go on: none may wait for this task."""
        if self._closed or not writer.cancelled():
            return
        self._writer = self._wake = None
        calls, self._outgoing = self._outgoing, []
        for call in calls:
            call.fail(StoreUnavailable("the task that sends commands was cancelled"))

    def _flush(self) -> None:
        pipe = self._pipe
        if pipe is not None and pipe.is_closing() and self._connection is not None:
            self._lost(self._connection, ConnectionResetError("the connection was closed"))
        if not self._outgoing or self._leaves:
            return
        if self._pipe is None:
            self._call_writer()
        elif not self._pipe.paused:
            data = self._packed()
            self._pipe.write(data)
            if len(data) >= LARGE:
                self._pipe.progress.written()

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def leave(self) -> None:
        """Give up the connection, if there is one: another server has the store now. The next command connects."""
        self._let_go(StoreUnavailable("another server has the store now"))

    async def aclose(self) -> None:
        self._closed = True
        await stop(self._writer)
        if self._watch is not None:
            self._watch.cancel()
        error = StoreUnavailable("the store's session is closed")
        self._let_go(error)
        calls, self._outgoing = self._outgoing, []
        for call in calls:
            call.fail(error)
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def abandon(self) -> None:
        """After a fork: the socket belongs to the parent."""
        self._closed = True
        let_go_after_fork(self._connection)

    async def _write(self) -> None:
        while True:
            if not self._outgoing:
                await self._called()
            try:
                connection = self._connection or await self._connect()
            except StoreError as error:
                calls, self._outgoing = self._outgoing, []
                # A server that refuses has answered.
                self._on_change(None if isinstance(error, StoreRefused) else error)
                for call in calls:
                    call.fail(error)
                continue
            if self._pipe is not None:
                self._flush()
                if self._pipe is not None:
                    await self._called()
                continue
            if self._leaves:
                await self._called()
                continue
            data = self._packed()
            try:
                if not connection.is_connected:
                    # send_packed_command would reconnect silently, and no reader would read the answers.
                    raise ConnectionResetError("the connection was closed")
                await connection.send_packed_command([data], check_health=False)
            except (RedisError, OSError) as error:
                self._lost(connection, error)

    async def _called(self) -> None:
        self._wake = self._loop.create_future()
        await self._wake
        self._wake = None

    def _packed(self) -> bytes:
        calls, self._outgoing = self._outgoing, []
        try:
            data = b"".join([call.pack() for call in calls])
        except Exception:
            calls, data = _packed_one_by_one(calls)
        now = self._loop.time()
        for call in calls:
            call.sent_at = now
        if now >= self._sample_at and calls:
            self._sample, self._sample_at = calls[-1], now + SAMPLE_SECONDS
        self._pending.extend(calls)
        if self._watch is None:
            self._watch = self._loop.call_at(now + self._deadline, self._check, now + self._deadline)
        return data

    async def _connect(self) -> AbstractConnection:
        connection = None
        try:
            async with patiently(self._deadline):
                connection = self._make_connection()
                await connect_as(self._client_name, connection)
        except BaseException as error:
            # Also runs when this task is cancelled, and for errors of a credential provider.
            if connection is not None:
                await disconnect(connection)
            if isinstance(error, StoreError) or not isinstance(error, Exception):
                raise
            failure = store_error(error)
            if isinstance(failure, StoreRefused):
                failure.connecting = True
            raise failure from error
        self._connection = connection
        self._abort = abort_of(connection)
        self._answered = False
        self._pipe = take_over(
            connection,
            on_reply=self._received,
            on_end=functools.partial(self._lost, connection),
            on_ready=self._flush,
            deadline=self._deadline,
        )
        if self._pipe is None:
            self._reader = self._loop.create_task(self._read(connection), name="stampede_guard lane reader")
        self._on_connected()
        return connection

    async def _read(self, connection: AbstractConnection) -> None:
        read_response = connection.read_response
        while True:
            try:
                reply = await read_response(disable_decoding=True)
            except ResponseError as error:
                reply = error
            except Exception as error:
                # Includes a parser's errors for bytes that are not the protocol.
                self._lost(connection, error)
                return
            self._received(reply)
            if self._connection is not connection:
                return

    def _received(self, reply: Any) -> None:
        if not self._pending:
            self._let_go(store_error(ConnectionResetError("it sent an answer without a command")))
            return
        self._answered = serving = True
        if isinstance(reply, ResponseError):
            serving = not self._not_serving(reply)
            if may_be_elsewhere(reply) and self._loop.time() >= self._left_at + LEAVE_SECONDS:
                self._leaves, self._left_at = True, self._loop.time()
        self._on_change(None if serving else store_error(reply))
        call = self._pending.popleft()
        if call is self._sample:
            self._sample = None
            self._on_sample(self._loop.time() - call.sent_at)
        try:
            call.resolve(reply)
        except Exception:
            # The call must end for every kind of answer: nothing else would end the wait of its callers.
            call.fail(malformed("the store"))
        if not serving:
            self._let_go(store_error(reply))
        elif self._leaves and not self._pending:
            # After a failover the name leads to another server, but this connection stays with the old one.
            self.leave()

    def _check(self, due: float, spared: LaneCall | None = None) -> None:
        """Check the deadline of the oldest unanswered command."""
        self._watch = None
        if not self._pending:
            return
        now = self._loop.time()
        oldest = self._pending[0]
        deadline = oldest.sent_at + self._deadline
        if self._pipe is not None:
            moving = min(self._pipe.progress.moved_at, oldest.sent_at + (LONGEST - 1) * self._deadline)
            deadline = max(deadline, moving + self._deadline)
        if now >= deadline:
            more = more_time(self._deadline, late=now - due, spared=oldest is spared)
            if not more:
                failure = StoreUnavailable(f"no answer from the store within {self._deadline:g} s", late=True)
                self._on_change(failure)
                self._let_go(failure)
                return
            spared, deadline = oldest, now + more
        self._watch = self._loop.call_at(deadline, self._check, deadline, spared)

    def _lost(self, connection: AbstractConnection, error: Exception) -> None:
        if self._connection is not connection:
            return
        failure = store_error(error)
        if isinstance(failure, StoreRefused):
            self._on_change(None)
        elif self._not_serving(error) or (self._pending and not self._answered):
            self._on_change(failure)
        self._let_go(failure)

    def _let_go(self, error: StoreError) -> None:
        """Give up the connection with everything on it."""
        connection, self._connection = self._connection, None
        self._leaves = False
        if self._pipe is not None:
            self._pipe.progress.stop()
            self._pipe = None
        reader, self._reader = self._reader, None
        calls = list(self._pending)
        self._pending.clear()
        self._sample = None
        for call in calls:
            call.fail(error)
        if connection is None:
            return
        # Abort at once. Nothing more may be read from it, and a cancelled reader would close it politely.
        self._abort()
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
            self._leave(reader)
        self._leave(self._loop.create_task(disconnect(connection)))
        if self._outgoing and not self._closed:
            # These commands were held back by a full socket.
            self._call_writer()

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


def _packed_one_by_one(calls: list[LaneCall]) -> tuple[list[LaneCall], bytes]:
    """Pack each command alone, so that one that cannot be sent does not fail the others of its tick."""
    good, packed = [], []
    for call in calls:
        try:
            packed.append(call.pack())
        except Exception as error:
            call.fail(StoreRefused(f"a command cannot be sent: {type(error).__name__}"))
        else:
            good.append(call)
    return good, b"".join(packed)


def let_go_after_fork(connection: AbstractConnection | None) -> None:
    """Let go of the copied socket of a connection of redis-py."""
    writer = getattr(connection, "_writer", None)
    find = getattr(writer, "get_extra_info", None)
    let_go(find("socket") if find is not None else None)


async def stop(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait for its end, whatever its outcome."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def abort_of(connection: AbstractConnection) -> Callable[[], None]:
    """A function that drops the socket at once. A polite close flushes first; with a dead peer that never ends."""
    transport = getattr(getattr(connection, "_writer", None), "transport", None)
    return transport.abort if transport is not None else lambda: None


async def disconnect(connection: AbstractConnection) -> None:
    """Drop a connection, whatever state it is in."""
    abort_of(connection)()
    with contextlib.suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
