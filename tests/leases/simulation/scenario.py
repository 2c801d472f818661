"""One seed: some nodes that stand for election, hold and run exclusively, while things go wrong; then all is healed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from stampede_guard.errors import LeaseLost, LeaseTaken, StoreError
from stampede_guard.leases.client import Leases
from stampede_guard.leases.core import grants
from stampede_guard.leases.election import Election
from stampede_guard.leases.exclusive import Overlap
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.messages import Owner
from tests.leases.simulation.loop import VirtualLoop
from tests.leases.simulation.nodes import Node
from tests.leases.simulation.store import LATEST, Network, SimulatedBackend, Store

__all__ = ["Broken", "Scenario", "play"]

TTL = 3.0
POLL = 0.5
FAULTY = 20.0
"""Seconds in which things go wrong."""
LEADS_WITHIN = TTL + 1.0
"""After healing, and the pause of who has resigned just then."""
HOLDS: tuple[dict[str, Any], ...] = (
    {"wait": 0.0},
    {"wait": 2.0},
    {"wait": 8.0, "at_least_for": 1.0},
)
OVERLAPS: tuple[Overlap, ...] = ("skip", "queue", "replace")


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass
class Process:
    """A node, and the real code on it."""

    node: Node
    backend: SimulatedBackend
    leases: Leases
    election: Election
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)


class Scenario:
    def __init__(self, seed: int, loop: VirtualLoop, *, nodes: int = 3) -> None:
        self.chance = Random(seed)
        self.loop = loop
        self.store = Store(loop, longest_ttl=TTL)
        self.store.on_granted = self._granted
        self.store.on_freed = self._freed
        self.store.on_called = self._called
        self.store.on_renewed = self._renewed
        self.network = Network(self.chance)
        self.processes: list[Process] = []
        self.journal: list[str] = []
        self.keepers: list[tuple[Node, Keeper]] = []
        self.highest: dict[str, int] = {}
        self.accepted: dict[str, int] = {}
        self.failures: list[str] = []
        self.counts = {"granted": 0, "led": 0, "held": 0, "writes": 0, "lost": 0}
        self.healed_at = 0.0
        self.led_after = 0.0
        # One that forgets everything and whose clock is set back has nothing left for tokens to go on from.
        self.forgets = self.chance.random() < 0.5
        self._born = 0
        self._count = nodes

    def note(self, text: str) -> None:
        self.journal.append(f"{self.loop.time() - 1_000:9.4f}  {text}")

    # --- invariants

    def broken(self, text: str) -> Broken:
        """Kept as well: it may be raised where the real code catches it, or in a callback of the loop."""
        self.note(f"BROKEN: {text}")
        self.failures.append(text)
        return Broken(text)

    def _granted(self, name: str, holder: str, token: int) -> None:
        self.note(f"store grants {name} to {holder}, token {token}")
        self.counts["granted"] += 1
        if token <= self.highest.get(name, 0):
            raise self.broken(f"token {token} of {name} is not greater than {self.highest[name]}")
        self.highest[name] = token
        # Belief ends before the store's expiry, so when it grants anew nobody may believe, paused or not.
        for node, keeper in self.keepers:
            if keeper.name == name and keeper.holder != holder and self._believes(node, keeper):
                raise self.broken(f"{holder} is granted {name} while {keeper.holder} still believes")

    def _renewed(self, name: str) -> None:
        row = self.store.row(name)
        if row.holder and row.token != self.highest.get(name):
            raise self.broken(
                f"{name} is held under token {row.token} after {self.highest.get(name)} was granted"
            )

    def _believes(self, node: Node, keeper: Keeper) -> bool:
        return not node.dead and keeper.remaining() > 0

    def check_believers(self) -> None:
        believing: dict[str, str] = {}
        self.keepers = [one for one in self.keepers if not one[0].dead and not one[1].given_back]
        for node, keeper in self.keepers:
            if not self._believes(node, keeper):
                continue
            other = believing.setdefault(keeper.name, keeper.holder)
            if other != keeper.holder:
                raise self.broken(f"{other} and {keeper.holder} both believe to hold {keeper.name}")
            self._check_expiry(node, keeper)

    def _check_expiry(self, node: Node, keeper: Keeper) -> None:
        """Belief ends before the store gives the lease to others, whatever happens from now on."""
        row, now = self.store.row(keeper.name), self.loop.time()
        if (row.holder, row.token) == (keeper.holder, keeper.token):
            expiry = now + row.deadline - self.store.now()
        elif self.store.up:
            # It has forgotten, and therefore grants nothing for a while.
            expiry = self.store.withheld_until
        else:
            return
        belief = node.virtual(node.now() + keeper.remaining())
        if belief > expiry + 1e-6:
            raise self.broken(
                f"{keeper.holder} believes to hold {keeper.name} for {belief - expiry:.3f} s longer than the store"
            )

    # --- what processes do

    async def work(self, node: Node, lease: Lease, steps: int) -> None:
        """Look, then do: a write takes time to arrive, and is held against the fence there."""
        self.keepers.append((node, lease._keeper))
        self.check_believers()
        for _ in range(steps):
            await node.sleep(self.chance.uniform(0.05, 0.5))
            self.check_believers()
            if lease.remaining() == 0:
                # It may have stood still. Else it would have been told before.
                if node.resumed_at < self.loop.time():
                    raise self.broken(f"{lease.name}: the body of {node.name} goes on without a lease")
                continue
            after = self.network.delay()
            if after is not None:
                self.loop.call_later(after, self._write, lease.name, lease._keeper.holder, lease.token)

    def _write(self, name: str, holder: str, token: int) -> None:
        row = self.store.row(name)
        if not self.store.up or (row.holder, row.token) != (holder, token):
            return
        if self.store.now() >= row.deadline:
            return
        self.counts["writes"] += 1
        if token < self.accepted.get(name, 0):
            raise self.broken(f"a write with token {token} of {name} is accepted after {self.accepted[name]}")
        self.accepted[name] = token

    async def lead(self, node: Node, lease: Lease) -> None:
        self.counts["led"] += 1
        self.note(f"{node.name} leads, token {lease.token}")
        await self.work(node, lease, 10**9)

    async def hold_now_and_then(self, process: Process) -> None:
        node = process.node
        while True:
            await node.sleep(self.chance.uniform(0.1, 3.0))
            options = self.chance.choice(HOLDS)
            with self._outcomes(node):
                async with process.leases.hold("held", TTL, poll_every=POLL, **options) as lease:
                    self.counts["held"] += 1
                    self.note(f"{node.name} holds, token {lease.token}")
                    await self.work(node, lease, self.chance.randint(0, 20))
                self.note(f"{node.name} has held")

    async def run_now_and_then(self, process: Process) -> None:
        node = process.node
        while True:
            await node.sleep(self.chance.uniform(0.1, 3.0))
            exclusive = process.leases.run_exclusive(
                "exclusive",
                overlap=self.chance.choice(OVERLAPS),
                wait=4.0,
                lease_ttl=TTL,
                poll_every=POLL,
            )

            async def body() -> None:
                from stampede_guard.leases.exclusive import current_lease

                lease = current_lease()
                assert lease is not None
                await self.work(node, lease, self.chance.randint(0, 15))

            with self._outcomes(node):
                await exclusive.run(body)

    @contextlib.contextmanager
    def _outcomes(self, node: Node) -> Iterator[None]:
        try:
            yield
        except LeaseLost as error:
            self.counts["lost"] += 1
            self.note(f"{node.name}: {error}")
        except (LeaseTaken, StoreError) as error:
            self.note(f"{node.name}: {type(error).__name__}")

    async def interrupt_now_and_then(self, process: Process) -> None:
        """Callers that are cancelled, at whatever they wait for."""
        node = process.node
        while True:
            task = asyncio.ensure_future(self.hold_now_and_then(process))
            try:
                await node.sleep(self.chance.uniform(0.0, 6.0))
            finally:
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is not None:
                await task

    # --- processes and faults

    def birth(self) -> Process:
        self._born += 1
        # The store's clock is the measure; ours may be wrong by rho.
        rate = self.chance.choice((1.0, 1.0 / 1.01, 1.01, self.chance.uniform(1 / 1.01, 1.01)))
        node = Node(self.loop, f"n{self._born}", Random(self.chance.random()), rate=rate)
        backend = SimulatedBackend(node, self.store, self.network)
        leases = Leases(
            lambda: backend,
            namespace="sim",
            world=lambda: node,
            owner=Owner(process=node.name, label=self.chance.choice(("blue", "green"))),
        )
        election = leases.election(
            "leader", on_elected=lambda lease: self.lead(node, lease), lease_ttl=TTL, poll_every=POLL
        )
        process = Process(node, backend, leases, election)
        self.processes.append(process)
        self.note(f"{node.name} is born, rate {rate:.4f}")
        # Made while this is the running loop, and in the node's own part.
        election.start()
        process.tasks = [
            self.loop.create_task(self.interrupt_now_and_then(process)),
            self.loop.create_task(self.run_now_and_then(process)),
        ]
        return process

    def _freed(self, name: str) -> None:
        for process in self.processes:
            process.backend.hint(name)

    def _called(self, holder: str, ahead: int) -> None:
        for process in self.processes:
            process.backend.turn(holder, ahead)

    def alive(self) -> list[Process]:
        return [process for process in self.processes if not process.node.dead]

    async def break_things(self) -> None:
        ends = self.loop.time() + FAULTY
        while self.loop.time() < ends:
            await asyncio.sleep(self.chance.uniform(0.05, 2.0))
            fault = self.chance.choice(FAULTS)
            await fault(self, self.chance.choice(self.alive()))
            self.check_believers()
            self._raise_what_failed()

    def heal(self) -> None:
        self.note("everything is healed")
        self.network.bad = 0.0
        if not self.store.up:
            self.store.restart(with_data=True)
        for process in self.alive():
            node = process.node
            node.cut = node.deaf = False
            if node.paused:
                node.resume()

    async def run(self) -> None:
        for _ in range(self._count):
            self.birth()
        await self.break_things()
        self.heal()
        await self.somebody_leads()
        await self.all_leave()

    async def somebody_leads(self) -> None:
        # What is still on its way has arrived by then, and may have been granted to somebody who is gone.
        healed = self.healed_at = self.loop.time() + LATEST
        # A store that forgot everything grants nothing for a while; nor is the pause of who has resigned its fault.
        limit = max(healed, self.store.withheld_until) + LEADS_WITHIN
        while not any(process.election.is_leader for process in self.alive()):
            if self.loop.time() > limit:
                raise self.broken("nobody leads within the lease's time after everything was healed")
            await asyncio.sleep(0.05)
            self._raise_what_failed()
        self.led_after = self.loop.time() - max(healed, self.store.withheld_until)

    async def all_leave(self) -> None:
        """Nothing is left behind by those that ended in order."""
        for process in self.alive():
            for task in process.tasks:
                task.cancel()
        await asyncio.sleep(0)
        for process in self.alive():
            await process.election.stop()
            await process.leases.aclose()
        self._raise_what_failed()
        for name in self.store.rows:
            if left := self._left_behind(name):
                raise self.broken(f"{name} is still held or waited for by {left}, who have ended in order")

    def _left_behind(self, name: str) -> list[str]:
        """Of what was asked after everything was healed; what was lost before that ends by itself."""
        row = grants.settled(self.store.row(name), self.store.now())
        here = {process.node.name for process in self.alive()}
        return [
            holder
            for holder in (row.holder, *(place.holder for place in row.queue))
            if holder.partition("#")[0] in here and self.store.asked_at.get(holder, 0.0) > self.healed_at
        ]

    def _raise_what_failed(self) -> None:
        if self.failures:
            raise Broken(self.failures[0])
        for process in self.processes:
            for task in process.tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    task.result()


async def _for_a_while(scenario: Scenario) -> float:
    return scenario.chance.choice((0.2, 1.0, TTL, 2 * TTL)) * scenario.chance.uniform(0.5, 1.5)


async def _pause(scenario: Scenario, process: Process) -> None:
    node, seconds = process.node, await _for_a_while(scenario)
    if node.paused:
        return
    scenario.note(f"{node.name} stands still for {seconds:.2f} s")
    node.pause()
    scenario.loop.call_later(seconds, lambda: node.resume() if node.paused else None)


async def _cut(scenario: Scenario, process: Process) -> None:
    node, seconds = process.node, await _for_a_while(scenario)
    one_way = scenario.chance.random() < 0.5
    scenario.note(f"{node.name} is cut off for {seconds:.2f} s{', its answers only' if one_way else ''}")
    node.deaf, node.cut = True, not one_way

    def mend() -> None:
        node.deaf = node.cut = False

    scenario.loop.call_later(seconds, mend)


async def _bad_network(scenario: Scenario, _process: Process) -> None:
    scenario.network.bad = scenario.chance.choice((0.0, 0.1, 0.5))
    scenario.note(f"the network is bad by {scenario.network.bad}")


async def _crash(scenario: Scenario, process: Process) -> None:
    scenario.note(f"{process.node.name} is killed")
    process.node.kill()
    scenario.birth()


async def _store_away(scenario: Scenario, _process: Process) -> None:
    if not scenario.store.up:
        return
    seconds, with_data = await _for_a_while(scenario), scenario.chance.random() < 0.7
    with_data = with_data or not scenario.forgets
    scenario.note(f"the store is away for {seconds:.2f} s, {'keeps' if with_data else 'loses'} its data")
    scenario.store.up = False

    def back() -> None:
        if not scenario.store.up:
            scenario.store.restart(with_data=with_data)

    scenario.loop.call_later(seconds, back)


async def _clock(scenario: Scenario, process: Process) -> None:
    """Wall clocks are set: a process's anyhow, the store's back (forward would end leases early)."""
    if scenario.chance.random() < 0.5:
        process.node.wall_step += scenario.chance.uniform(-10, 10)
        scenario.note(f"{process.node.name}'s wall clock is off by {process.node.wall_step:.1f} s")
    elif not scenario.forgets:
        scenario.store.step -= scenario.chance.uniform(0, 5)
        scenario.note(f"the store's clock is off by {scenario.store.step:.1f} s")


async def _resign(scenario: Scenario, process: Process) -> None:
    scenario.note(f"{process.node.name} is asked to resign")
    scenario.loop.create_task(process.election.resign(to=scenario.chance.choice((None, "green"))))


async def _force(scenario: Scenario, _process: Process) -> None:
    name = scenario.chance.choice(("sim:leader", "sim:held", "sim:exclusive"))
    scenario.note(f"an operator wants {name} released")
    scenario.store.force(name, scenario.store.row(name).token)


FAULTS = (_pause, _pause, _cut, _cut, _bad_network, _crash, _store_away, _clock, _resign, _force)


@contextlib.asynccontextmanager
async def _ended(scenario: Scenario) -> AsyncIterator[None]:
    try:
        yield
    finally:
        # What belongs to killed processes never ends by itself.
        for process in scenario.processes:
            process.node.dead = True
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(20):
            for task in rest:
                task.cancel()
            await asyncio.sleep(0)


def play(seed: int, *, nodes: int = 3) -> Scenario:
    """Raises `Broken`, or whatever else went wrong; the scenario is then its `scenario` attribute."""
    loop = VirtualLoop()
    scenario = Scenario(seed, loop, nodes=nodes)

    def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, Broken):
            scenario.failures.append(f"{type(error).__name__} in a callback: {error}")

    loop.set_exception_handler(failed)

    async def run() -> None:
        async with _ended(scenario):
            await scenario.run()

    try:
        loop.run_until_complete(run())
    except BaseException as error:
        error.scenario = scenario  # type: ignore[attr-defined]
        raise
    finally:
        loop.close()
    return scenario
