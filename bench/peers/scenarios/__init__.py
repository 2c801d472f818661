"""One file per scenario. `SCENARIOS` is in the order in which they run: those that break things come last."""

from __future__ import annotations

from typing import Final

from bench.peers.scenario import Scenario
from bench.peers.scenarios.cancelled import CANCELLED
from bench.peers.scenarios.cold import COLD
from bench.peers.scenarios.hot import HOT
from bench.peers.scenarios.killed import KILLED
from bench.peers.scenarios.long import LONG
from bench.peers.scenarios.outage import REDIS_FROZEN, REDIS_KILLED
from bench.peers.scenarios.raising import RAISING

__all__ = ["SCENARIOS"]

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (HOT, COLD, LONG, RAISING, CANCELLED, KILLED, REDIS_KILLED, REDIS_FROZEN)
}
