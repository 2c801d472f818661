"""What may happen to a server or to the way to it: each a context in which it goes on happening."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.stores.connections.wire import entry_keys
from tests.support.proxy import FaultProxy

__all__ = ["FAULTS", "Fault", "Faulty", "black_hole", "nobody_there"]


@dataclass(frozen=True)
class Faulty:
    """The server, the way to it that all guards take, a client past it, and the entries that are in use."""

    server: ValkeyServer
    proxy: FaultProxy
    outside: redis.asyncio.Redis
    names: list[str]


@asynccontextmanager
async def nobody_there(it: Faulty) -> AsyncIterator[None]:
    await it.proxy.refuse()
    yield
    await it.proxy.listen()


@asynccontextmanager
async def black_hole(it: Faulty) -> AsyncIterator[None]:
    it.proxy.black_hole()
    yield
    it.proxy.heal()


@asynccontextmanager
async def slow(it: Faulty) -> AsyncIterator[None]:
    it.proxy.latency(1.0)
    yield
    it.proxy.heal()


@asynccontextmanager
async def flapping(it: Faulty) -> AsyncIterator[None]:
    async def flap() -> None:
        await it.proxy.refuse()
        await asyncio.sleep(0.1)
        await it.proxy.listen()

    async with again_and_again(flap, every=0.2):
        yield


@asynccontextmanager
async def half_open(it: Faulty) -> AsyncIterator[None]:
    async def forget() -> None:
        it.proxy.half_open()

    async with again_and_again(forget, every=0.8):
        yield


@asynccontextmanager
async def lost_replies(it: Faulty) -> AsyncIterator[None]:
    async def lose() -> None:
        it.proxy.lose_replies(b"EVALSHA", fate=random.choice(["lose", "lose_and_reset"]))  # type: ignore[arg-type]

    async with again_and_again(lose, every=0.1):
        yield
    it.proxy.heal()
    # Connections that go on losing what is asked on them are more of the same fault.
    it.proxy.cut(lambda link: link.losing != "forward")


@asynccontextmanager
async def out_of_memory(it: Faulty) -> AsyncIterator[None]:
    await it.outside.config_set("maxmemory", 1)
    yield
    await it.outside.config_set("maxmemory", 0)


@asynccontextmanager
async def read_only_replica(it: Faulty) -> AsyncIterator[None]:
    await it.outside.execute_command("REPLICAOF", "127.0.0.1", 1)
    yield
    await it.outside.execute_command("REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def too_few_replicas(it: Faulty) -> AsyncIterator[None]:
    await it.outside.config_set("min-replicas-to-write", 1)
    yield
    await it.outside.config_set("min-replicas-to-write", 0)


@asynccontextmanager
async def too_many_clients(it: Faulty) -> AsyncIterator[None]:
    await it.outside.config_set("maxclients", 1)
    for kind in ("normal", "pubsub"):
        await it.outside.client_kill_filter(_type=kind, skipme=True)
    yield
    await it.outside.config_set("maxclients", 1000)


@asynccontextmanager
async def loading(it: Faulty) -> AsyncIterator[None]:
    """A restart with a lot of data, read slowly."""
    await it.outside.mset({f"ballast:{number}": "x" * 100 for number in range(1_500)})
    given = it.server.options
    it.server.options = {**given, "key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"}
    await asyncio.to_thread(it.server.restart, keep_data=True)
    it.server.options = given
    assert (await it.outside.info("persistence"))["loading"] == 1
    yield
    while (await it.outside.info("persistence"))["loading"]:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0.05)


@asynccontextmanager
async def restarted_empty(it: Faulty) -> AsyncIterator[None]:
    await asyncio.to_thread(it.server.restart, keep_data=False)
    yield


@asynccontextmanager
async def scripts_flushed(it: Faulty) -> AsyncIterator[None]:
    async with again_and_again(it.outside.script_flush, every=0.02):
        yield


@asynccontextmanager
async def others_in_our_keys(it: Faulty) -> AsyncIterator[None]:
    async def spoil() -> None:
        key = random.choice(entry_keys(random.choice(it.names)))
        async with it.outside.pipeline(transaction=True) as both:
            await both.delete(key).rpush(key, "not ours").execute()

    async with again_and_again(spoil, every=0.01):
        yield


@asynccontextmanager
async def again_and_again(strike: Callable[[], Any], *, every: float) -> AsyncIterator[None]:
    # Not ended by cancellation: a client in the middle of a command may take it for a time-out, and go on.
    over = asyncio.Event()

    async def strikes() -> None:
        while not over.is_set():
            await strike()
            await asyncio.sleep(every)

    task = asyncio.create_task(strikes())
    try:
        yield
    finally:
        over.set()
        await task


Fault = Callable[[Faulty], AbstractAsyncContextManager[None]]

FAULTS: dict[Fault, bool | None] = {
    nobody_there: True,
    black_hole: True,
    slow: True,
    read_only_replica: False,
    too_many_clients: True,
    loading: True,
    flapping: None,
    restarted_empty: None,
    half_open: None,
    lost_replies: None,
    out_of_memory: False,
    too_few_replicas: False,
    scripts_flushed: False,
    others_in_our_keys: False,
}
"""Whether the store then counts as away; None where that depends on the moment."""
