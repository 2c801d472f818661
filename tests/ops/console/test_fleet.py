"""What a console knows of its fleet when servers die. No server runs: the clock and the connections are the test's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.ops.console import fleet as fleets
from stampede_guard.ops.console.fleet import (
    CHANGING,
    KEPT_SLOTS,
    MAP_SECONDS,
    SLOTS_AT_ONCE,
    WINDOW_SLOTS,
    Fleet,
    Reached,
)
from stampede_guard.ops.console.screens import keys
from stampede_guard.ops.fleet.searching import Wanted, search
from stampede_guard.ops.fleet.snapshot import Adding, snapshot
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.connections.slots import SLOTS, Address
from stampede_guard.stores.console.console import Console
from stampede_guard.stores.fleet.series import WATCHED

ONE, OTHER, REPLICA = (("node", port) for port in (1, 2, 3))
NOW = 10_000


class Nodes(ClusterStore):
    """A cluster of two masters and one replica. Each node answers as long as it is `alive`."""

    def __init__(self) -> None:
        super().__init__([ONE], {})
        self.alive = {ONE, OTHER, REPLICA}
        self.holders = [ONE, OTHER]
        self.maps = 0
        self.fields: Mapping[bytes, bytes] = {b"processes:": b"1"}
        self.asked: list[int] = []
        self.refused = 0
        self.silent: set[Address] = set()
        """Nodes that accept a connection, and answer nothing until `given_up`."""
        self.waiting: set[Address] = set()
        self.given_up = asyncio.Event()

    def connect(self, address: Address) -> Any:
        return Connection(self, address)

    def answer(self, command: Sequence[Any]) -> Any:
        match command[0]:
            case "CLUSTER":
                self.maps += 1
                part = SLOTS // len(self.holders)
                return [
                    [part * place, part * (place + 1) - 1, [host.encode(), port]]
                    for place, (host, port) in enumerate(self.holders)
                ]
            case "SCAN":
                return [b"0", []]
            case "TIME":
                return [NOW * WATCHED.seconds, 0]
            case _:
                return dict(self.fields)


class Connection:
    is_connected = True

    def __init__(self, nodes: Nodes, address: Address) -> None:
        self.nodes, self.address = nodes, address
        self.answers: list[Any] = []

    def pack_commands(self, commands: Any) -> Any:
        return commands

    async def send_packed_command(self, commands: Any, check_health: bool) -> None:
        if self.address not in self.nodes.alive:
            self.nodes.refused += 1
            raise OSError("connection refused")
        if self.address in self.nodes.silent:
            self.nodes.waiting.add(self.address)
            await self.nodes.given_up.wait()
            self.nodes.waiting.discard(self.address)
            raise OSError("no answer")
        self.nodes.asked.append(len(commands))
        self.answers = [self.nodes.answer(command) for command in commands]

    async def read_response(self, disable_decoding: bool) -> Any:
        return self.answers.pop(0)

    async def disconnect(self, nowait: bool = False) -> None:
        pass


class Opened(Fleet):
    """A fleet whose connections a test has opened."""

    def __init__(self, servers: Any, watch: Any = None) -> None:
        super().__init__(servers.store, "shop", clock=lambda: self.at)
        self.at = 1000.0
        watch = watch or SimpleNamespace(began=0.0)
        self.opened = self._open = Reached(servers, SimpleNamespace(), watch)  # type: ignore[arg-type]
        self.closed = 0

    async def reached(self) -> Reached:
        return self.opened

    async def aclose(self) -> None:
        self.closed += 1

    async def look_after(self, seconds: float) -> int:
        """How many slots are known then."""
        self.at += seconds
        return len(await self.slots())


async def test_a_promoted_replica_gives_the_figures_of_the_dead_master() -> None:
    nodes = Nodes()
    servers = await Console.open(nodes)
    fleet, kept = Opened(servers), servers.masters[0]
    nodes.alive.discard(OTHER)
    assert 0 < await fleet.look_after(0) < KEPT_SLOTS
    assert await fleet.look_after(1) < KEPT_SLOTS, "the cluster has not promoted the replica yet"
    nodes.holders = [ONE, REPLICA]
    maps = nodes.maps
    assert await fleet.look_after(1) < KEPT_SLOTS
    assert nodes.maps == maps, "the map was read a second ago"
    assert await fleet.look_after(MAP_SECONDS) == KEPT_SLOTS
    assert not servers.unreached
    assert servers.masters[0] is kept, "other pages may wait for an answer of this connection"
    maps = nodes.maps
    await fleet.look_after(MAP_SECONDS)
    assert nodes.maps == maps


async def test_the_map_comes_from_a_known_master_when_the_given_address_is_dead() -> None:
    nodes = Nodes()
    servers = await Console.open(nodes)
    nodes.alive.discard(ONE)
    nodes.holders = [REPLICA, OTHER]
    await servers.slots_of("shop", WATCHED, range(50))
    await servers.renew()
    assert len(await servers.slots_of("shop", WATCHED, range(50))) == 50


async def test_figures_of_the_other_masters_stay_while_no_node_gives_the_map() -> None:
    nodes = Nodes()
    servers = await Console.open(nodes)
    fleet = Opened(servers)
    nodes.alive.discard(OTHER)
    found = await fleet.look_after(0)
    nodes.holders = [("node", 70_000)] * 2  # of no shape that a map has
    assert await fleet.look_after(MAP_SECONDS) == found
    assert servers.unreached


async def test_a_stream_that_cannot_be_read_opens_the_connections_anew() -> None:
    async def happened(*, most: int) -> list[Any]:
        raise StoreUnavailable("dead")

    fleet = Opened(SimpleNamespace(store=None), SimpleNamespace(happened=happened))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await fleet.happened()
    assert fleet.closed == 1, "the second page must not close what the first one opened anew"


async def test_the_slots_of_ten_minutes_are_read_in_small_parts() -> None:
    nodes = Nodes()
    fleet = Opened(await Console.open(nodes))
    assert await fleet.look_after(0) == KEPT_SLOTS
    assert max(nodes.asked) <= SLOTS_AT_ONCE
    nodes.asked.clear()
    await fleet.look_after(1)
    assert sum(nodes.asked) == 1 + CHANGING, "the time, and the slots that may have changed"


async def test_a_master_that_does_not_answer_is_asked_once_per_look() -> None:
    nodes = Nodes()
    fleet = Opened(await Console.open(nodes))
    nodes.alive.discard(OTHER)
    found = await fleet.look_after(0)
    assert 40 < found < 80 and nodes.refused == 1
    await fleet.look_after(1)
    assert nodes.refused == 2


async def test_slots_that_were_fetched_again_unchanged_are_not_counted_again() -> None:
    nodes = Nodes()
    fleet = Opened(await Console.open(nodes))
    seen = await fleet.now()
    fleet.at += 1
    assert await fleet.now() is seen
    nodes.fields = {b"processes:": b"2"}
    fleet.at += 1
    assert (await fleet.now()).processes == 2


async def test_between_two_slots_the_event_loop_does_other_things(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = [0]
    counted: list[int] = []

    async def others() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    def count(slots: Any, **options: Any) -> Any:
        counted.extend(turns * len(slots))
        return snapshot(slots, **options)

    monkeypatch.setattr(fleets, "snapshot", count)
    fleet = Opened(await Console.open(Nodes()))
    await fleet.slots()
    other = asyncio.create_task(others())
    await fleet.now()
    other.cancel()
    assert len(counted) == len(set(counted)) == WINDOW_SLOTS


def test_slots_that_are_added_up_one_by_one_give_the_same_as_all_at_once() -> None:
    slots = {
        slot: {
            b"hits:a": b"1",
            b"took2:b:%d" % slot: b"3",
            b"processes:": b"%d" % slot,
            **{b"hot:a\n%d" % key: b"%d" % (key * slot) for key in range(1, 40)},
        }
        for slot in range(1, 7)
    }
    for window in (slots, {}, {1: slots[1], 2: {}}):
        adding = Adding()
        for slot, fields in window.items():
            adding.add(snapshot({slot: fields}))
        assert adding.sum == snapshot(window)


async def test_the_time_comes_from_another_master_when_the_first_one_is_dead() -> None:
    nodes = Nodes()
    servers = await Console.open(nodes)
    fleet = Opened(servers)
    nodes.alive.discard(ONE)
    assert 0 < await fleet.look_after(0) < KEPT_SLOTS
    assert servers.masters[0].address in servers.unreached
    nodes.alive.discard(OTHER)
    with pytest.raises(StoreUnavailable):
        await servers.now()


@pytest.mark.parametrize("looks", ["page", "names", "namespaces", "now"])
async def test_times_of_waiting_for_silent_masters_do_not_add_up(looks: str) -> None:
    nodes = Nodes()
    nodes.alive |= {("node", port) for port in range(1, 5)}
    nodes.holders = [("node", port) for port in range(1, 5)]
    servers = await Console.open(nodes)
    nodes.silent = {("node", port) for port in range(1, 4)}

    async def look() -> None:
        match looks:
            case "page":
                await search(servers, "shop", Wanted())
            case "names":
                _ = [name async for name in servers.names("shop")]
            case "namespaces":
                await servers.namespaces()
            case _:
                await servers.now()

    looking = asyncio.create_task(look())
    rounds = 0
    while not looking.done():
        if nodes.waiting:
            rounds += 1
            given_up, nodes.given_up = nodes.given_up, asyncio.Event()
            given_up.set()
        for _ in range(20):
            await asyncio.sleep(0)
    await looking
    assert rounds <= 2, "the first one, and then the others at once"
    assert len(servers.unreached) == 3


async def test_an_action_on_a_function_says_which_masters_did_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def all_of(steps: Any, names: list[str], namespace: str) -> int:
        return len(names)

    async def of_function(console: Console, namespace: str, name: str, most: int) -> list[str]:
        return [f"{namespace}:{name}:7", *[one async for one in console.names(namespace)]]

    monkeypatch.setattr(keys, "dropped", all_of)
    monkeypatch.setattr(keys, "of_function", of_function)
    nodes = Nodes()
    servers = await Console.open(nodes)
    fleet = Opened(servers)
    servers.unreached["of an earlier page"] = StoreUnavailable("gone")
    asked = {"function": "shop.quality"}
    assert "did not answer" not in await keys.invalidate_function(fleet, asked)
    nodes.alive.discard(OTHER)
    said = await keys.invalidate_function(fleet, asked)
    assert said.endswith("node:2 did not answer, so do it again: its entries are as before.")


async def test_old_slots_share_the_names_of_functions_and_keep_no_hottest_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fleet with a thousand functions has 12,000 fields in each of 120 slots."""
    nodes = Nodes()
    fleet = Opened(await Console.open(nodes))
    numbers = {b"hits:shop.f%d" % number: b"12345" for number in range(20)}
    of_now = {b"hot:f\n#1": b"1", b"runs:f\non": b"1"}
    nodes.fields = numbers | of_now | {b"policy:f\n{}": b"1"}
    await fleet.slots()
    await fleet.totals()
    newest = max(fleet._slots)
    thin = {name: number for name, number in nodes.fields.items() if name not in of_now}
    for slot, fields in fleet._slots.items():
        assert fields == (nodes.fields if slot > newest - WINDOW_SLOTS else thin)
    old = [fields for slot, fields in fleet._slots.items() if slot <= newest - WINDOW_SLOTS]
    assert len({id(text) for fields in old for pair in fields.items() for text in pair}) < 50

    counted: list[int] = []

    def count(slots: Any, **options: Any) -> Any:
        counted.extend(slots)
        return snapshot(slots, **options)

    monkeypatch.setattr(fleets, "snapshot", count)
    monkeypatch.setattr(sys.modules[__name__], "NOW", NOW + 3)
    fleet.at += 15
    await fleet.totals()
    assert fleet._slots[newest - WINDOW_SLOTS + 1] == thin
    assert min(counted) > newest, "a slot that is kept in another form is not counted again"
