"""The modelled store and the network before it: the rules of `core.grants`, and everything that can go wrong around."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from stampede_guard.errors import StoreUnavailable
from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, LeaseRow
from stampede_guard.leases.core.queue import newly_called
from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseGranted,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Renewed,
    Withheld,
)
from tests.leases.simulation.loop import VirtualLoop
from tests.leases.simulation.nodes import Node

__all__ = ["LATEST", "Network", "SimulatedBackend", "Store"]

T = TypeVar("T")

LATEST = 3.0
"""Seconds that a message may be under way: as long as a lease."""


class Store:
    """`step`: what its wall clock was set by, back only. `on_granted(name, holder, token)`: each new grant."""

    def __init__(self, loop: VirtualLoop, *, longest_ttl: float) -> None:
        self.loop = loop
        self.rows: dict[str, LeaseRow] = {}
        self.asked_at: dict[str, float] = {}
        self.up = True
        self.step = 0.0
        self.longest_ttl = longest_ttl
        self.withheld_until = 0.0
        self.on_granted: Callable[[str, str, int], None] = lambda name, holder, token: None
        self.on_freed: Callable[[str], None] = lambda name: None
        self.on_called: Callable[[str, int], None] = lambda holder, ahead: None
        self.on_renewed: Callable[[str], None] = lambda name: None

    def now(self) -> float:
        return 1_700_000_000.0 + self.loop.time() + self.step

    def restart(self, *, with_data: bool) -> None:
        self.up = True
        if not with_data:
            self.rows.clear()
            self.withheld_until = self.loop.time() + self.longest_ttl

    def ask(self, question: LeaseRequest) -> Answer:
        left = self.withheld_until - self.loop.time()
        if left > 0:
            return Withheld("it has only just restarted", left)
        self.asked_at[question.holder] = self.loop.time()
        before = self.row(question.name)
        row, answer = grants.ask(before, question, self.now())
        self.rows[question.name] = row
        self._call(before, row)
        if isinstance(answer, LeaseGranted) and (before.holder, before.token) != (row.holder, row.token):
            self.on_granted(question.name, question.holder, answer.token)
        return answer

    def renew(self, name: str, holder: str, token: int, lease_ttl: float) -> Renewed | LeaseRefused:
        self.rows[name], answer = grants.renew(
            self.row(name), holder=holder, token=token, lease_ttl=lease_ttl, now=self.now()
        )
        self.on_renewed(name)
        return answer

    def release(self, name: str, holder: str, token: int, at_least_for: float, to: str) -> bool:
        before = self.row(name)
        self.rows[name], held = grants.release(
            before, holder=holder, token=token, at_least_for=at_least_for, now=self.now(), to=to
        )
        if held or len(before.queue) > len(self.rows[name].queue):
            self.on_freed(name)
        self._call(before, self.rows[name])
        return held

    def _call(self, before: LeaseRow, after: LeaseRow) -> None:
        for ahead, holder in enumerate(newly_called(before.queue, after.queue)):
            self.on_called(holder, ahead)

    def force(self, name: str, token: int) -> None:
        """An operator, who is never cut off."""
        self.rows[name], _, _ = grants.force(
            self.row(name), name=name, token=token, by="operator", at_once=False, now=self.now()
        )
        self.on_freed(name)

    def row(self, name: str) -> LeaseRow:
        return self.rows.get(name, EMPTY)


class Network:
    """How long a message takes, and whether it arrives. `bad`: how likely it is lost or late."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.bad = 0.0

    def delay(self) -> float | None:
        """Seconds; None = lost."""
        if self.chance.random() < self.bad:
            return None if self.chance.random() < 0.5 else self.chance.uniform(0.0, LATEST)
        return self.chance.uniform(0.0005, 0.02)


class SimulatedBackend:
    """A `Backend` of one node."""

    def __init__(self, node: Node, store: Store, network: Network) -> None:
        self.node = node
        self.store = store
        self.network = network
        self.calls: list[Callable[..., Any]] = []
        self.turns: list[Callable[..., Any]] = []

    async def _request(self, step: Callable[[], T], timeout: float) -> T:
        loop = self.node.loop
        future = loop.create_future()

        def answer(result: T) -> None:
            if not future.done():
                future.set_result(result)

        def carry_out() -> None:
            if not self.store.up:
                return
            result = step()
            back = self.network.delay()
            if back is not None and not self.node.deaf:
                loop.call_later(back, lambda: self.node.gate(lambda: answer(result)))

        def give_up() -> None:
            if not future.done():
                future.set_exception(StoreUnavailable("no answer in time"))

        there = self.network.delay()
        if there is not None and not self.node.cut and not self.node.dead:
            loop.call_later(there, carry_out)
        cancel = self.node.later(timeout, give_up)
        try:
            result: T = await future
            return result
        finally:
            cancel()

    async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
        return await self._request(lambda: self.store.ask(ask), timeout)

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | LeaseRefused:
        return await self._request(lambda: self.store.renew(name, holder, token, lease_ttl), timeout)

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        return await self._request(lambda: self.store.release(name, holder, token, at_least_for, to), timeout)

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        await self._request(lambda: self.store.release(name, holder, 0, 0.0, ""), timeout)

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        return await self._request(
            lambda: grants.check(self.store.row(name), holder=holder, token=token, now=self.store.now()),
            timeout,
        )

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        def step() -> Forced | NotForced:
            self.store.rows[name], answer, _ = grants.force(
                self.store.row(name), name=name, token=token, by=by, at_once=now, now=self.store.now()
            )
            return answer

        return await self._request(step, timeout)

    async def show(self, name: str, *, timeout: float) -> LeaseView | None:
        raise NotImplementedError

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]:
        raise NotImplementedError

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        raise NotImplementedError

    def on_freed(self, call: Callable[[str], Any]) -> None:
        self.calls.append(call)

    def on_called(self, call: Callable[[str, int], Any]) -> None:
        self.turns.append(call)

    hears = True

    def hint(self, name: str) -> None:
        """That a lease was freed, which may be lost like any message."""
        self._arrive(self.calls, name)

    def turn(self, holder: str, ahead: int) -> None:
        """That a waiter's turn has come, which may be lost, too."""
        self._arrive(self.turns, holder, ahead)

    def _arrive(self, calls: list[Callable[..., Any]], *what: Any) -> None:
        after = self.network.delay()
        if after is not None and not self.node.deaf:
            for call in calls:
                self.node.loop.call_later(after, lambda call=call: self.node.gate(lambda: call(*what)))

    async def aclose(self) -> None:
        self.calls.clear()
        self.turns.clear()
