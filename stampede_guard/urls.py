"""From a URL or a client to a store: the one place that knows the concrete stores."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from stampede_guard.errors import Misuse, UrlError
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Store

__all__ = ["SCHEMES", "store_for", "store_from_url"]

SCHEMES = ("memory", "redis", "rediss", "unix")


def store_from_url(url: str) -> Store:
    """`memory://`, `redis://user:password@host:port/db`, `rediss://...` (TLS), `unix:///path`.

    Raises `UrlError` for anything else; nothing is connected yet.
    """
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


def store_for(client: Any) -> Store:
    """A store over the user's own `redis.asyncio` client, or a store as it is."""
    if hasattr(client, "open_session"):
        store: Store = client
        return store
    from redis.asyncio import Redis

    from stampede_guard.stores.redis import RedisStore

    if isinstance(client, Redis):
        return RedisStore(client)
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    hint = " (a synchronous client blocks the event loop)" if kind.startswith("redis.") else ""
    raise Misuse(
        f"StampedeGuard needs a redis.asyncio.Redis client or a store, not {kind}{hint}; "
        'for a URL write StampedeGuard.from_url("redis://localhost:6379/0")'
    )
