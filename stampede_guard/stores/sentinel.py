"""One master that sentinels watch. Sentinels name it, and after a failover they name another server.

Every new connection asks the sentinels first. A connection does not outlive a failover. Sentinels make a demoted master
drop its clients, and the lane leaves a server that answers READONLY.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool

from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.stores.connections.lane import disconnect
from stampede_guard.stores.connections.patience import patiently
from stampede_guard.stores.connections.slots import Address
from stampede_guard.stores.connections.tls import SharedContext, sharing
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.redis import RedisSession
from stampede_guard.stores.settings import DEADLINE, own_settings

__all__ = ["SentinelStore"]

HEAD_START = 0.1
"""The part of the deadline that one sentinel has before the next one is asked as well."""

Connect = Callable[[], AbstractConnection]


class SentinelStore:
    """Each of `sentinels` connects to one sentinel. `settings` are for connections to the master. `where`: the
    addresses of the sentinels, for the log."""

    shared = True

    @property
    def place(self) -> str:
        """The sentinels and the service, without credentials."""
        return f"sentinel://{self._where}/{self._service}"

    def __init__(
        self,
        sentinels: Sequence[Connect],
        service: str,
        settings: dict[str, Any],
        *,
        tls: bool = False,
        deadline: float = DEADLINE,
        where: str = "",
        shared_tls: SharedContext | None = None,
    ) -> None:
        self._sentinels = list(sentinels)
        self._service = service
        self._where = where
        self._connection_class = sharing(_TlsMasterConnection if tls else _MasterConnection, shared_tls)
        self._settings = own_settings(settings)
        self.deadline = deadline

    @classmethod
    @takes_options("SentinelStore.from_client", own=("client",))
    def from_client(cls, client: Redis, *, deadline: float = DEADLINE) -> SentinelStore:
        """`client` comes from `Sentinel.master_for`. Raises `Misuse` for a client of the replicas."""
        pool = client.connection_pool
        assert isinstance(pool, SentinelConnectionPool)
        if not pool.is_master:
            raise Misuse(
                "a replica cannot keep leases: give StampedeGuard the client from sentinel.master_for(...)"
            )
        settings = {
            name: value for name, value in pool.connection_kwargs.items() if name != "connection_pool"
        }
        sentinels = [_connect_like(sentinel) for sentinel in pool.sentinel_manager.sentinels]
        tls = issubclass(pool.connection_class, SSLConnection)
        asked = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
        where = ",".join(sorted(f"{found.get('host')}:{found.get('port')}" for found in asked))
        return cls(sentinels, pool.service_name, settings, tls=tls, deadline=deadline, where=where)

    def connect(self) -> AbstractConnection:
        return self._connection_class(self.find_master, **self._settings)

    def open_session(self, listener: Listener, *, namespace: str = "") -> RedisSession:
        return RedisSession(self, listener, namespace=namespace)

    async def find_master(self) -> Address:
        """The master's address, from the first sentinel that knows it. Raises `ConnectionError` when none does.

        The sentinels are asked in a random order, so that a fleet does not ask all of them at once. Each has a head
        start before the next. So a dead or frozen sentinel does not cost the whole deadline.
        """
        asked: set[asyncio.Task[Address]] = set()
        left = random.sample(self._sentinels, len(self._sentinels))
        refusal: BaseException | None = None
        try:
            while asked or left:
                head_start = None
                if left:
                    asked.add(asyncio.create_task(self._ask(left.pop())))
                    head_start = HEAD_START * self.deadline
                done, asked = await asyncio.wait(
                    asked, timeout=head_start, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    refusal = task.exception()
                    if refusal is None:
                        return task.result()
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if refusal is not None and not isinstance(refusal, OSError):
            raise refusal
        raise ConnectionError(f"no sentinel names a master for {self._service!r}")

    async def _ask(self, connect: Connect) -> Address:
        connection = connect()
        try:
            async with patiently(self.deadline):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command(
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service, check_health=False
                )
                reply = await connection.read_response(disable_decoding=True)
        finally:
            await disconnect(connection)
        if not isinstance(reply, list) or len(reply) != 2:
            raise ConnectionError(f"the sentinel knows no master {self._service!r}")
        return reply[0].decode(), int(reply[1])


class _MasterConnection(Connection):
    """A connection to the current master. It looks the master up when it connects."""

    def __init__(self, find_master: Any, **settings: Any) -> None:
        self._find_master = find_master
        super().__init__(**settings)

    async def connect(self) -> None:
        if not self.is_connected:
            self.host, self.port = await self._find_master()
        await super().connect()  # type: ignore[no-untyped-call]


class _TlsMasterConnection(_MasterConnection, SSLConnection):
    pass


def _connect_like(client: Redis) -> Connect:
    pool = client.connection_pool
    settings = own_settings(pool.connection_kwargs)
    connection_class = sharing(pool.connection_class)
    return lambda: connection_class(**settings)
