"""From a URL or a client to a store: the one place that knows the concrete stores."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from stampede_guard.encryption import Encryption, checked_encryption
from stampede_guard.errors import Misuse, UrlError
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Store

__all__ = ["SCHEMES", "store_for", "store_from_url"]

SCHEMES = (
    "memory",
    "redis",
    "rediss",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
)


def store_from_url(url: str) -> Store:
    """`memory://`, `redis://user:password@host:port/db`, `rediss://...` (TLS), `unix:///path`,
    `redis+cluster://user:password@host:port,host:port`, `redis+sentinel://host:port,host:port/service/db`; and
    `rediss+cluster://`, `rediss+sentinel://`.

    Raises `UrlError` for anything else; nothing is connected yet.
    """
    scheme = url.partition("://")[0]
    if scheme in SCHEMES and "+" in scheme:
        from stampede_guard.stores.addresses import cluster_from_url, sentinel_from_url

        return cluster_from_url(url) if scheme.endswith("+cluster") else sentinel_from_url(url)
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        _ = parts.port
    except ValueError as error:
        raise UrlError(f"the store URL cannot be read: {error}") from None
    if parts.scheme == "memory":
        return MemoryStore()
    if parts.scheme in SCHEMES:
        from stampede_guard.stores.redis import RedisStore

        try:
            return RedisStore.from_url(url)
        except (ValueError, TypeError) as error:
            raise UrlError(f"the store URL cannot be read: {error}") from None
    allowed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
    raise UrlError(f"unknown scheme {parts.scheme!r} in the store URL: write one of {allowed}")


def store_for(client: Any, encryption: Encryption | None = None) -> Store:
    """A store over the user's own `redis.asyncio` client, or a store as it is; behind `encryption` if there is one."""
    store = _plain_store_for(client)
    if encryption is None:
        return store
    from stampede_guard.stores.encrypted import EncryptedStore

    return EncryptedStore(store, checked_encryption(encryption))


def _plain_store_for(client: Any) -> Store:
    if hasattr(client, "open_session"):
        store: Store = client
        return store
    from redis.asyncio import Redis, RedisCluster
    from redis.asyncio.sentinel import SentinelConnectionPool

    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        from stampede_guard.stores.sentinel import SentinelStore

        return SentinelStore.from_client(client)
    if isinstance(client, RedisCluster):
        from stampede_guard.stores.cluster import ClusterStore

        return ClusterStore.from_client(client)
    if isinstance(client, Redis):
        from stampede_guard.stores.redis import RedisStore

        return RedisStore(client)
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    hint = " (a synchronous client blocks the event loop)" if kind.startswith("redis.") else ""
    raise Misuse(
        f"StampedeGuard needs a redis.asyncio.Redis or RedisCluster client, or a store, not {kind}{hint}; "
        'for a URL write StampedeGuard.from_url("redis://localhost:6379/0")'
    )
