"""`CLIENT LIST` tells whose connections a server has."""

from __future__ import annotations

import pytest
import redis.asyncio

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.errors import StoreRefused
from stampede_guard.events import Event, Refused
from stampede_guard.leases import RedisLeases
from tests.support.gate import until

USER = ("reset", "on", ">hunter2", "~*", "&*", "+@all")


async def _seven() -> int:
    return 7


def named(server: ValkeyServer) -> list[str]:
    """The names of the connections to a server, without our own."""
    with server.client(decode_responses=True) as client:
        own = client.client_id()
        return [found["name"] for found in client.client_list() if int(found["id"]) != own]


async def use(guard: StampedeGuard) -> None:
    """All three of its connections: commands, a subscription, and renewals."""
    assert await guard.get_or_compute("k:1", _seven) == 7
    policy = guard.policy
    await guard.engine.runtime().session.renew(f"{guard.prefix}k", flight="f", token=1, policy=policy)


async def test_a_namespace_is_in_the_name_of_each_connection(own_valkey: ValkeyServer) -> None:
    async with StampedeGuard.from_url(own_valkey.url, namespace="shop.eu") as guard:
        await use(guard)
        assert named(own_valkey) == ["stampede_guard:shop.eu"] * 3
        await guard.within("tenant-7").get_or_compute("k:1", _seven)
        assert named(own_valkey) == ["stampede_guard:shop.eu"] * 3, "a tenant has no connections of its own"


@pytest.mark.parametrize("way", ["url", "client"])
async def test_another_name_is_the_user_s(way: str, own_valkey: ValkeyServer) -> None:
    client = redis.asyncio.Redis(port=own_valkey.port, client_name="mine")
    guard = (
        StampedeGuard.from_url(f"{own_valkey.url}?client_name=mine", namespace="shop")
        if way == "url"
        else StampedeGuard(client, namespace="shop")
    )
    async with guard:
        await use(guard)
        assert named(own_valkey) == ["mine"] * 3


async def test_connections_of_leases_have_a_name(own_valkey: ValkeyServer) -> None:
    leases = RedisLeases.from_url(own_valkey.url, namespace="shop", restart="trust")
    async with leases, leases.hold("nightly"):
        assert set(named(own_valkey)) == {"stampede_guard"}


async def test_those_to_the_masters_of_a_cluster_have_it(
    valkey_cluster: ValkeyCluster, namespace: str
) -> None:
    url = f"redis+cluster://127.0.0.1:{valkey_cluster.servers[0].port}"
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        for number in range(20):
            await guard.get_or_compute(f"k:{number}", _seven)
        for server in valkey_cluster.servers:
            assert named(server).count(f"stampede_guard:{namespace}") >= 2


class TestWithoutTheRight:
    async def test_all_works_and_nothing_is_said(
        self, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with own_valkey.client() as client:
            client.execute_command("ACL", "SETUSER", "shop", *USER, "-client|setname")
        events: list[Event] = []
        url = own_valkey.url.replace("//", "//shop:hunter2@")
        async with StampedeGuard.from_url(url, namespace="shop", hooks=(events.append,)) as guard:
            await use(guard)
            assert named(own_valkey) == [""] * 3
            with own_valkey.client() as client:
                client.client_kill_filter(_type="normal", skipme=True)
            await until(lambda: not guard.engine.runtime().session._lane.connected)  # type: ignore[attr-defined]
            assert await guard.get_or_compute("k:2", _seven) == 7
            assert (await guard.check_health()).status == "ok"
        assert not [record for record in caplog.records if record.name.startswith("stampede_guard")]
        assert not [event for event in events if isinstance(event, Refused)]

    async def test_a_name_that_was_asked_for_is_a_refusal(self, own_valkey: ValkeyServer) -> None:
        with own_valkey.client() as client:
            client.execute_command("ACL", "SETUSER", "shop", *USER, "-client|setname")
        url = own_valkey.url.replace("//", "//shop:hunter2@") + "?client_name=mine"
        async with StampedeGuard.from_url(url, namespace="shop") as guard:
            health = await guard.check_health()
            assert health.status == "refused" and "setname" in health.why
            with pytest.raises(StoreRefused):
                await guard.invalidate("k:1")


async def test_no_credential_is_in_a_name(own_valkey: ValkeyServer) -> None:
    with own_valkey.client() as client:
        client.execute_command("ACL", "SETUSER", "somebody", *USER)
    url = own_valkey.url.replace("//", "//somebody:hunter2@")
    async with StampedeGuard.from_url(url, namespace="shop") as guard:
        await use(guard)
        assert named(own_valkey) == ["stampede_guard:shop"] * 3
