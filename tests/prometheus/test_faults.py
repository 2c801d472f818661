"""Each alert fires when its fault is there, and no other: real faults in real processes, in a real Prometheus.

Each scenario is a job of its own, so one Prometheus sees all of them at once. Their rules fire without `for:`, and all
else is as users get it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from tests.ops.dashboards.test_files import ALERTS, FOLDER, ROOT
from tests.prometheus.daemon import ask, prometheus_with
from tests.prometheus.faulty import SCENES

PATIENCE = 60.0
SCRAPES = 8
FIRES: dict[str, set[str]] = {
    "healthy": set(),
    "raises": {"ComputationsFail"},
    "unstorable": {"ValuesNotStored"},
    "misses": {"HitRateLow"},
    "overdue": {"Timeouts", "ComputationsFail"},
    "slow_holder": {"HoldersSlow", "Timeouts"},
    "vanishing_holder": {"HoldersDie"},
    "blocked": {"LeasesLapse"},
    "slow_store": {"StoreSlow"},
    "failing_job": {"JobsFail", "JobsOverdue"},
    "away": {"StoreAway"},
    "refused": {"StoreRefuses"},
}
FOLLOWS: dict[str, set[str]] = {
    # A fault has consequences that some alerts may see, too.
    "raises": {"HitRateLow"},
    "unstorable": {"HitRateLow"},
    "overdue": {"HitRateLow"},
    "slow_holder": {"HitRateLow"},
    "vanishing_holder": {"HitRateLow"},
    "blocked": {"HitRateLow", "StoreSlow", "StoreAway"},
    "away": {"HitRateLow", "StoreSlow"},
    "refused": {"HitRateLow"},
}


class Fleet:
    def __init__(self, url: str, *scenes: str) -> None:
        command = [sys.executable, "-m", "tests.prometheus.faulty", url, *scenes]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ports(self) -> dict[str, list[int]]:
        assert self.process.stdout is not None
        return {name: [port] for name, port in json.loads(self.process.stdout.readline()).items()}

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("begin\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def firing(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dict[str, set[str]], dict[str, set[str]]]]:
    """What fires while nothing is wrong, and after the faults: alerts by scenario."""
    folder = tmp_path_factory.mktemp("faults")
    rules = folder / "alerts.yml"
    rules.write_text(re.sub(r"(?m)^ +for: .*\n", "", (FOLDER / "alerts.yml").read_text("utf-8")), "utf-8")
    with ValkeyServer() as server, ValkeyServer() as doomed:
        with server.client() as client:
            client.execute_command("ACL", "SETUSER", "guest", "on", ">guest", "~*", "&*", "+@all")
        fleets = [
            Fleet(server.url, *(set(SCENES) - {"blocked", "away", "refused"})),
            Fleet(server.url, "blocked"),
            Fleet(doomed.url, "away"),
            Fleet(server.url.replace("//", "//guest:guest@"), "refused"),
        ]
        try:
            ports = {name: port for fleet in fleets for name, port in fleet.ports().items()}
            with prometheus_with(folder, ports, every="500ms", rules=rules) as url:
                scraped(url, len(ports))
                quiet = fired(url)
                for fleet in fleets:
                    fleet.begin()
                doomed.kill()
                with server.client() as client:
                    client.execute_command("ACL", "SETUSER", "guest", "-evalsha", "-eval")
                yield quiet, until_fired(url)
        finally:
            for fleet in fleets:
                fleet.end()


def scraped(url: str, jobs: int) -> None:
    """Wait until each job has been scraped some times, with calls in it."""
    expr = f"count(count_over_time(stampede_guard_calls_total{{result='hit'}}[1m]) >= {SCRAPES})"
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = ask(url, "query", query=expr)["result"]
        except OSError:
            found = []
        if found and int(found[0]["value"][1]) >= jobs:
            return
        time.sleep(0.2)
    raise AssertionError("some jobs were not scraped")


def fired(url: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for alert in ask(url, "alerts")["alerts"]:
        name = alert["labels"]["alertname"].removeprefix("StampedeGuard")
        found.setdefault(alert["labels"]["job"], set()).add(name)
    return found


def until_fired(url: str) -> dict[str, set[str]]:
    """What fires when all alerts that must fire do so, or when patience ends."""
    end = time.monotonic() + PATIENCE
    while True:
        found = fired(url)
        if all(must <= found.get(scene, set()) for scene, must in FIRES.items()) or time.monotonic() > end:
            return found
        time.sleep(0.5)


def test_nothing_fires_while_nothing_is_wrong(firing: Any) -> None:
    assert firing[0] == {}


@pytest.mark.parametrize("scene", FIRES)
def test_the_alerts_of_a_fault_fire_and_no_others(firing: Any, scene: str) -> None:
    found = firing[1].get(scene, set())
    assert found >= FIRES[scene]
    assert found <= FIRES[scene] | FOLLOWS.get(scene, set())


def test_every_alert_has_a_fault_that_makes_it_fire() -> None:
    assert set().union(*FIRES.values()) == {rule["alert"].removeprefix("StampedeGuard") for rule in ALERTS}
    assert set(FIRES) == set(SCENES)
