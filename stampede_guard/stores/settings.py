"""The settings of a session's own connections: those of the user's client, except for the lanes' own tasks.

TLS, user, password, credential provider and keep-alive are the user's. Time-outs, retries and decoding are ours: no
retries, one deadline for everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

__all__ = ["DEADLINE", "own_settings"]

DEADLINE = 0.5
"""Seconds for connecting and for each answer."""


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a connection, made from those of a client's pool."""
    return {
        **settings,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "retry_on_error": [],
        "health_check_interval": 0,
        "decode_responses": False,
        "protocol": 2,
    }
