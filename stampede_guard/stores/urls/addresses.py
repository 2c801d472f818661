"""The URLs of stores on more than one server: `scheme://user:password@host:port,host:port/path?option=value`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url

from stampede_guard.errors import UrlError
from stampede_guard.options import takes_options
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.connections.slots import Address
from stampede_guard.stores.connections.tls import SharedContext, sharing
from stampede_guard.stores.sentinel import SentinelStore
from stampede_guard.stores.settings import DEADLINE, own_settings

__all__ = ["cluster_from_url", "sentinel_from_url"]

CLUSTER_PORT = 6379
SENTINEL_PORT = 26379

_URL = re.compile(
    r"(?P<scheme>[a-z+]+)://(?:(?P<user>[^@/?]*)@)?(?P<hosts>[^/?#@]*)/?(?P<path>[^?#]*)(?P<query>\?[^#]*)?"
)
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+)(?::(?P<port>\d+))?")


@dataclass(frozen=True, slots=True)
class _Parts:
    tls: bool
    addresses: list[Address]
    path: str
    settings: dict[str, Any]

    @property
    def connection_class(self) -> type[Connection]:
        return SSLConnection if self.tls else Connection


@takes_options("cluster_from_url", own=("url",))
def cluster_from_url(url: str, *, deadline: float = DEADLINE) -> ClusterStore:
    """`redis+cluster://user:password@host:port,host:port`; `rediss+cluster://` for TLS.

    The hosts may be a part of the cluster's nodes. Raises `UrlError`.
    """
    parts = _take_apart(url, CLUSTER_PORT)
    if parts.path not in ("", "0"):
        raise UrlError(
            f"a cluster has only database 0: write nothing after the hosts of the store URL, not /{parts.path}"
        )
    _check(parts.connection_class, parts.settings)
    return ClusterStore(
        parts.addresses, parts.settings, connection_class=parts.connection_class, deadline=deadline
    )


@takes_options("sentinel_from_url", own=("url",))
def sentinel_from_url(url: str, *, deadline: float = DEADLINE) -> SentinelStore:
    """`redis+sentinel://user:password@host:port,host:port/service/db`; `rediss+sentinel://` for TLS, everywhere.

    User and password are for the master. The sentinels' own are `?sentinel_username=...&sentinel_password=...`.
    Raises `UrlError`.
    """
    parts = _take_apart(url, SENTINEL_PORT)
    service, _, database = parts.path.partition("/")
    if not service:
        raise UrlError(
            "the store URL names no service: write redis+sentinel://host:26379/mymaster, with the name that the "
            "sentinels' configuration gives the master"
        )
    if not re.fullmatch(r"\d*", database):
        raise UrlError(
            f"the database in the store URL must be a number, as in /{service}/0, not {database!r}"
        )
    settings = {**parts.settings, "db": int(database or 0)}
    own = {name: settings.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    shared = {name: value for name, value in settings.items() if name.startswith(("ssl_", "socket_"))}
    # The settings for asking one sentinel. They never contain the master's user and password.
    asking = own_settings({**shared, **{name: value for name, value in own.items() if value}})
    _check(parts.connection_class, settings)

    # Sentinels and master share one SSLContext.
    shared_tls = SharedContext()
    connection_class = sharing(parts.connection_class, shared_tls)

    def connect_to(address: Address) -> AbstractConnection:
        return connection_class(**asking, host=address[0], port=address[1])

    return SentinelStore(
        [lambda address=address: connect_to(address) for address in parts.addresses],  # type: ignore[misc]
        service,
        settings,
        tls=parts.tls,
        deadline=deadline,
        shared_tls=shared_tls,
        where=",".join(sorted(f"{host}:{port}" for host, port in parts.addresses)),
    )


def _take_apart(url: str, default_port: int) -> _Parts:
    found = _URL.fullmatch(url)
    if found is None:
        raise UrlError("the store URL cannot be read: write scheme://user:password@host:port,host:port")
    addresses = [_address(text, default_port) for text in found["hosts"].split(",")]
    user, colon, password = (found["user"] or "").partition(":")
    tls = found["scheme"].startswith("rediss")
    try:
        # redis-py gives the options their types. The host in this URL is a placeholder, removed below.
        settings = dict(parse_url(f"{'rediss' if tls else 'redis'}://any{found['query'] or ''}"))
    except ValueError as error:
        raise UrlError(f"the store URL cannot be read: {error}") from None
    for name in ("host", "port", "connection_class"):
        settings.pop(name, None)
    if user:
        settings["username"] = unquote(user)
    if colon:
        settings["password"] = unquote(password)
    return _Parts(tls, addresses, unquote(found["path"]).rstrip("/"), settings)


def _address(text: str, default_port: int) -> Address:
    found = _HOST.fullmatch(text)
    if found is None:
        raise UrlError(
            f"{text!r} in the store URL is not a host: write host or host:port, separated by commas"
        )
    port = int(found["port"] or default_port)
    if not 0 < port < 65536:
        raise UrlError(f"{port} in the store URL is not a port: a port is a number from 1 to 65535")
    return found["host"].strip("[]"), port


def _check(connection_class: type[Connection], settings: dict[str, Any]) -> None:
    """Make a connection and do not connect it. It reports an unknown option now, and not at the first call."""
    try:
        connection_class(**settings)
    except (TypeError, ValueError) as error:
        raise UrlError(f"an option of the store URL is unknown: {error}") from None
