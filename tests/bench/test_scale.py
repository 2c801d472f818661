"""Growth, run tiny: computations are counted, the simulation is the core's, and the arithmetic adds up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer
from bench.scale.__main__ import main
from bench.scale.costs import Costs
from bench.scale.fleet import FLEETS, Fleet, load_of
from bench.scale.grid import Cell, Walk, measure_grid
from bench.scale.simulation import Herd, simulate
from bench.scale.tables import fleet_sheet, herd_sheet
from bench.scale.watching import prices_of_watching

COSTS = Costs(read=20, read_key=2, acquire=25, held=20, publish=15, told=5, renew=10, invalidate=20)


def test_everything_is_measured_and_written(tmp_path: Path) -> None:
    assert main(["--tiny", "--output", str(tmp_path / "new")]) == 0
    written = json.loads((tmp_path / "new" / "scale.json").read_text())
    assert [(cell["processes"], cell["keys"]) for cell in written["grid"]] == [
        (1, 1),
        (1, 50),
        (2, 1),
        (2, 50),
    ]
    assert all(cell["as_promised"] for cell in written["grid"])
    assert all(cost >= 0 for cost in written["costs"].values()) and written["costs"]["read"] > 0
    assert [expiry["processes"] for expiry in written["expiries"]] == [8, 100, 8]
    page = (tmp_path / "new" / "scale.md").read_text()
    assert all(fleet.name in page for fleet in FLEETS)
    assert (tmp_path / "new" / "scale.png").stat().st_size > 10_000


def test_a_key_is_computed_once_however_many_processes_call_it(own_valkey: ValkeyServer) -> None:
    steps: list[None] = []
    cells = measure_grid(own_valkey.url, (3,), (5,), step=lambda: steps.append(None))
    (cell,) = cells
    assert len(steps) == 1 and cell.rounds == 20
    assert cell.cold.computations == 5 * 20 and cell.warm.computations == 0
    assert cell.cold.calls == cell.warm.calls == 3 * 5 * 20
    assert cell.as_promised


def test_a_key_computed_twice_is_not_as_promised() -> None:
    good = Walk(calls=10, computations=5, ours=1, server=1, seconds=1)
    none = Walk(calls=10, computations=0, ours=1, server=1, seconds=1)
    assert Cell(processes=2, keys=5, rounds=1, cold=good, warm=none).as_promised
    assert not Cell(processes=2, keys=4, rounds=1, cold=good, warm=none).as_promised
    assert not Cell(processes=2, keys=5, rounds=1, cold=good, warm=good).as_promised


def test_a_second_computation_of_a_simulated_expiry_is_marked() -> None:
    """The server answers so late that the lease ends before its renewal is executed."""
    herd = Herd(processes=2_000, compute=0.45)
    slow = replace(COSTS, acquire=2_000, held=2_000)
    expiry = simulate(herd, slow)
    assert expiry.longest_answer > 3 and expiry.computations > 1
    (row,) = herd_sheet([(herd, expiry)]).rows
    assert row[2] == f"{expiry.computations} (!)"
    (row,) = herd_sheet([(herd, simulate(herd, COSTS))]).rows
    assert row[2] == "1"


@pytest.mark.parametrize("processes", [1, 2, 50, 2_000])
def test_a_simulated_expiry_costs_one_computation_and_serves_everybody(processes: int) -> None:
    expiry = simulate(Herd(processes=processes, compute=0.45), COSTS)
    assert expiry.computations == 1
    assert expiry.commands["publish"] == 1
    # Everybody asks once, and within 0.45 s a waiter looks again at most once more than the shortest pause allows.
    assert processes <= expiry.commands["acquire"] <= 3 * processes
    assert expiry.busy >= (processes * COSTS.held + COSTS.publish) / 1e6 * 0.99


def test_a_simulated_holder_renews_its_lease_while_it_computes() -> None:
    herd = Herd(processes=5, compute=8.0)
    expiry = simulate(herd, COSTS)
    assert expiry.computations == 1
    assert expiry.commands["renew"] == int(herd.compute / (herd.policy.lease_ttl / 3) - 0.001)


def test_a_simulation_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    one, same = (simulate(Herd(processes=30, compute=2.0, seed=7), COSTS) for _ in range(2))
    other = simulate(Herd(processes=30, compute=2.0, seed=8), COSTS)
    assert one == same != other


def test_a_slower_server_answers_later_in_the_simulation() -> None:
    slow = Costs(**{name: 100 * value for name, value in COSTS.to_json().items()})
    herd = Herd(processes=200, compute=5.0)
    assert simulate(herd, slow).longest_answer > 10 * simulate(herd, COSTS).longest_answer


def test_servers_are_counted_from_hits_and_misses() -> None:
    quiet = Fleet(name="quiet", processes=10, rate=1, keys=10)
    load = load_of(quiet, COSTS)
    assert load.hits == pytest.approx(10 * 20e-6)
    assert load.shards == 1 and load.connections == 30
    busy = load_of(Fleet(name="busy", processes=1_000, rate=100, keys=10), COSTS)
    assert busy.hits == pytest.approx(2.0) and busy.shards == 5


def test_a_longer_computation_costs_the_server_more_looks() -> None:
    short = Fleet(name="a", processes=1_000, rate=20, keys=10)
    long = Fleet(name="b", processes=1_000, rate=20, keys=10, compute=8.0)
    assert load_of(long, COSTS).misses > 5 * load_of(short, COSTS).misses
    assert load_of(long, COSTS).hits == load_of(short, COSTS).hits


def test_every_fleet_has_its_row() -> None:
    assert len(fleet_sheet(COSTS).rows) == len(FLEETS)


async def test_the_prices_of_watching_are_measured(own_valkey: ValkeyServer) -> None:
    rows = dict(await prices_of_watching(own_valkey.url, count=40))
    assert rows["10,000 processes, each with herds (calculated): commands per second"] == "6,000"
    assert any("of the server" in figure for figure in rows.values())
