"""The stores that keep entries. `protocol` is the port. Every store passes the contract suite in `tests/stores/`.

The names here are loaded on first use, so a guard with a memory store does not import Redis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.stores.cluster import ClusterStore
    from stampede_guard.stores.memory import MemoryStore
    from stampede_guard.stores.redis import RedisStore
    from stampede_guard.stores.sentinel import SentinelStore
    from stampede_guard.stores.urls.addresses import cluster_from_url, sentinel_from_url
    from stampede_guard.stores.urls.options import deadline_from

_HOMES = {
    "ClusterStore": "cluster",
    "MemoryStore": "memory",
    "RedisStore": "redis",
    "SentinelStore": "sentinel",
    "cluster_from_url": "urls.addresses",
    "deadline_from": "urls.options",
    "sentinel_from_url": "urls.addresses",
}

__all__ = [
    "ClusterStore",
    "MemoryStore",
    "RedisStore",
    "SentinelStore",
    "cluster_from_url",
    "deadline_from",
    "sentinel_from_url",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
