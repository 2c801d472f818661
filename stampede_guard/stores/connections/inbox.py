"""The inbox: this process's one subscription. The subscription is also its sign of life.

The socket's own callback reads it (`Subscription`); redis-py reads connections without such a socket. Neither runs user
code. Every loss of the connection is a gap: messages may be missing, so each waiter looks again. The name is confirmed
only between the server's acknowledgement and the loss of that connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoPermissionError, RedisError

from stampede_guard.core.scripts import Message
from stampede_guard.stores.connections.lane import abort_of, disconnect, let_go_after_fork, stop
from stampede_guard.stores.connections.patience import more_time, patiently
from stampede_guard.stores.connections.subscription import Subscription, subscription_on
from stampede_guard.stores.connections.wire import parse_message
from stampede_guard.stores.introducing import connect_as

__all__ = ["Inbox"]

log = logging.getLogger("stampede_guard")

QUIET_SECONDS = 5.0
"""After this many seconds without a message, the inbox sends a PING. It detects half-open sockets."""
FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0


class Inbox:
    """`deadline` limits connecting and acknowledgements, in seconds. Callbacks must not raise."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], AbstractConnection],
        *,
        client_name: str,
        deadline: float,
        on_message: Callable[[str, Message], None],
        on_gap: Callable[[], None],
        on_change: Callable[[str, int], None],
    ) -> None:
        self._name = name
        self._make_connection = connect
        self._client_name = client_name
        self._deadline = deadline
        self._on_message = on_message
        self._on_gap = on_gap
        self._on_change = on_change
        self.subscriptions = 0
        """How often the subscription was confirmed."""
        self._changes: bytes | None = None
        self._watching = False
        self._warned = False
        self._asking: asyncio.Task[None] | None = None
        self._asked_on: AbstractConnection | None = None
        self._confirmed = False
        self._misplaced = 0
        """How often in a row the subscription had to be renewed."""
        self._closed = False
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: AbstractConnection | None = None
        self._subscription: Subscription | None = None
        """None while redis-py reads the connection."""
        self._loop = asyncio.get_running_loop()

    @property
    def confirmed_name(self) -> str:
        """The inbox's name while its subscription is confirmed on the live connection, else an empty text."""
        return self._name if self._confirmed else ""

    def start(self) -> None:
        """Start the subscription, unless it runs. Something may have cancelled all tasks of the event loop."""
        if (self._task is None or self._task.done()) and not self._closed:
            # An empty context, without variables of the first request: this task serves all requests.
            self._task = self._loop.create_task(self._run(), name="stampede_guard inbox", context=Context())

    def renew(self) -> None:
        """Subscribe again on a new connection: this one leads to a server that serves no entries now."""
        if self._confirmed and self._connection is not None:
            self._misplaced += 1
            abort_of(self._connection)()

    def is_well_placed(self) -> None:
        """The server that answers the commands also has this subscription."""
        self._misplaced = 0

    def watch(self, channel: bytes) -> bool:
        """Whether every message on this channel has been received since the last gap. Starts to listen, or retries.

        An inbox has one such channel, the first that a caller names. It is a subscription of its own, apart from the
        inbox's name: a user without the right to this channel still receives wake-ups.
        """
        if self._changes is None and not self._closed:
            self._changes = channel
            self.start()
            if self._confirmed and self._connection is not None:
                self._asking = self._loop.create_task(
                    self._ask_for_changes(self._connection), name="stampede_guard inbox", context=Context()
                )
        elif not self._watching:
            self.start()
        return self._watching and channel == self._changes

    async def _ask_for_changes(self, connection: AbstractConnection) -> None:
        if self._changes is None or self._asked_on is connection or not connection.is_connected:
            return
        self._asked_on = connection
        if self._subscription is not None:
            self._subscription.send(b"SUBSCRIBE", self._changes)
            return
        with contextlib.suppress(RedisError, OSError):
            await connection.send_command("SUBSCRIBE", self._changes, check_health=False)

    async def ready(self) -> None:
        """Start if needed, and wait for the first confirmation or the first failure."""
        self.start()
        if not self._settled.is_set() and not self._closed:
            await self._settled.wait()

    async def aclose(self) -> None:
        self._closed = True
        self._confirmed = self._watching = False
        await stop(self._asking)
        await stop(self._task)
        self._settled.set()

    def abandon(self) -> None:
        self._confirmed = self._watching = False
        let_go_after_fork(self._connection)

    async def _run(self) -> None:
        retry = FIRST_RETRY
        while True:
            connection = None
            try:
                connection = self._connection = self._make_connection()
                await self._subscribe(connection)
                retry = FIRST_RETRY
                await self._drain(connection)
            except Exception:
                # Includes errors of a credential provider. The lane meets the same error and reports it to its callers.
                if not self._runs():
                    # redis-py has met the end below, and has found no event loop. Nothing can be reported here.
                    connection = None
                    return
            except GeneratorExit:
                # The event loop was dropped without an end of its tasks. Nothing can be awaited any more.
                connection = None
                raise
            finally:
                # Runs also when this task is cancelled.
                lost, self._confirmed = self._confirmed, False
                self._watching, self._asked_on = False, None
                if not self._loop.is_closed():
                    self._settled.set()
                self._subscription = None
                if connection is not None:
                    await disconnect(connection)
            if lost:
                self._on_gap()
            if self._misplaced:
                # An address may lead to several servers in turn. Then do not reconnect at full speed.
                retry = max(retry, min(FIRST_RETRY * 2**self._misplaced, LONGEST_RETRY))
            await asyncio.sleep(retry)
            retry = min(retry * 2, LONGEST_RETRY)

    def _runs(self) -> bool:
        """Not while the garbage collector ends this coroutine: then cleaning up may raise something else."""
        try:
            return asyncio.current_task() is self._task
        except RuntimeError:
            return False

    async def _subscribe(self, connection: AbstractConnection) -> None:
        async with patiently(self._deadline):
            await connect_as(self._client_name, connection)
            # As bytes, so that the client's encoding does not change the name.
            await connection.send_command("SUBSCRIBE", self._name.encode(), check_health=False)
            reply = await connection.read_response(disable_decoding=True)
        if not isinstance(reply, list) or reply[0] != b"subscribe":
            raise ConnectionError("the subscription was not acknowledged")
        self._confirmed = True
        self.subscriptions += 1
        self._settled.set()
        self._on_gap()

    async def _drain(self, connection: AbstractConnection) -> None:
        self._subscription = subscription_on(
            connection, self._replied, quiet=QUIET_SECONDS, deadline=self._deadline
        )
        await self._ask_for_changes(connection)
        if self._subscription is not None:
            await self._subscription.drain()
        asked = spared = False
        while True:
            patience = self._deadline if asked else QUIET_SECONDS
            due = self._loop.time() + patience
            try:
                reply = await connection.read_response(disable_decoding=True, timeout=patience)
            except NoPermissionError as error:
                self._refused(error, asked=asked)
                continue
            if reply is None:
                spared = asked and more_time(patience, late=self._loop.time() - due, spared=spared) > 0
                if not connection.is_connected or (asked and not spared):
                    raise ConnectionError("the subscription's connection is silent")
                if not asked:
                    await connection.send_command("PING", check_health=False)
                asked = True
                continue
            asked = spared = False
            self._replied(reply)

    def _replied(self, reply: Any) -> None:
        if isinstance(reply, NoPermissionError):
            self._refused(reply, asked=self._subscription is not None and self._subscription.asked)
        elif isinstance(reply, Exception):
            raise reply
        elif isinstance(reply, list) and reply:
            self._received(*reply)
        elif not isinstance(reply, bytes):
            raise ConnectionError("the subscription received an answer of an unknown shape")

    def _received(self, kind: Any, channel: Any = b"", data: Any = b"", *_: Any) -> None:
        if kind == b"message":
            parsed = parse_message(data)
            if parsed is None:
                # The message was for a waiter in this process, which may still wait for it.
                self._on_gap()
                return
            if channel == self._changes:
                self._on_change(parsed[0], parsed[1].token)
            else:
                self._on_message(*parsed)
        elif kind == b"subscribe" and channel == self._changes and not self._watching:
            self._watching = True
        elif kind == b"subscribe":
            # A second acknowledgement that we did not ask for: redis-py has replaced the connection silently.
            self._on_gap()

    def _refused(self, error: NoPermissionError, *, asked: bool) -> None:
        """The error concerns the channel of changes: the inbox's own name was acknowledged."""
        if asked or self._watching or self._changes is None:
            raise error  # the answer to PING
        if not self._warned:
            self._warned = True
            log.warning(
                "this user may not subscribe to the channel of changes, so l1_ttl has no effect: %s", error
            )
