"""What a cluster does to a session: slots that move, masters that die, a map that is not to be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer, free_port
from stampede_guard import StampedeGuard
from stampede_guard.core.scripts import Granted, Held
from stampede_guard.errors import StoreUnavailable, WrongTopology
from stampede_guard.policy import Policy
from stampede_guard.stores.clustersession import ClusterSession
from stampede_guard.stores.connections.slots import slot_of
from stampede_guard.stores.protocol import Session
from stampede_guard.stores.urls.addresses import cluster_from_url
from tests.support.listener import PATIENCE, RecordingListener
from tests.support.sessions import Sessions

POLICY = Policy(ttl=60, lease_ttl=20)
LONG = 10.0
SHORT = 0.3

Open = Callable[..., tuple[ClusterSession, RecordingListener]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ValkeyCluster]:
    """Three masters of this module alone: its tests move slots and kill. Those that live go on serving."""
    with ValkeyCluster(options={"cluster-require-full-coverage": "no"}) as started:
        yield started


@pytest.fixture
async def open_on(namespace: str) -> AsyncIterator[Open]:
    opened: list[ClusterSession] = []

    def open_session(url: str, *, deadline: float = LONG) -> tuple[ClusterSession, RecordingListener]:
        listener = RecordingListener()
        store = cluster_from_url(f"{url}?client_name={namespace}")
        store.deadline = deadline
        opened.append(store.open_session(listener))
        return opened[-1], listener

    yield open_session
    for session in opened:
        await session.aclose()


def told(server: ValkeyServer, *command: Any) -> Any:
    with server.client(socket_timeout=5.0) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)


def one_name_per_master(cluster: ValkeyCluster, namespace: str) -> list[str]:
    found: dict[int, str] = {}
    for number in range(1000):
        found.setdefault(cluster.master_of(f"{namespace}:{number}").port, f"{namespace}:{number}")
        if len(found) == cluster.masters:
            break
    return list(found.values())


async def grant(session: Session, name: str, flight: str = "holder") -> Granted:
    answer = await session.acquire(name, flight=flight, policy=POLICY)
    assert isinstance(answer, Granted), answer
    return answer


async def publish(session: ClusterSession, name: str, granted: Granted, body: bytes = b"body") -> bool:
    return await session.publish(
        name, flight="holder", grant=granted, outcome="value", body=body, policy=POLICY
    )


async def body(session: ClusterSession, name: str) -> bytes | None:
    reading = await session.read(name)
    return None if reading is None else reading.body


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that no event tells of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Move:
    """An entry's slot on its way from its master to another, step by step, as resharding by hand does it."""

    def __init__(self, cluster: ValkeyCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.slot = slot_of(name)
        self.source = cluster.master_of(name)
        self.target = next(server for server in cluster.servers if server is not self.source)
        self._ids = {server.port: told(server, "CLUSTER", "MYID").decode() for server in cluster.servers}

    def begin(self) -> None:
        told(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", self._ids[self.source.port])
        told(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._ids[self.target.port])

    def carry_keys(self) -> None:
        for key in told(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, 1000):
            told(self.source, "MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000)

    def end(self) -> None:
        for server in (self.target, self.source, *self.cluster.servers):
            told(server, "CLUSTER", "SETSLOT", self.slot, "NODE", self._ids[self.target.port])

    def whole(self) -> None:
        self.begin()
        self.carry_keys()
        self.end()


class TestSlotsThatMove:
    async def test_what_has_moved_is_found_where_it_is_and_looked_for_there_from_then_on(
        self, cluster: ValkeyCluster, open_on: Open, name: str
    ) -> None:
        session, _ = open_on(cluster.url)
        granted = await grant(session, name)
        await publish(session, name, granted, b"first")
        move = Move(cluster, name)
        before = redirections(move.source)
        move.whole()
        assert await body(session, name) == b"first"
        assert await session.invalidate(name, policy=POLICY) > granted.token
        again = await grant(session, name)
        assert await session.renew(name, flight="holder", token=again.token, policy=POLICY)
        assert await publish(session, name, again, b"second")
        assert await body(session, name) == b"second"
        await until(lambda: session._looking is None)
        assert redirections(move.source) == before + 1

    async def test_a_key_that_went_ahead_is_asked_for_at_the_new_master_for_this_once(
        self, cluster: ValkeyCluster, open_on: Open, name: str
    ) -> None:
        session, _ = open_on(cluster.url)
        await publish(session, name, await grant(session, name))
        move = Move(cluster, name)
        move.begin()
        move.carry_keys()
        assert await body(session, name) == b"body"
        assert session._map is not None and session._map.holder(move.slot) == ("127.0.0.1", move.source.port)
        move.end()
        assert await body(session, name) == b"body"

    async def test_a_command_on_several_keys_of_a_moving_slot_is_tried_again_and_then_given_up(
        self, cluster: ValkeyCluster, open_on: Open, name: str
    ) -> None:
        session, listener = open_on(cluster.url)
        await publish(session, name, await grant(session, name))
        move = Move(cluster, name)
        move.begin()
        with pytest.raises(StoreUnavailable, match="cannot serve now"):
            await session.invalidate(name, policy=POLICY)
        assert listener.breaker == [] and not session.away_for(name), "nothing is wrong with the server"
        trying = asyncio.ensure_future(session.invalidate(name, policy=POLICY))
        move.carry_keys()
        move.end()
        assert await trying
        assert await body(session, name) is None

    async def test_a_waiter_is_woken_once_wherever_the_entry_is_by_then(
        self, cluster: ValkeyCluster, open_on: Open, namespace: str
    ) -> None:
        (one, _), (other, heard) = open_on(cluster.url), open_on(cluster.url)
        names = one_name_per_master(cluster, namespace)
        grants = {name: await grant(one, name) for name in names}
        for name in names:
            assert isinstance(await other.acquire(name, flight="waiter", policy=POLICY), Held)
        for name in names:
            await publish(one, name, grants[name])
        for name in names:
            await heard.message(name)
        assert [len(heard.about(name)) for name in names] == [1, 1, 1]
        last = names[0]
        granted = await grant(one, last + "}again")
        assert isinstance(await other.acquire(last + "}again", flight="waiter", policy=POLICY), Held)
        Move(cluster, last + "}again").whole()
        await publish(one, last + "}again", granted)
        assert (await heard.message(last + "}again")).token == granted.token


class TestConnections:
    async def test_three_per_master_in_use_and_none_elsewhere(
        self, cluster: ValkeyCluster, open_on: Open, namespace: str
    ) -> None:
        session, _ = open_on(cluster.url, deadline=SHORT)
        names = one_name_per_master(cluster, namespace)

        def connections() -> list[int]:
            return sorted(
                told(server, "CLIENT", "LIST").decode().count(f"name={namespace}")
                for server in cluster.servers
            )

        granted = await grant(session, names[0])
        await session.renew(names[0], flight="holder", token=granted.token, policy=POLICY)
        await until(lambda: sum(connections()) <= 4)  # the map may have come from another node
        for name in names:
            granted = await grant(session, name)
            await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert connections() == [3, 3, 3]

    async def test_reads_of_one_tick_are_one_script_per_entry(
        self, cluster: ValkeyCluster, open_on: Open, namespace: str
    ) -> None:
        session, _ = open_on(cluster.url)
        names = [f"{namespace}:{number}" for number in range(50)]
        assert await asyncio.gather(*map(session.read, names)) == [None] * 50
        before = sum(calls_of("evalsha", server) for server in cluster.servers)
        assert await asyncio.gather(*map(session.read, [*names, *names])) == [None] * 100
        assert sum(calls_of("evalsha", server) for server in cluster.servers) - before == 50

    async def test_a_server_that_forgot_its_scripts_is_told_them_again(
        self, cluster: ValkeyCluster, open_on: Open, name: str
    ) -> None:
        session, _ = open_on(cluster.url)
        await publish(session, name, await grant(session, name))
        for server in cluster.servers:
            told(server, "SCRIPT", "FLUSH")
        assert await body(session, name) == b"body"
        assert await session.invalidate(name, policy=POLICY)


def redirections(server: ValkeyServer) -> int:
    for line in told(server, "INFO", "errorstats").decode().splitlines():
        if line.startswith("errorstat_MOVED:count="):
            return int(line.partition("=")[2])
    return 0


def calls_of(command: str, server: ValkeyServer) -> int:
    """Refused ones included."""
    for line in told(server, "INFO", "commandstats").decode().splitlines():
        if line.startswith(f"cmdstat_{command}:"):
            fields = dict(part.split("=") for part in line.partition(":")[2].split(","))
            return int(fields["calls"]) + int(fields["rejected_calls"])
    return 0


class TestMastersThatDie:
    async def test_only_the_dead_ones_entries_are_away_and_it_is_taken_back(
        self, open_on: Open, namespace: str
    ) -> None:
        options = {"cluster-require-full-coverage": "no"}
        with ValkeyCluster(options=options) as cluster:
            session, listener = open_on(cluster.url)
            names = one_name_per_master(cluster, namespace)
            for name in names:
                await grant(session, name)
            dead = cluster.master_of(names[0])
            dead.kill()
            await listener.until(lambda heard: heard.breaker == [True])
            assert [session.away_for(name) for name in names] == [True, False, False]
            assert session.away
            with pytest.raises(StoreUnavailable, match="is away"):
                await session.read(names[0])
            assert [await body(session, name) for name in names[1:]] == [None, None]
            dead.start()
            await listener.until(lambda heard: heard.breaker == [True, False])
            assert await session.invalidate(names[0], policy=POLICY)

    async def test_a_cluster_that_is_down_is_away_until_it_is_not(
        self, open_on: Open, namespace: str
    ) -> None:
        with ValkeyCluster() as cluster:
            session, listener = open_on(cluster.url)
            names = one_name_per_master(cluster, namespace)
            for name in names:
                await grant(session, name)
            dead = cluster.master_of(names[0])
            dead.kill()
            await until(lambda: b"cluster_state:fail" in told(cluster.master_of(names[1]), "CLUSTER", "INFO"))
            with pytest.raises(StoreUnavailable):
                while True:
                    await session.read(names[1])
            await until(lambda: session.away_for(names[1]))
            # The probe asks for a key: a script without one is answered by a cluster that is down, too.
            changes, probes = len(listener.breaker), calls_of("eval", cluster.master_of(names[1]))
            await until(lambda: calls_of("eval", cluster.master_of(names[1])) >= probes + 3)
            assert session.away_for(names[1]) and len(listener.breaker) == changes
            dead.start()
            await until(lambda: not any(map(session.away_for, names)))
            assert await session.invalidate(names[1], policy=POLICY)


class TestNoMap:
    async def test_where_nobody_answers_the_store_is_away(self, open_on: Open, name: str) -> None:
        session, listener = open_on(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{free_port()}")
        with pytest.raises(StoreUnavailable, match="no node of the cluster"):
            await session.read(name)
        assert session.away and session.away_for(name) and listener.breaker == [True]
        assert "Connect call failed" in listener.why[0]
        with pytest.raises(StoreUnavailable):
            await session.acquire(name, flight="f", policy=POLICY)

    async def test_it_is_found_when_it_comes(self, open_on: Open, cluster: ValkeyCluster, name: str) -> None:
        session, listener = open_on(f"redis+cluster://127.0.0.1:{free_port()}")
        with pytest.raises(StoreUnavailable):
            await session.read(name)
        session._store.seeds = (("127.0.0.1", cluster.servers[0].port),)
        await listener.until(lambda heard: heard.breaker == [True, False])
        assert await session.read(name) is None and not session.away

    async def test_a_seed_that_is_dead_costs_nobody_anything(
        self, open_on: Open, cluster: ValkeyCluster, name: str
    ) -> None:
        session, listener = open_on(f"{cluster.url},127.0.0.1:{free_port()}")
        assert await session.read(name) is None
        assert listener.breaker == []

    async def test_a_server_that_is_no_cluster_says_so(
        self, open_on: Open, own_valkey: ValkeyServer, name: str
    ) -> None:
        session, listener = open_on(f"redis+cluster://127.0.0.1:{own_valkey.port}")
        for _ in range(2):
            with pytest.raises(WrongTopology, match=r"not a node of a cluster: write redis:// .* place of"):
                await session.read(name)
        assert listener.breaker == [] and not session.away

    async def test_a_node_of_a_cluster_asked_as_if_it_were_alone_says_so(
        self, cluster: ValkeyCluster, namespace: str, sessions: Sessions
    ) -> None:
        session, listener = sessions.open(f"redis://127.0.0.1:{cluster.servers[0].port}")
        answers = []
        for name in one_name_per_master(cluster, namespace):
            try:
                answers.append(await session.read(name))
                await grant(session, name)
            except WrongTopology as error:
                assert "node of a cluster" in str(error) and "write redis+cluster://" in str(error)
                with pytest.raises(WrongTopology):
                    await grant(session, name)
                with pytest.raises(WrongTopology):
                    await session.invalidate(name, policy=POLICY)
        assert answers == [None], "its own entries only"
        together = [session.read(name) for name in one_name_per_master(cluster, namespace)]
        with pytest.raises(WrongTopology):
            await asyncio.gather(*together)
        assert listener.breaker == [] and not session.away

    async def test_either_is_logged_once_and_no_caller_sees_it(
        self, cluster: ValkeyCluster, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def value() -> str:
            return "value"

        for url in (
            f"redis+cluster://127.0.0.1:{own_valkey.port}",
            f"redis://127.0.0.1:{cluster.servers[0].port}",
        ):
            caplog.clear()
            async with StampedeGuard.from_url(url) as guard:
                for number in range(20):
                    assert await guard.get_or_compute(f"k:{number}", value) == "value"
                with pytest.raises(WrongTopology):
                    for number in range(20):
                        await guard.invalidate(f"k:{number}")
            lines = [record for record in caplog.records if record.levelname == "ERROR"]
            assert len(lines) == 1 and "cluster" in lines[0].getMessage()

    async def test_what_waits_for_the_map_ends_with_the_session(
        self, open_on: Open, own_valkey: ValkeyServer, name: str
    ) -> None:
        own_valkey.pause()
        session, _ = open_on(f"redis+cluster://127.0.0.1:{own_valkey.port}")
        reading = session.read(name)
        asking = asyncio.ensure_future(session.acquire(name, flight="f", policy=POLICY))
        await asyncio.sleep(0)
        await session.aclose()
        for pending in (reading, asking):
            with pytest.raises(StoreUnavailable, match="closed"):
                await pending
