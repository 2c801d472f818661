"""A Redis or Valkey cluster (7.0 and later): addresses and connections. For sessions see `stores.clustersession`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection

from stampede_guard.options import takes_options
from stampede_guard.stores.clustersession import ClusterSession
from stampede_guard.stores.connections.slots import Address, Remap
from stampede_guard.stores.connections.tls import sharing
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.settings import DEADLINE, own_settings

__all__ = ["ClusterStore"]


class ClusterStore:
    """The session asks the `seeds` for the map of the cluster until one answers. `settings` are for connections."""

    shared = True

    @property
    def place(self) -> str:
        """Its address, without credentials."""
        return "cluster://" + ",".join(sorted(f"{host}:{port}" for host, port in self.seeds))

    def __init__(
        self,
        seeds: Iterable[Address],
        settings: dict[str, Any],
        *,
        connection_class: type[AbstractConnection] = Connection,
        remap: Remap | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self.seeds = tuple(seeds)
        self.remap = remap
        self.deadline = deadline
        self._connection_class = sharing(connection_class)
        self._settings = own_settings(settings)

    @classmethod
    @takes_options("ClusterStore.from_client", own=("client",))
    def from_client(cls, client: RedisCluster, *, deadline: float = DEADLINE) -> ClusterStore:
        """Takes the settings of the user's client. The client's connections are not used."""
        nodes = client.nodes_manager
        settings: dict[str, Any] = dict(client.get_connection_kwargs())
        # These belong to the client itself, or would make a connection read from a replica.
        for name in ("max_connections", "response_callbacks", "redis_connect_func", "event_dispatcher"):
            settings.pop(name, None)
        for name in [name for name in settings if "maint_notifications" in name]:
            del settings[name]
        return cls(
            [(node.host, int(node.port)) for node in nodes.startup_nodes.values()],
            settings,
            connection_class=settings.pop("connection_class", Connection),
            remap=nodes.address_remap,
            deadline=deadline,
        )

    def connect(self, address: Address) -> AbstractConnection:
        return self._connection_class(**{**self._settings, "host": address[0], "port": address[1]})

    def open_session(self, listener: Listener, *, namespace: str = "") -> ClusterSession:
        return ClusterSession(self, listener, namespace=namespace)
