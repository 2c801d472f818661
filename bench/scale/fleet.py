"""How much of one server's processor a fleet needs, and how many servers: arithmetic on measured costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.scale.costs import Costs

__all__ = ["FLEETS", "ROOM", "Fleet", "Load", "load_of"]

ROOM = 0.5
"""The share of time that a server's processor may be busy. The rest is for bursts, snapshots and replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """`rate`: calls of cached functions per second and process, spread evenly over `keys`. Seconds otherwise."""

    name: str
    processes: int
    rate: float
    keys: int
    ttl: float = 300.0
    compute: float = 0.45
    poll: float = 0.32


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Shares of one server's processor. `shards`: how many servers, each busy `ROOM` of its time."""

    hits: float
    misses: float
    commands: float
    connections: int

    @property
    def busy(self) -> float:
        return self.hits + self.misses

    @property
    def shards(self) -> int:
        return max(1, math.ceil(self.busy / ROOM))


def load_of(fleet: Fleet, costs: Costs) -> Load:
    """Every hit is taken for a command of its own; hits of one event-loop tick travel together and cost less.

    At each expiry, the processes that call the key while it is computed ask once and look again at every `poll`.
    """
    calls = fleet.processes * fleet.rate
    expiries = min(fleet.keys / fleet.ttl, calls)
    waiting = min(fleet.processes - 1.0, calls / fleet.keys * fleet.compute)
    looks = waiting * (1 + fleet.compute / 2 / fleet.poll)
    a_miss = costs.acquire + costs.publish + looks * costs.held + waiting * costs.told
    return Load(
        hits=calls * costs.read / 1e6,
        misses=expiries * a_miss / 1e6,
        commands=calls + expiries * (2 + looks),
        connections=3 * fleet.processes,
    )


FLEETS = (
    Fleet(name="one pod", processes=8, rate=50, keys=1_000),
    Fleet(name="ten pods", processes=80, rate=50, keys=10_000),
    Fleet(name="a hundred pods", processes=800, rate=20, keys=100_000),
    Fleet(name="ten thousand workers, quiet", processes=10_000, rate=1, keys=1_000_000),
    Fleet(name="ten thousand workers, busy", processes=10_000, rate=20, keys=1_000_000),
    Fleet(name="ten thousand workers, few keys", processes=10_000, rate=20, keys=100),
    Fleet(name="the same, 8 s to compute", processes=10_000, rate=20, keys=100, compute=8.0),
)
