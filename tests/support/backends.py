"""One face for every store under test: open sessions, look at what is stored, let time pass, lose a part."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal, Protocol, cast

import fakeredis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel

from stampede_guard.core.entry import EMPTY, prune
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.clustersession import ClusterSession
from stampede_guard.stores.connections.wire import entry_keys
from stampede_guard.stores.encrypted import EncryptedStore
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Session, Store
from stampede_guard.stores.redis import RedisSession, RedisStore
from stampede_guard.stores.sentinel import SentinelStore
from stampede_guard.testing import FaultyStore
from tests.support.clock import Clock
from tests.support.encryption import Rot
from tests.support.listener import PATIENCE, RecordingListener

__all__ = [
    "PARTS",
    "Backend",
    "ClusterBackend",
    "EncryptedBackend",
    "FakeBackend",
    "FaultyBackend",
    "MemoryBackend",
    "Part",
    "RedisBackend",
    "SentinelBackend",
]

Part = Literal["value", "failure", "record", "lease", "waiters", "slots"]
PARTS: tuple[Part, ...] = ("value", "failure", "record", "lease", "waiters", "slots")


class Backend(Protocol):
    always_inline: bool
    """Whether a value travels in the wake-up whatever its size."""

    def open(self) -> tuple[Session, RecordingListener]:
        """A session as another process would have it."""

    async def lose(self, session: Session) -> None:
        """The process of this session dies: nothing is given back, and its inbox is silent."""

    async def parts(self, name: str) -> set[Part]:
        """What is stored under this name."""

    async def evict(self, name: str, part: Part) -> None: ...

    async def age(self, name: str, seconds: float) -> None:
        """Everything about this entry becomes so much older."""

    async def stretch(self, name: str, seconds: float) -> None:
        """The value has this much time left now, as after an operator's hand or a step of the clock."""

    async def aclose(self) -> None: ...


class MemoryBackend:
    always_inline = True

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.outer: Store = self.store
        self._sessions: list[Session] = []

    def open(self) -> tuple[Session, RecordingListener]:
        listener = RecordingListener()
        session = self.outer.open_session(listener)
        self._sessions.append(session)
        return session, listener

    async def lose(self, session: Session) -> None:
        session.abandon()

    async def parts(self, name: str) -> set[Part]:
        entry = prune(self.store._entries.get(name, EMPTY), self.store.now_us())
        return {part for part in PARTS if getattr(entry, part)}

    async def evict(self, name: str, part: Part) -> None:
        gone: Any = {"waiters": frozenset(), "slots": ()}.get(part)
        self.store._entries[name] = replace(self.store._entries[name], **{part: gone})

    async def age(self, name: str, seconds: float) -> None:
        self.clock.advance(seconds)

    async def stretch(self, name: str, seconds: float) -> None:
        entry = self.store._entries[name]
        assert entry.value is not None
        until = self.store.now_us() + round(seconds * 1_000_000)
        self.store._entries[name] = replace(entry, value=replace(entry.value, expires_us=until))

    async def aclose(self) -> None:
        for session in self._sessions:
            await session.aclose()


class FaultyBackend(MemoryBackend):
    """The store that users break in their tests, while nothing is wrong with it."""

    def __init__(self) -> None:
        super().__init__()
        self.outer: Store = (faulty := FaultyStore(clock=self.clock))
        self.store = faulty.memory


class EncryptedBackend(MemoryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.outer = EncryptedStore(self.store, Rot())


class RedisBackend:
    always_inline = False

    def __init__(self, client: redis.asyncio.Redis, *, deadline: float = 10.0, store: Any = None) -> None:
        """`client` also looks from outside. The deadline is long: a busy machine is no finding."""
        self.client = client
        self.store = store or RedisStore(client, deadline=deadline)
        self._sessions: list[RedisSession] = []

    def open(self) -> tuple[Session, RecordingListener]:
        listener = RecordingListener()
        session = self.store.open_session(listener)
        self._sessions.append(session)
        return session, listener

    async def lose(self, session: Session) -> None:
        inbox = cast(RedisSession, session)._inbox._name
        await session.aclose()
        async with asyncio.timeout(PATIENCE):
            while (await self.client.pubsub_numsub(inbox))[0][1]:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0)

    async def parts(self, name: str) -> set[Part]:
        keys = zip(PARTS, entry_keys(name), strict=True)
        return {part for part, key in keys if await self.client.exists(key)}

    async def evict(self, name: str, part: Part) -> None:
        await self.client.delete(entry_keys(name)[PARTS.index(part)])

    async def age(self, name: str, seconds: float) -> None:
        _, _, _, lease, _, slots = entry_keys(name)
        earlier = round(seconds * 1_000_000)
        for flight, score in await self.client.zrange(slots, 0, -1, withscores=True):
            await self.client.zadd(slots, {flight: score - earlier})
        missing = await self.client.hget(lease, "missing")
        if missing is not None:
            await self.client.hset(lease, "missing", str(int(missing) - earlier))
        for key in entry_keys(name):
            left = await self.client.pttl(key)
            if 0 <= left <= seconds * 1000:
                await self.client.delete(key)
            elif left > 0:
                await self.client.pexpire(key, left - round(seconds * 1000))

    async def stretch(self, name: str, seconds: float) -> None:
        await self.client.pexpire(entry_keys(name)[0], round(seconds * 1000))

    async def aclose(self) -> None:
        for session in self._sessions:
            await session.aclose()
        await self.client.aclose()


class FakeBackend(RedisBackend):
    def __init__(self) -> None:
        self.server = fakeredis.FakeServer()
        super().__init__(fakeredis.FakeAsyncRedis(server=self.server))

    async def lose(self, session: Session) -> None:
        # fakeredis keeps the subscriptions of a connection that was closed.
        self.server.subscribers.pop(cast(RedisSession, session)._inbox._name.encode(), None)
        await session.aclose()


class ClusterBackend(RedisBackend):
    def __init__(self, cluster: RedisCluster, *, deadline: float = 10.0) -> None:
        self._cluster = cluster
        store = ClusterStore.from_client(cluster, deadline=deadline)
        super().__init__(cast(Any, cluster), store=store)

    async def lose(self, session: Session) -> None:
        inbox = cast(ClusterSession, session)._inbox_name
        await session.aclose()
        async with asyncio.timeout(PATIENCE):
            for node in self._cluster.get_primaries():
                while (await node.execute_command("PUBSUB", "NUMSUB", inbox))[1]:  # noqa: ASYNC110
                    await asyncio.sleep(0)


class SentinelBackend(RedisBackend):
    def __init__(self, sentinel: Sentinel, service: str, *, deadline: float = 10.0) -> None:
        self._sentinel = sentinel
        client = sentinel.master_for(service)
        super().__init__(client, store=SentinelStore.from_client(client, deadline=deadline))

    async def aclose(self) -> None:
        await super().aclose()
        await self._sentinel.aclose()
