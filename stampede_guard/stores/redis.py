"""One Redis or Valkey server (7.0 and later), through the session's own connections.

A session keeps three connections: see `stores.connections.node`. They use the settings of the user's client or URL: see
`stores.settings`.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, ClusterCrossSlotError, ResponseError

from stampede_guard.core.breaker import PROBE_SECONDS
from stampede_guard.core.entry import Reading
from stampede_guard.errors import StoreError, WrongTopology
from stampede_guard.options import takes_options
from stampede_guard.stores.connections.calls import READS_PER_CALL as _MOST_READS
from stampede_guard.stores.connections.calls import ReadCall, Script, ScriptCall
from stampede_guard.stores.connections.inboxname import inbox_name
from stampede_guard.stores.connections.lane import LaneCall, stop
from stampede_guard.stores.connections.node import Node
from stampede_guard.stores.connections.tls import sharing
from stampede_guard.stores.connections.wire import changes_channel
from stampede_guard.stores.introducing import client_name
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.scripted import ScriptedSession
from stampede_guard.stores.settings import DEADLINE, own_settings

__all__ = ["Connecting", "RedisSession", "RedisStore"]

# A module-level name saves a look-up on the hit path.
_Future = asyncio.Future


class Connecting(Protocol):
    """The parts of a store that a session on one server needs."""

    deadline: float

    def connect(self) -> AbstractConnection: ...


class RedisStore:
    """`client` gives the connection settings. Its pool is not used, so a full pool causes no delay."""

    shared = True

    @property
    def place(self) -> str:
        """Its address, without credentials."""
        found = self._settings
        where = found.get("path") or f"{found.get('host', '')}:{found.get('port', '')}"
        return f"redis://{where}"

    @takes_options("RedisStore", own=("client",))
    def __init__(self, client: Redis, *, deadline: float = DEADLINE) -> None:
        # Keep the client alive: a sentinel's pool is only weakly referenced in its own settings.
        self._client = client
        pool = client.connection_pool
        self._connection_class = sharing(pool.connection_class)
        self._settings = own_settings(pool.connection_kwargs)
        self.deadline = deadline

    @classmethod
    @takes_options("RedisStore.from_url", own=("url",))
    def from_url(cls, url: str, *, deadline: float = DEADLINE) -> RedisStore:
        return cls(Redis.from_url(url), deadline=deadline)

    def connect(self) -> AbstractConnection:
        return self._connection_class(**self._settings)

    def open_session(self, listener: Listener, *, namespace: str = "") -> RedisSession:
        return RedisSession(self, listener, namespace=namespace)


class RedisSession(ScriptedSession):
    """See `stores.protocol.Session`."""

    def __init__(self, store: Connecting, listener: Listener, *, namespace: str = "") -> None:
        super().__init__(deadline=store.deadline, listener=listener)
        self._probe: asyncio.Task[None] | None = None
        self._reads: ReadCall | None = None
        self._node = node = Node(
            store.connect,
            client_name=client_name(namespace),
            deadline=store.deadline,
            inbox=inbox_name(namespace),
            on_message=listener.heard,
            on_gap=listener.gap,
            on_change=listener.changed,
            on_breaker=self._breaker_changed,
            on_sample=self._answered_within(),
        )
        self._lane, self._renewals, self._inbox = node.lane, node.renewals, node.inbox

    @property
    def away(self) -> bool:
        return self._node.away

    @property
    def trouble(self) -> StoreError | None:
        """The last failure."""
        return self._node.trouble

    def away_for(self, name: str) -> bool:
        return self._node.away

    # --- reads: the hit path ----------------------------------------------------------------------

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        future: asyncio.Future[Reading | None] = _Future(loop=self._loop)
        call = self._reads
        if call is not None:
            waiting = call.waiting.get(name)
            if waiting is not None:
                waiting.append(future)
                return future
            if len(call.waiting) < _MOST_READS:
                call.waiting[name] = [future]
                return future
        self._reads = call = ReadCall(self._reads_closed, self._lane.send, _is_elsewhere)
        call.waiting[name] = [future]
        self._lane.send(call)
        return future

    def _reads_closed(self, call: ReadCall) -> None:
        if self._reads is call:
            self._reads = None

    def hears_changes(self, name: str) -> bool:
        return not self._node.away and self._inbox.watch(changes_channel(name))

    # --- scripts ----------------------------------------------------------------------------------

    async def _listen(self, name: str) -> None:
        await self._inbox.ready()

    def _inbox_at(self, name: str) -> bytes:
        return self._inbox.confirmed_name.encode()

    async def _run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        lane = self._renewals if renewal else self._lane
        lane.send(ScriptCall(script, script.keys_of(name), args, future, lane.send, _is_elsewhere))
        return await future

    # --- breaker ----------------------------------------------------------------------------------

    def _breaker_changed(self, away: bool) -> None:
        if self._closing:
            return
        self._listener.breaker_changed(away=away, why=self._node.why)
        self._start_probe()

    def _start_probe(self) -> None:
        if self._node.away and self._probe is None and not self._closing:
            self._probe = self._loop.create_task(
                self._look_for_store(), name="stampede_guard probe", context=Context()
            )
            self._probe.add_done_callback(self._probe_ended)

    def _probe_ended(self, probe: asyncio.Task[None]) -> None:
        self._probe = None
        if probe.cancelled() and not self._closing:
            # Something cancelled all tasks of the event loop. Callers that go on would never learn that it is back.
            self._loop.call_later(PROBE_SECONDS, self._start_probe)

    async def _look_for_store(self) -> None:
        while self._node.away:
            await asyncio.sleep(PROBE_SECONDS)
            await self._node.probe()

    # --- the end ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await super().aclose()
        await stop(self._probe)
        await self._node.aclose()

    def abandon(self) -> None:
        super().abandon()
        self._node.abandon()


def _is_elsewhere(call: LaneCall, error: ResponseError) -> bool:
    """For answers that only a cluster gives. The few entries on this node would work, and no others."""
    if not isinstance(error, AskError | ClusterCrossSlotError):
        return False
    call.fail(
        WrongTopology(
            "the server is one node of a cluster: write redis+cluster:// (rediss+cluster:// for TLS) in place of "
            "redis://, or give a RedisCluster client in place of a Redis"
        )
    )
    return True
