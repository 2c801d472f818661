"""Behind a pooler connections are the pooler's: nothing is heard through them, and they are nobody's sign of life."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from stampede_guard.leases import PostgresLeases
from stampede_guard.leases.core.grants import GONE_FOR
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, Renewed
from tests.support.gate import until
from tests.support.leases import LONG, ask


class Pooler:
    """Gives its clients cancellation keys of its own, as PgBouncer does, and keeps the server's connections when
    clients have gone."""

    def __init__(self, host: str, port: int) -> None:
        self._behind = host, port
        self.kept: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_server = await asyncio.open_connection(*self._behind)
        self.kept.append(to_server)
        answers = asyncio.create_task(self._answers(behind, writer))
        self._tasks.add(answers)
        try:
            while data := await reader.read(65536):
                to_server.write(data)
        finally:
            writer.close()

    async def _answers(self, behind: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await behind.readexactly(5)
            body = await behind.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            if head[:1] == b"K":
                body = struct.pack("!i", 7) + body[4:]
            if not writer.is_closing():
                writer.write(head + body)

    async def aclose(self) -> None:
        for answers in self._tasks:
            answers.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for to_server in self.kept:
            to_server.close()


@pytest.fixture
async def pooled_url(postgres_url: str) -> AsyncIterator[str]:
    address = urlsplit(postgres_url)
    assert address.hostname is not None and address.port is not None
    pooler = Pooler(address.hostname, address.port)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    user = f"{address.username}:{address.password}" if address.password else address.username
    yield address._replace(netloc=f"{user}@127.0.0.1:{port}", query="sslmode=disable").geturl()
    server.close()
    await pooler.aclose()


@pytest.mark.parametrize("who_asks", ["through the pooler", "past it"])
async def test_a_live_run_behind_a_pooler_is_never_handed_over(
    pooled_url: str, postgres_url: str, namespace: str, who_asks: str
) -> None:
    one = PostgresLeases.from_url(pooled_url, namespace=namespace)
    other = PostgresLeases.from_url(
        pooled_url if who_asks == "through the pooler" else postgres_url, namespace=namespace
    )
    try:
        await one.create_schema()
        backend, asking = (part.backend for part in (one.part(), other.part()))
        holder: Any = backend
        await holder.ear.settled()
        assert holder.ear.pooled and not holder.hears and holder.ear.witness == ""
        name = f"{namespace}:kept"
        granted = await holder.acquire(replace(ask(name, "a"), handed_over=True), timeout=LONG)
        assert isinstance(granted, LeaseGranted)
        for _ in range(3):
            answer = await asking.acquire(ask(name, "b"), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.remaining > 60 - LONG > GONE_FOR
        renewed = await holder.renew(name, holder="a", token=granted.token, lease_ttl=60, timeout=LONG)
        assert renewed == Renewed()
        answer = await asking.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining > GONE_FOR
    finally:
        await one.aclose()
        await other.aclose()


async def test_with_listening_past_the_pooler_there_is_a_sign_of_life(
    pooled_url: str, postgres_url: str, namespace: str
) -> None:
    one = PostgresLeases.from_url(pooled_url, namespace=namespace, listen=postgres_url)
    other = PostgresLeases.from_url(pooled_url, namespace=namespace)
    try:
        await one.create_schema()
        holder: Any = one.part().backend
        asking = other.part().backend
        await until(lambda: bool(holder.ear.witness))
        name = f"{namespace}:kept"
        granted = await holder.acquire(replace(ask(name, "a"), handed_over=True), timeout=LONG)
        assert isinstance(granted, LeaseGranted)
        answer = await asking.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining > GONE_FOR
        # As the process's end would: its own connection goes, and nobody renews.
        await holder.ear.aclose()
        async with asyncio.timeout(LONG):
            while True:
                answer = await asking.acquire(ask(name, "b"), timeout=LONG)
                assert isinstance(answer, LeaseHeld)
                if answer.remaining <= GONE_FOR:
                    break
    finally:
        await one.aclose()
        await other.aclose()
