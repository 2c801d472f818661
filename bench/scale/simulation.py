"""One expiry of one key in a fleet of any size, in virtual time: the real core, a modelled server.

Every process runs `core.flight.decide`, the server runs `core.scripts`; nothing of the protocol is written twice. The
server is one queue: a command takes the processor time that was measured for it, and an announcement the time of each
inbox it reaches. Draws are seeded, so a run can be repeated.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from bench.scale.costs import Costs
from stampede_guard.core import commands as do
from stampede_guard.core import events as on
from stampede_guard.core import scripts
from stampede_guard.core.aboard import Aboard
from stampede_guard.core.entry import EMPTY, Entry
from stampede_guard.core.flight import begin, decide
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.policy import Policy

__all__ = ["Expiry", "Herd", "simulate"]


ABOARD = Aboard(1, 1, waits=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """`processes` miss within `spread` seconds; the computation takes `compute` seconds; `network` is one way."""

    processes: int
    compute: float
    spread: float = 0.05
    network: float = 0.000_25
    policy: Policy = field(default_factory=lambda: Policy(ttl=300))
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The cost of one expiry. Seconds; `busy` is the server's processor time, `commands` by script.

    `last_served`: from the end of the computation to the moment at which the last process has the value.
    `longest_answer`: the longest time for which a command that was executed waited for the server. Above 0.5 s it would
    count as lost.
    """

    processes: int
    computations: int
    commands: dict[str, int]
    busy: float
    last_served: float
    median_served: float
    longest_answer: float

    @property
    def total(self) -> int:
        return sum(self.commands.values())


def simulate(herd: Herd, costs: Costs) -> Expiry:
    """Raises `AssertionError` if some process was never served."""
    return _Fleet(herd, costs).run()


class _Server:
    """One processor, first come, first served."""

    def __init__(self, fleet: _Fleet, costs: Costs) -> None:
        self.entry: Entry = EMPTY
        self.listening: frozenset[str] = frozenset(f"i{number}" for number in range(fleet.herd.processes))
        self.busy = 0.0
        self.longest = 0.0
        self.commands: Counter[str] = Counter()
        self._fleet = fleet
        self._costs = costs
        self._free_at = 0.0

    def carry_out(
        self,
        script: str,
        step: Callable[[int], tuple[on.Event, scripts.Messages]],
        reply: Callable[[on.Event], None],
    ) -> None:
        """The command has arrived. Its step runs when its turn comes."""
        fleet, arrived = self._fleet, self._fleet.now
        starts = max(arrived, self._free_at)
        event, messages = step(round(starts * 1e6) + 1)
        cost: float = getattr(self._costs, self._kind(script, event)) / 1e6
        told = self._costs.told / 1e6
        self._free_at = starts + cost + told * len(messages)
        self.busy += self._free_at - starts
        self.longest = max(self.longest, self._free_at - arrived)
        self.commands[script] += 1
        for number, (inbox, message) in enumerate(messages, start=1):
            heard_at = starts + cost + told * number + fleet.herd.network
            fleet.at(
                heard_at,
                lambda process=fleet.processes[int(inbox[1:])], message=message: process.hear(message),
            )
        fleet.at(self._free_at + fleet.herd.network, lambda: reply(event))

    @staticmethod
    def _kind(script: str, event: on.Event) -> str:
        if (
            script == "acquire"
            and isinstance(event, on.StoreAnswered)
            and not isinstance(event.answer, scripts.Granted)
        ):
            return "held"
        return script


class _Process:
    """One process: a flight and the first of its callers, which represents all of them."""

    def __init__(self, fleet: _Fleet, number: int) -> None:
        self.served_at: float | None = None
        self._fleet = fleet
        self._name = f"f{number}"
        self._inbox = f"i{number}"
        self._waits = 0
        self._heard: list[scripts.Message] = []
        self._waiting = False
        self._holds: scripts.Granted | None = None
        self._state, command = begin(away=False)
        self._first = command

    def miss(self) -> None:
        self._carry_out(self._first)

    def hear(self, message: scripts.Message) -> None:
        self._heard.append(message)
        self._listen()

    def _listen(self) -> None:
        if self._waiting and self._heard:
            self._waiting = False
            self._feed(on.Heard(self._heard.pop(0), ABOARD))

    def _feed(self, event: on.Event) -> None:
        self._state, command = decide(self._state, event, self._fleet.herd.policy)
        self._carry_out(command)

    def _carry_out(self, command: do.Command) -> None:
        fleet = self._fleet
        match command:
            case do.AskStore():
                fleet.send("acquire", self._ask, self._feed)
            case do.Wait(seconds):
                self._waits += 1
                self._waiting = True
                turn = self._waits
                fleet.at(fleet.now + seconds, lambda: self._look_again(turn))
                self._listen()
            case do.Keep():
                self._waiting = True
                self._listen()
            case do.Compute(grant):
                fleet.computations += 1
                self._heard.clear()
                self._holds = grant
                fleet.at(fleet.now + fleet.herd.policy.lease_ttl / 3, self._renew)
                fleet.at(fleet.now + fleet.herd.compute, self._computed)
            case do.Publish(grant, outcome):
                fleet.send("publish", lambda now: self._publish(grant, outcome, now), self._feed)
            case do.Deliver():
                self.served_at = fleet.now
                self._feed(on.Delivered(Aboard()))
            case do.GiveBack():
                raise AssertionError("every value here can be stored")
            case do.Land():
                pass
            case _:
                assert_never(command)

    def _look_again(self, turn: int) -> None:
        if self._waiting and turn == self._waits:
            self._waiting = False
            self._feed(on.LookAgain(ABOARD))

    def _computed(self) -> None:
        self._holds = None
        self._fleet.computed_at = self._fleet.now
        self._feed(on.ComputationEnded(b"value", away=False))

    def _renew(self) -> None:
        if self._holds is not None:
            grant = self._holds
            self._fleet.send("renew", lambda now: self._renewal(grant, now), lambda event: None)
            self._fleet.at(self._fleet.now + self._fleet.herd.policy.lease_ttl / 3, self._renew)

    # --- what the server runs ------------------------------------------------------------------

    def _ask(self, now_us: int) -> tuple[on.Event, scripts.Messages]:
        server, policy = self._fleet.server, self._fleet.herd.policy
        ask = scripts.Ask(
            flight=self._name, inbox=self._inbox, epoch="epoch", lease_ms=round(policy.lease_ttl * 1000),
            record_ms=policy.record_ms, takeover_ms=round(policy.takeover_gap * 1000),
        )  # fmt: skip
        server.entry, answer = scripts.acquire(server.entry, ask, now_us=now_us, listening=server.listening)
        return on.StoreAnswered(answer, ABOARD, self._fleet.now, self._fleet.draw()), ()

    def _renewal(self, grant: scripts.Granted, now_us: int) -> tuple[on.Event, scripts.Messages]:
        server, policy = self._fleet.server, self._fleet.herd.policy
        renewal = scripts.Renewal(
            self._name, grant.token, self._inbox, round(policy.lease_ttl * 1000), policy.record_ms
        )
        server.entry, _ = scripts.renew(server.entry, renewal, now_us=now_us, listening=server.listening)
        return on.LookAgain(ABOARD), ()

    def _publish(
        self, grant: scripts.Granted, outcome: FlightOutcome, now_us: int
    ) -> tuple[on.Event, scripts.Messages]:
        server, policy = self._fleet.server, self._fleet.herd.policy
        publication = scripts.Publication(
            flight=self._name, token=grant.token, epoch=grant.epoch, outcome=outcome.kind, body=outcome.body,
            total_ms=policy.total_ms, stale_ms=policy.stale_ms, record_ms=policy.record_ms,
            inline_bytes=policy.inline_bytes,
        )  # fmt: skip
        server.entry, stored, messages = scripts.publish(server.entry, publication, now_us=now_us)
        return on.PublishAnswered(stored), messages


class _Fleet:
    def __init__(self, herd: Herd, costs: Costs) -> None:
        self.herd = herd
        self.now = 0.0
        self.computations = 0
        self.computed_at = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._random = random.Random(herd.seed)
        self.draw = self._random.random
        self.processes = [_Process(self, number) for number in range(herd.processes)]
        self.server = _Server(self, costs)

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), act))

    def send(
        self,
        script: str,
        step: Callable[[int], tuple[on.Event, scripts.Messages]],
        reply: Callable[[on.Event], None],
    ) -> None:
        self.at(self.now + self.herd.network, lambda: self.server.carry_out(script, step, reply))

    def run(self) -> Expiry:
        for process in self.processes:
            self.at(self.draw() * self.herd.spread, process.miss)
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            act()
        served = sorted(process.served_at for process in self.processes if process.served_at is not None)
        if len(served) != self.herd.processes:
            raise AssertionError(f"{self.herd.processes - len(served)} processes were never served")
        return Expiry(
            processes=self.herd.processes,
            computations=self.computations,
            commands=dict(self.server.commands),
            busy=self.server.busy,
            last_served=max(0.0, served[-1] - self.computed_at),
            median_served=max(0.0, served[len(served) // 2] - self.computed_at),
            longest_answer=self.server.longest,
        )
