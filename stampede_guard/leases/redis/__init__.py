"""Leases in Redis or Valkey (7.0 and later; cluster and sentinel too): one script a step, on the server's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.leases.redis.backend import RedisBackend

__all__ = ["RedisBackend"]


def __getattr__(name: str) -> Any:
    if name == "RedisBackend":
        from stampede_guard.leases.redis.backend import RedisBackend

        return RedisBackend
    raise AttributeError(f"module 'stampede_guard.leases.redis' has no attribute {name!r}")
