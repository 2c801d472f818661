"""Signals between a test and the processes that it started, through the Redis that they share."""

from __future__ import annotations

import json
from typing import Any

import redis

__all__ = ["PATIENCE", "Bell"]

PATIENCE = 60
"""Seconds after which a signal that does not come is an error."""


class Bell:
    """`ring` and `heard` carry values in order. `hold` waits for `open`, which lets all pass, also later."""

    def __init__(self, url: str, namespace: str) -> None:
        self._client = redis.Redis.from_url(url, decode_responses=True, socket_timeout=None)
        self._prefix = f"{namespace}:bell:"

    def ring(self, name: str, value: Any = None) -> None:
        self._client.rpush(self._prefix + name, json.dumps(value))

    def heard(self, name: str, number: int) -> list[Any]:
        """The next values, waiting for each."""
        values = []
        for place in range(number):
            found: Any = self._client.blpop([self._prefix + name], timeout=PATIENCE)
            assert found is not None, f"{name} rang {place} times and not {number}"
            values.append(json.loads(found[1]))
        return values

    def rest(self, name: str) -> list[Any]:
        """The values that nobody has heard."""
        found: Any = self._client.lrange(self._prefix + name, 0, -1)
        return [json.loads(value) for value in found]

    def count(self, name: str) -> int:
        """One more than at the last call, in any process."""
        number: Any = self._client.incr(f"{self._prefix}{name}:count")
        return int(number)

    def open(self, name: str) -> None:
        self._client.rpush(f"{self._prefix}{name}:open", "")

    def hold(self, name: str) -> None:
        gate = f"{self._prefix}{name}:open"
        assert self._client.blmove(gate, gate, PATIENCE) is not None, f"nobody opened {name}"

    def close(self) -> None:
        self._client.close()
