"""What the server's processor pays for each command: the cost model of the simulation, measured here and now."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import redis
from redis.asyncio import Redis

from stampede_guard import Policy
from stampede_guard.core.scripts import Granted, Message
from stampede_guard.stores.protocol import Session
from stampede_guard.stores.redis import RedisStore

__all__ = ["Costs", "measure_costs"]

VALUE = b"v" * 220
AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of the server's processor. `read_key`: one more key in a read that is sent anyway. `told`: one more
    waiting process that receives an announcement, with its value of 220 bytes."""

    read: float
    read_key: float
    acquire: float
    held: float
    publish: float
    told: float
    renew: float
    invalidate: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


class _Deaf:
    """A session's listener that has nothing to do."""

    def heard(self, name: str, message: Message) -> None: ...

    def gap(self) -> None: ...

    def changed(self, name: str, fence: int) -> None: ...

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None: ...

    def not_kept(self, name: str, error: object) -> None: ...


@dataclass(slots=True)
class _Meter:
    client: redis.Redis
    _before: float = field(default=0.0)

    def start(self) -> None:
        self._before = self._cpu()

    def microseconds(self, count: int) -> float:
        return (self._cpu() - self._before) * 1e6 / count

    def _cpu(self) -> float:
        cpu: dict[str, Any] = self.client.info("cpu")
        return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


async def measure_costs(url: str, *, count: int, waiters: int, step: Callable[[], None]) -> Costs:
    """`count` commands of each kind, from one process; announcements to `waiters` inboxes. `step` is called 8 times."""
    store = RedisStore.from_url(url)
    # Several, because one connection's client side is slower than the server and would leave it idle between calls.
    holder, other = store.open_session(_Deaf()), store.open_session(_Deaf())
    with redis.Redis.from_url(url) as client:
        try:
            return await _Measurement(holder, other, _Meter(client), url, count, waiters, step).run()
        finally:
            await holder.aclose()
            await other.aclose()


@dataclass(slots=True)
class _Measurement:
    holder: Session
    other: Session
    meter: _Meter
    url: str
    count: int
    waiters: int
    step: Callable[[], None]
    policy: Policy = field(default_factory=lambda: Policy(ttl=600, lease_ttl=600))
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def run(self) -> Costs:
        names = [f"scale:{self.run_id}:{number}" for number in range(self.count)]
        granted: dict[str, Granted] = {}

        async def acquire(name: str) -> None:
            answer = await self.holder.acquire(name, flight=f"f{name}", policy=self.policy)
            assert isinstance(answer, Granted)
            granted[name] = answer

        async def ask(name: str) -> None:
            await self.other.acquire(name, flight=f"g{name}", policy=self.policy)

        async def renew(name: str) -> None:
            token = granted[name].token
            await self.holder.renew(name, flight=f"f{name}", token=token, policy=self.policy)

        async def publish(name: str) -> None:
            await self.holder.publish(
                name, flight=f"f{name}", grant=granted[name], outcome="value", body=VALUE, policy=self.policy
            )

        async def invalidate(name: str) -> None:
            await self.holder.invalidate(name, policy=self.policy)

        await acquire(warm := f"scale:{self.run_id}:warm")
        await ask(warm)
        await publish(warm)
        acquired = await self._each(names, acquire)
        held = await self._each(names, ask)
        renewed = await self._each(names, renew)
        # The inbox that asked above waits for every one of them: that is one announcement each.
        published = await self._each(names, publish)
        read, read_key = await self._reads(names)
        told = await self._announcements()
        invalidated = await self._each(names, invalidate)
        return Costs(
            read=read,
            read_key=read_key,
            acquire=acquired,
            held=held,
            publish=max(0.0, published - told),
            told=told,
            renew=renewed,
            invalidate=invalidated,
        )

    async def _each(self, names: list[str], do: Callable[[str], Awaitable[None]]) -> float:
        self.meter.start()
        for first in range(0, len(names), AT_ONCE):
            await asyncio.gather(*[do(name) for name in names[first : first + AT_ONCE]])
        self.step()
        return self.meter.microseconds(len(names))

    async def _reads(self, names: list[str]) -> tuple[float, float]:
        """One key a call, and from 64 keys a call what each further key costs."""

        async def read(name: str) -> None:
            await self.holder.read(name)

        self.meter.start()
        for name in names:
            await read(name)
        one = self.meter.microseconds(len(names))
        self.step()
        together = await self._each(names, read)
        further = max(0.0, (together * AT_ONCE - one) / (AT_ONCE - 1))
        return one, min(further, one)

    async def _announcements(self) -> float:
        """What each inbox adds: the same publications with `waiters` of them and with none."""
        names = [f"scale:{self.run_id}:told:{number}" for number in range(20)]
        inboxes = [f"scale:{self.run_id}:inbox:{number}" for number in range(self.waiters)]
        clients = [Redis.from_url(self.url) for _ in inboxes]
        listeners = [client.pubsub() for client in clients]
        try:
            for listener, inbox in zip(listeners, inboxes, strict=True):
                await listener.subscribe(inbox)
            alone = await self._publish_all([f"{name}:alone" for name in names], [])
            together = await self._publish_all(names, inboxes)
            self.step()
            return max(0.0, (together - alone) / self.waiters)
        finally:
            for listener, client in zip(listeners, clients, strict=True):
                await listener.aclose()  # type: ignore[no-untyped-call]
                await client.aclose()

    async def _publish_all(self, names: list[str], inboxes: list[str]) -> float:
        grants = {}
        async with Redis.from_url(self.url) as client:
            for name in names:
                answer = await self.holder.acquire(name, flight="f", policy=self.policy)
                assert isinstance(answer, Granted)
                grants[name] = answer
                if inboxes:
                    await client.sadd(f"{{{name}}}:w", *inboxes)
        self.meter.start()
        for name, grant in grants.items():
            await self.holder.publish(
                name, flight="f", grant=grant, outcome="value", body=VALUE, policy=self.policy
            )
        return self.meter.microseconds(len(names))
