"""Faults of a store and of workers. Each takes a while, and says afterwards what it was and when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import redis

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from tests.soak.journal import Fault, now

__all__ = ["STORES", "Faults", "Workers"]

STORES: dict[str, Callable[[], Any]] = {
    "valkey": lambda: ValkeyServer(),
    "cluster": lambda: ValkeyCluster(options={"cluster-require-full-coverage": "no"}),
}


class Workers(Protocol):
    """What a fault may do to the processes that use the store."""

    def pids(self) -> dict[str, int]: ...

    def kill(self, label: str) -> None: ...


@dataclass(slots=True)
class Faults:
    """`draw` decides everything. A fault of a store hits one of its servers."""

    servers: Sequence[ValkeyServer]
    workers: Workers
    draw: random.Random
    told: Callable[[Fault], None]
    only: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)

    async def next(self) -> str:
        """One fault, at random, from its beginning to its end."""
        kinds = [each for each in self._kinds() if not self.only or each[0] in self.only]
        kind, carry_out = self.draw.choice(kinds)
        began = now()
        details: dict[str, Any] = await carry_out() or {}
        self.told(Fault(kind, began, now(), **details))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return kind

    def _kinds(self) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
        # In a cluster a master is demoted by a failover only.
        alone = [("demote the server", self._demote)] if len(self.servers) == 1 else []
        return [
            *alone,
            ("freeze the server", self._freeze),
            ("crash the server", self._crash),
            ("cut the connections", self._cut),
            ("cut the subscriptions", self._cut_subscriptions),
            ("forget the scripts", self._forget_scripts),
            ("forget everything", self._flush),
            ("evict records", self._evict),
            ("refuse writes", self._refuse_writes),
            ("run out of memory", self._out_of_memory),
            ("kill a worker", self._kill_worker),
            ("freeze a worker", self._freeze_worker),
        ]

    @property
    def _server(self) -> ValkeyServer:
        return self.draw.choice(self.servers)

    async def _pause(self, shortest: float, longest: float) -> None:
        await asyncio.sleep(self.draw.uniform(shortest, longest))

    async def _freeze(self) -> dict[str, Any]:
        server = self._server
        server.pause()
        await self._pause(0.2, 1.5)
        server.resume()
        return {"away": True}

    async def _crash(self) -> dict[str, Any]:
        server = self._server
        if len(self.servers) > 1:
            # A cluster's node that forgets who it is joins no cluster again.
            os.kill(server.pid, signal.SIGSTOP)
            await self._pause(0.5, 2.0)
            os.kill(server.pid, signal.SIGCONT)
        else:
            server.kill()
            await self._pause(0.0, 1.0)
            await asyncio.to_thread(server.start)
        return {"away": True}

    async def _tell(self, *commands: tuple[Any, ...], server: ValkeyServer | None = None) -> dict[str, Any]:
        chosen = server or self._server
        with contextlib.suppress(redis.RedisError), chosen.client(socket_timeout=5.0) as client:
            for command in commands:
                await asyncio.to_thread(client.execute_command, *command)
        return {}

    async def _cut(self) -> dict[str, Any]:
        return await self._tell(("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))

    async def _cut_subscriptions(self) -> dict[str, Any]:
        return await self._tell(("CLIENT", "KILL", "TYPE", "pubsub"))

    async def _forget_scripts(self) -> dict[str, Any]:
        return await self._tell(("SCRIPT", "FLUSH"))

    async def _flush(self) -> dict[str, Any]:
        return await self._tell(("FLUSHALL",))

    async def _evict(self) -> dict[str, Any]:
        server = self._server
        with contextlib.suppress(redis.RedisError), server.client(socket_timeout=5.0) as client:
            keys = [key for key in client.scan_iter(count=1000) if key.endswith((b":r", b":l"))]
            for key in self.draw.sample(keys, len(keys) // 2):
                client.delete(key)
        return {}

    async def _refuse_writes(self) -> dict[str, Any]:
        server = self._server
        await self._tell(("CONFIG", "SET", "min-replicas-to-write", "1"), server=server)
        await self._pause(0.5, 1.5)
        await self._tell(("CONFIG", "SET", "min-replicas-to-write", "0"), server=server)
        return {}

    async def _demote(self) -> dict[str, Any]:
        server = self._server
        await self._tell(("REPLICAOF", "127.0.0.1", "1"), server=server)
        await self._pause(0.5, 1.5)
        await self._tell(("REPLICAOF", "NO", "ONE"), server=server)
        return {}

    async def _out_of_memory(self) -> dict[str, Any]:
        server = self._server
        await self._tell(("CONFIG", "SET", "maxmemory", "1"), server=server)
        await self._pause(0.5, 1.5)
        await self._tell(("CONFIG", "SET", "maxmemory", "0"), server=server)
        return {}

    async def _kill_worker(self) -> dict[str, Any]:
        label = self.draw.choice(sorted(self.workers.pids()))
        self.workers.kill(label)
        return {}

    async def _freeze_worker(self) -> dict[str, Any]:
        label, pid = self.draw.choice(sorted(self.workers.pids().items()))
        os.kill(pid, signal.SIGSTOP)
        await self._pause(0.5, 2.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        # It may be served what it knew, until it hears what it has missed.
        return {"away": True, "process": label}
