"""Makes a store from a URL or a client. Only this module knows the concrete stores."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from stampede_guard import stores
from stampede_guard.errors import Misuse, UrlError
from stampede_guard.stores.encrypted import EncryptedStore
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Store
from stampede_guard.values.encryption import Encryption, checked_encryption

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
_PASSWORD = re.compile(r"\b(?:ssl)?pass\w*\s*=.*", re.IGNORECASE | re.DOTALL)
"""As in a libpq text: host=h password=..."""
_VALKEY = re.compile(r"^valkey")
_UNQUOTED = "in a password, write / # ? @ and : as %2F %23 %3F %40 and %3A"
_EXAMPLE = "redis://localhost:6379/0"


def store_from_url(url: str) -> Store:
    """The store of a URL. It does not connect yet.

    Allowed are `memory://`, `redis://user:password@host:port/db`, `rediss://...` (TLS), `unix:///path`,
    `redis+cluster://user:password@host:port,host:port`, `redis+sentinel://host:port,host:port/service/db`,
    `rediss+cluster://` and `rediss+sentinel://`. The names `valkey` and `valkeys` mean `redis` and `rediss`.
    Raises `UrlError` for any other URL.
    """
    if not isinstance(url, str):
        raise UrlError(
            f"a store URL is a text such as {_EXAMPLE!r}, not a {type(url).__name__}: write str(...)"
        )
    given, separator, rest = url.strip().partition("://")
    if not separator:
        scheme, colon, rest = given.partition(":")
        # `redis:6379` is a host of this name, and its port.
        if colon and not rest[:1].isdigit() and _VALKEY.sub("redis", scheme.lower()) in SCHEMES:
            cure = f"{scheme}://{_shown(rest.lstrip('/'))}"
            raise UrlError(f"the store URL {_shown(given)!r} has no // after its scheme: write {cure}")
        raise UrlError(f"the store URL {_shown(given)!r} has no scheme: {_write(given)}")
    scheme = _VALKEY.sub("redis", given.lower())
    if scheme not in SCHEMES:
        allowed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UrlError(f"unknown scheme {given!r} in the store URL: write one of {allowed}")
    url = f"{scheme}://{rest}"
    if scheme == "memory":
        return MemoryStore()
    deadline = stores.deadline_from(url)
    if "+" in scheme:
        make = stores.cluster_from_url if scheme.endswith("+cluster") else stores.sentinel_from_url
        return make(url, deadline=deadline)
    if scheme != "unix":
        _check_host_and_database(url)
    try:
        store = stores.RedisStore.from_url(url, deadline=deadline)
    except (ValueError, TypeError) as error:
        raise UrlError(f"the store URL cannot be read: {error}") from None
    try:
        # This opens no connection. It raises for an unknown option, which at the first call would look like an outage.
        store.connect()
    except (ValueError, TypeError) as error:
        hint = "; for TLS write rediss://" if "ssl_" in str(error) and scheme == "redis" else ""
        raise UrlError(f"an option of the store URL is unknown: {error}{hint}") from None
    return store


def _write(url: str) -> str:
    """Advice for a URL without a scheme."""
    host = re.fullmatch(r"//([\w.:-]+)|([\w.-]+(:\d+)?(/\d+)?)", url)
    return f"write redis://{host[1] or host[0]}" if host else f"write for example {_EXAMPLE}"


def _shown(url: str) -> str:
    """The URL without any text that may be a password. An unquoted one may hold any character."""
    before, at, rest = url.rpartition("@")
    shown = f"...@{rest}" if at else before + rest
    return _PASSWORD.sub("...", shown.partition("?")[0])


def _check_host_and_database(url: str) -> None:
    # Text in the place of the port may be part of an unquoted password. Do not show it then.
    secret = "@" in url
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        good = parts.port != 0 and "," not in parts.netloc.rpartition("@")[2]
    except ValueError:
        parts, good = urlsplit(""), False
    if not good:
        host = url.partition("://")[2]
        problem = _UNQUOTED if secret else f"got {host.partition('/')[0]!r}"
        raise UrlError(
            f"the store URL needs one host and a port of 1 to 65535, as in {_EXAMPLE}: {problem} "
            "(several hosts: redis+cluster:// or redis+sentinel://)"
        )
    if not re.fullmatch(r"/?\d*", parts.path):
        problem = _UNQUOTED if secret else f"got {parts.path[1:]!r}"
        raise UrlError(f"the database in the store URL must be a number, as in {_EXAMPLE}: {problem}")


def store_for(client: Any, encryption: Encryption | None = None, *, who: str = "StampedeGuard") -> Store:
    """A store over the user's own `redis.asyncio` client, or the given store. With `encryption`, wrapped in it.

    Errors name `who` as the object that needs the store.
    """
    store = _plain_store_for(client, who)
    if encryption is None:
        return store
    return EncryptedStore(store, checked_encryption(encryption))


def _plain_store_for(client: Any, who: str) -> Store:
    if hasattr(client, "open_session"):
        store: Store = client
        return store
    from redis.asyncio import Redis, RedisCluster
    from redis.asyncio.sentinel import SentinelConnectionPool

    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        return stores.SentinelStore.from_client(client)
    if isinstance(client, RedisCluster):
        return stores.ClusterStore.from_client(client)
    if isinstance(client, Redis):
        return stores.RedisStore(client)
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    hint = " (a synchronous client blocks the event loop)" if kind.startswith("redis.") else ""
    raise Misuse(
        f"{who} needs a redis.asyncio.Redis or RedisCluster client, or a store, not {kind}{hint}; "
        f'for a URL write {who}.from_url("redis://localhost:6379/0")'
    )
