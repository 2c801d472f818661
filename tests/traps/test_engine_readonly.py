"""A master that became a read-only replica: it is there, answers reads, and brings nothing back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import Policy, StampedeGuard
from stampede_guard.core.entry import Reading
from stampede_guard.errors import StoreRefused
from stampede_guard.stores.connections.lane import LEAVE_SECONDS
from tests.support.asking import POLICY
from tests.support.gate import soon, until
from tests.support.proxy import FaultProxy
from tests.support.sessions import Sessions, warm

LONG = Policy(ttl=600.0)


class Source:
    def __init__(self) -> None:
        self.number = 1
        self.computed = 0

    async def read(self) -> int:
        self.computed += 1
        return self.number


@pytest.fixture
def second_valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


def demote(server: ValkeyServer, *, master: int = 1) -> None:
    with server.client() as operator:
        operator.execute_command("REPLICAOF", "127.0.0.1", master)


def promote(server: ValkeyServer) -> None:
    with server.client() as operator:
        operator.execute_command("REPLICAOF", "NO", "ONE")


async def test_what_another_process_has_invalidated_is_served_by_no_replica(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    source, keys = Source(), [f"report:{number}" for number in range(8)]
    here = StampedeGuard.from_url(own_valkey.url, namespace=namespace, policy=LONG)
    there = StampedeGuard.from_url(own_valkey.url, namespace=namespace, policy=LONG)
    async with here, there:
        for key in keys:
            assert await here.get_or_compute(key, source.read) == 1
        source.number = 2
        for key in keys:
            assert await there.invalidate(key) == "done"
        demote(own_valkey)
        for key in keys:
            assert await soon(here.get_or_compute(key, source.read)) == 2, "its reads are answered"
        assert not here.engine.runtime().away, "a server that answers is not away"
        assert here.health().status == "full"
        source.number = 3
        for key in keys:
            assert await soon(here.invalidate(key)) == "pending"
        for _ in range(3):
            for key in keys:
                assert await soon(here.get_or_compute(key, source.read)) == 3
        assert source.computed == 3 * len(keys), (
            "what is computed meanwhile counts until the next invalidation"
        )
        promote(own_valkey)
        await until(lambda: not here.engine.runtime().away)
        assert await soon(there.get_or_compute(keys[0], source.read)) == 3
        assert source.computed == 3 * len(keys) + 1
        assert await soon(here.get_or_compute("another", source.read)) == 3
        assert here.health().ok, "its leases are granted again, too"


async def test_the_first_command_that_a_demoted_master_refuses_finds_the_new_one(
    own_valkey: ValkeyServer, second_valkey: ValkeyServer, namespace: str
) -> None:
    source = Source()
    async with (
        FaultProxy(own_valkey.port) as proxy,
        StampedeGuard.from_url(proxy.url, namespace=namespace, policy=LONG) as guard,
    ):
        assert await guard.get_or_compute("known", source.read) == 1
        demote(own_valkey)
        proxy.target = second_valkey.port
        assert await soon(guard.invalidate("known")) == "done", "the name leads to another server by now"
        assert await soon(guard.get_or_compute("new", source.read)) == 1
        with second_valkey.client() as operator:
            assert operator.dbsize() > 0
        assert guard.health().ok


async def test_who_leaves_a_replica_loses_no_answer_and_does_not_connect_without_end(
    own_valkey: ValkeyServer, sessions: Sessions, namespace: str
) -> None:
    name = f"{namespace}:entry"
    async with FaultProxy(own_valkey.port) as proxy:
        session, listener = sessions.open(proxy.url)
        await warm(session, name)
        demote(own_valkey)
        before = proxy.accepted
        began = asyncio.get_running_loop().time()
        for _ in range(50):
            asked = [session.invalidate(name, policy=POLICY), session.read(name), session.read(name + "-new")]
            refused, known, new = await soon(asyncio.gather(*asked, return_exceptions=True))
            assert isinstance(refused, StoreRefused) and refused.may_pass and refused.kind == "writes"
            assert isinstance(known, Reading) and new is None
        most = 1 + (asyncio.get_running_loop().time() - began) / LEAVE_SECONDS
        assert 1 <= proxy.accepted - before <= most + 1
        assert not session.away and listener.breaker == []
        promote(own_valkey)
        assert await soon(session.invalidate(name, policy=POLICY)) > 0
