"""A session on a cluster: the same scripts, each sent to the master that holds the entry.

All keys of an entry share a hash tag, so an entry lives on one master. A session makes three connections (see
`stores.connections.node`) to each master, when it first uses that master. Reads of one tick travel as one-key
scripts, pipelined per master. Replicas are never read. They are behind, and a fence on the master must hold for
every reader.

Each master has its own breaker. While one master is away, only its entries are away (`away_for`), and a question about
them needs no connection. An open breaker also makes the session look for a new map, until a master holds the slots.

A session has one inbox name and subscribes it on every master in use. `PUBSUB NUMSUB` in a script counts only the
subscribers of its own node. The cluster's bus carries each message to all nodes. The session uses the copy from the
node that holds the entry.
"""

from __future__ import annotations

import asyncio
import functools
import random
from contextvars import Context
from typing import TYPE_CHECKING, Any

from redis.exceptions import TryAgainError

from stampede_guard.core.breaker import PROBE_SECONDS
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Message
from stampede_guard.errors import StoreError, StoreMisconfigured, StoreRefused, StoreUnavailable
from stampede_guard.stores.connections.calls import CommandCall, ReadCall, Script, ScriptCall
from stampede_guard.stores.connections.inboxname import inbox_name
from stampede_guard.stores.connections.lane import LaneCall, stop
from stampede_guard.stores.connections.node import Node
from stampede_guard.stores.connections.replies import is_not_serving
from stampede_guard.stores.connections.route import Route
from stampede_guard.stores.connections.slots import Address, SlotMap, parse_slots, slot_of
from stampede_guard.stores.connections.wire import changes_channel
from stampede_guard.stores.introducing import client_name
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.scripted import ScriptedSession

if TYPE_CHECKING:
    from stampede_guard.stores.cluster import ClusterStore

__all__ = ["ClusterSession"]


class ClusterSession(ScriptedSession):
    """See `stores.protocol.Session`."""

    def __init__(self, store: ClusterStore, listener: Listener, *, namespace: str = "") -> None:
        super().__init__(deadline=store.deadline, listener=listener)
        self._store = store
        self._client_name = client_name(namespace)
        self._inbox_name = inbox_name(namespace)
        self._map: SlotMap | None = None
        self._nodes: dict[Address, Node] = {}
        self._away: set[Address] = set()
        self._doubted: set[Address] = set()
        self._lost: StoreError | None = None
        self._outdated = False
        self._waiting: list[tuple[Route, LaneCall]] = []
        self._settled = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._leaving: dict[Address, asyncio.Task[None]] = {}
        self._reads: dict[str, ReadCall] = {}

    # --- what is away ---------------------------------------------------------------------------

    @property
    def away(self) -> bool:
        if self._map is None:
            return self._lost is not None
        return not self._away.isdisjoint(self._map.masters)

    @property
    def trouble(self) -> StoreError | None:
        """The last failure of the part that is away."""
        if self._map is None:
            return self._lost
        return next((self._nodes[address].trouble for address in self._away if address in self._nodes), None)

    def away_for(self, name: str) -> bool:
        if self._map is None:
            return self._lost is not None
        return bool(self._away) and self._map.holder(slot_of(name)) in self._away

    def _breaker_changed(self, address: Address, away: bool) -> None:
        if self._closing:
            return
        if away:
            self._away.add(address)
            self._look()
        else:
            self._away.discard(address)
        if self._map is not None and address in self._map.masters:
            self._listener.breaker_changed(away=away, part=_text(address), why=self._node(address).why)

    # --- reads and scripts ----------------------------------------------------------------------

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        future: asyncio.Future[Reading | None] = self._loop.create_future()
        call = self._reads.get(name)
        if call is not None:
            call.waiting[name].append(future)
            return future
        route = Route(self, name)
        self._reads[name] = call = ReadCall(self._read_closed, route.send, route.again)
        call.waiting[name] = [future]
        route.send(call)
        return future

    def _read_closed(self, call: ReadCall) -> None:
        (name,) = call.waiting
        if self._reads.get(name) is call:
            del self._reads[name]

    async def _run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        route = Route(self, name, renewal=renewal)
        route.send(ScriptCall(script, script.keys_of(name), args, future, route.send, route.again))
        return await future

    async def _listen(self, name: str) -> None:
        if self._map is None:
            self._look()
            await self._settled.wait()
        node = self._holder(slot_of(name))
        if node is not None and not node.away:
            await node.inbox.ready()

    def _inbox_at(self, name: str) -> bytes:
        node = self._holder(slot_of(name))
        if node is None:
            return b""
        # After a failover the holder can receive messages again only when it listens at the new master.
        node.inbox.start()
        return node.inbox.confirmed_name.encode()

    def _heard(self, address: Address, name: str, message: Message) -> None:
        holder = self._holder(slot_of(name))
        if holder is None or holder is self._nodes.get(address) or not holder.inbox.confirmed_name:
            self._listener.heard(name, message)

    def hears_changes(self, name: str) -> bool:
        # Listen at the master of the entry, which publishes its changes. The cluster's bus may lose a message.
        if self._map is None:
            self._look()
            return False
        node = self._holder(slot_of(name))
        return node is not None and not node.away and node.inbox.watch(changes_channel(name))

    def _gap(self, address: Address) -> None:
        self._listener.gap()
        node = self._nodes.get(address)
        if node is not None and not node.inbox.confirmed_name and not self._closing:
            # A holder that computes sends no command for seconds. Its inbox must soon be confirmed where its lease is.
            self._doubted.add(address)
            self._look()

    # --- the way to a node ----------------------------------------------------------------------

    def _holder(self, slot: int) -> Node | None:
        address = None if self._map is None else self._map.holder(slot)
        return None if address is None or self._closing else self._node(address)

    def _node(self, address: Address) -> Node:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = Node(
                functools.partial(self._store.connect, address),
                client_name=self._client_name,
                deadline=self._deadline,
                inbox=self._inbox_name,
                on_message=functools.partial(self._heard, address),
                on_gap=functools.partial(self._gap, address),
                on_change=self._listener.changed,
                on_breaker=functools.partial(self._breaker_changed, address),
                not_serving=_is_not_serving,
                on_sample=self._answered_within(_text(address)),
            )
        return node

    def dispatch(self, route: Route, call: LaneCall) -> None:
        """See `stores.connections.route.Network`, also for the three methods below."""
        if self._closing:
            call.fail(StoreUnavailable("the store's session is closed"))
        elif self._map is None and self._lost is not None:
            call.fail(self._lost)
        elif self._map is None:
            self._waiting.append((route, call))
            self._look()
        else:
            self._send(route, call)

    def _send(self, route: Route, call: LaneCall) -> None:
        node = self._holder(route.slot)
        if node is None:
            self._look()
            call.fail(StoreUnavailable("no master of the cluster serves this entry's slot now"))
        elif node.away:
            call.fail(StoreUnavailable("the master that holds this entry is away"))
        else:
            node.asked_for = route.name
            (node.renewals if route.renewal else node.lane).send(call)

    def moved(self, slot: int, address: Address) -> None:
        # Other slots have probably moved as well.
        if self._map is not None:
            self._map.move(slot, self._told(slot, address))
        self._outdated = True
        self._look()

    def ask(self, route: Route, address: Address, call: LaneCall) -> None:
        node = self._node(self._told(route.slot, address))
        lane = node.renewals if route.renewal else node.lane
        permission: asyncio.Future[Any] = self._loop.create_future()
        permission.add_done_callback(lambda done: done.exception())
        lane.send(CommandCall([b"ASKING"], permission))
        lane.send(call)

    def unsettled(self) -> None:
        self._outdated = True
        self._look()

    def _told(self, slot: int, address: Address) -> Address:
        """An address in a redirection. One without a host is on the host that sent it."""
        host, port = address
        holder = None if host or self._map is None else self._map.holder(slot)
        told = (holder[0], port) if holder is not None else address
        return told if self._store.remap is None else self._store.remap(told)

    # --- the map --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Fetch the map soon, and again until nothing is wrong."""
        if self._looking is None and not self._closing:
            self._looking = self._loop.create_task(
                self._look_around(), name="stampede_guard cluster", context=Context()
            )

    async def _look_around(self) -> None:
        try:
            while True:
                self._outdated = False
                probing = asyncio.gather(*map(self._probe, (self._away | self._doubted) & self._masters))
                fetched = await self._fetch()
                await probing
                if isinstance(fetched, SlotMap):
                    self._adopt(fetched)
                elif self._map is None:
                    self._fail_waiting(fetched)
                self._settled.set()
                if self._map is None and self._lost is None:
                    # A node that refuses is not away. The next call asks again.
                    self._settled.clear()
                    return
                await asyncio.sleep(PROBE_SECONDS)
                if self._is_settled():
                    return
        except asyncio.CancelledError:
            # Of all tasks of the event loop, or of this one by `aclose`. Callers may go on and need the map.
            self._loop.call_later(PROBE_SECONDS, self._look)
            raise
        finally:
            self._looking = None

    def _is_settled(self) -> bool:
        # For a slot without a master, the next call that needs it starts a new look.
        if self._map is None or self._outdated or self._away:
            return False
        return not self._doubted & self._map.masters

    async def _probe(self, address: Address) -> None:
        if await self._node(address).probe():
            self._doubted.discard(address)

    @property
    def _masters(self) -> set[Address]:
        return set() if self._map is None else self._map.masters

    async def _fetch(self) -> SlotMap | StoreError:
        known = list(self._masters - self._away)
        seeds = list(self._store.seeds)
        random.shuffle(known)
        random.shuffle(seeds)
        failure: StoreError = StoreUnavailable("no node of the cluster can be reached")
        for address in dict.fromkeys([*known, *seeds, *self._away]):
            try:
                reply = await self._node(address).ask(b"CLUSTER", b"SLOTS")
                found = parse_slots(reply, asked=address, remap=self._store.remap)
                if found.masters:
                    return found
            except ValueError as error:
                failure = StoreRefused(str(error))
            except StoreRefused as error:
                failure = error
            except StoreUnavailable as error:
                if isinstance(failure, StoreUnavailable):
                    kind = StoreMisconfigured if isinstance(error, StoreMisconfigured) else StoreUnavailable
                    failure = kind(f"no node of the cluster can be reached: {error}")
        return failure

    def _adopt(self, fetched: SlotMap) -> None:
        before, self._map = self._map, fetched
        if self._lost is not None:
            self._lost = None
            self._listener.breaker_changed(away=False)
        for address in self._away & fetched.masters - (before.masters if before is not None else set()):
            self._listener.breaker_changed(away=True, part=_text(address))
        if before is not None:
            for address in fetched.masters - before.masters:
                # A promoted replica has leases that name our inbox. Subscribe there before it doubts them.
                self._node(address).inbox.start()
        for address in self._nodes.keys() - fetched.masters:
            if address in self._away and before is not None and address in before.masters:
                # Another master serves its entries now.
                self._listener.breaker_changed(away=False, part=_text(address))
            self._retire(address)
        waiting, self._waiting = self._waiting, []
        for route, call in waiting:
            self._send(route, call)

    def _fail_waiting(self, error: StoreError) -> None:
        """There is no map. A node that refuses is there. Otherwise the whole store is away."""
        lost = None if isinstance(error, StoreRefused) else error
        if (lost is None) != (self._lost is None):
            self._listener.breaker_changed(away=lost is not None, why=str(lost or ""))
        self._lost = lost
        waiting, self._waiting = self._waiting, []
        for _, call in waiting:
            call.fail(error)

    def _retire(self, address: Address) -> None:
        """This node holds no slot now. Calls that it has received may still be answered."""
        self._away.discard(address)
        if address not in self._leaving and not self._closing:
            self._leaving[address] = self._loop.create_task(self._leave(address))

    async def _leave(self, address: Address) -> None:
        await asyncio.sleep(2 * self._deadline)
        del self._leaving[address]
        if address not in self._masters:
            # From now on no message arrives from this node, not even for entries that it held.
            self._listener.gap()
            await self._nodes.pop(address).aclose()

    # --- the end --------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await super().aclose()
        for task in [self._looking, *self._leaving.values()]:
            await stop(task)
        self._settled.set()
        error = StoreUnavailable("the store's session is closed")
        for _, call in self._waiting:
            call.fail(error)
        await asyncio.gather(*[node.aclose() for node in self._nodes.values()])

    def abandon(self) -> None:
        super().abandon()
        for node in self._nodes.values():
            node.abandon()


def _is_not_serving(error: BaseException) -> bool:
    """A slot that moves between nodes does not count against the node."""
    return is_not_serving(error) and not isinstance(error, TryAgainError)


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
