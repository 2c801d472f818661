"""The speed table, run tiny: every row is there and counts what it says. Never a time, never a ratio."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.herd.valkey import ValkeyServer
from bench.micro.__main__ import as_json, main, measure
from bench.micro.commands import CommandCount
from bench.micro.hits import HitSizes, measure_hits
from bench.micro.plan import TINY
from bench.micro.row import Row, speed
from bench.micro.table import terminal_table
from bench.micro.value import VALUE_AS_JSON

HITS = (
    "sequential", "distinct_burst", "hot_steady", "hot_steady_get_floor", "hot_steady_floor",
    "hot_burst", "hot_burst_get_floor", "hot_burst_floor",
)  # fmt: skip

NEAR = ("near_number", "near_dictionary", "near_floor")


def row(figure: float, *, target: float | None, unit: str = "", better: str = "more") -> Row:
    return Row(
        name="row", work="work", ours=1, baseline=None, unit=unit, figure=figure, target=target,
        better="more" if better == "more" else "less", samples=1,
    )  # fmt: skip


def test_the_whole_table_is_measured_and_written(tmp_path: Path) -> None:
    assert main(["--tiny", "--json", str(tmp_path / "new" / "micro.json")]) == 0
    written = json.loads((tmp_path / "new" / "micro.json").read_text())
    assert "Python" in written["setting"] and "on loopback" in written["setting"]
    assert list(written["rows"]) == [
        *(f"{name}_{loop}" for loop in ("asyncio", "uvloop") for name in HITS),
        *NEAR, "away_hit", "away_miss", "wake_up_median", "wake_up_p99", "commands", "memory",
    ]  # fmt: skip
    for name, figures in written["rows"].items():
        compared = "floor" in name or name == "near_dictionary"
        assert (figures["target"] is None) == compared, name
        assert (figures["met"] is None) == (figures["target"] is None)


def test_a_herd_of_two_processes_costs_one_computation_and_few_commands(own_valkey: ValkeyServer) -> None:
    rows = {row.name: row for row in measure(own_valkey.url, ["herd"], TINY, Console(quiet=True))}
    (total,) = rows["commands"].details["totals"]
    (by_command,) = rows["commands"].details["by_command"]
    # Each process reads and asks, one publishes, and a waiter may look again; nothing else reaches the server.
    assert set(by_command) <= {"EVALSHA", "EVAL"}
    assert 5 <= total == sum(by_command.values()) <= 60
    assert len(rows["wake_up_p99"].details["floor_by_round"]) == TINY.herd.rounds


async def test_both_sides_of_the_hit_rows_are_measured_equally_often(valkey_url: str) -> None:
    steps: list[None] = []
    sizes = HitSizes(repetitions=3, calls=1)
    rows = await measure_hits(valkey_url, sizes, loop_name="here", step=lambda: steps.append(None))
    assert [row.name for row in rows] == [f"{name}_here" for name in HITS]
    assert all(row.samples == 3 for row in rows) and len(steps) == 4


def test_a_script_counts_as_one_command(own_valkey: ValkeyServer) -> None:
    with own_valkey.client() as client:
        client.ping()
        with CommandCount(own_valkey.url) as count:
            client.eval("for i = 1, 10 do redis.call('GET', 'k') end return 1", 0)
            client.get("k")
    assert count.counts == {"EVAL": 1, "GET": 1}


def test_a_ratio_is_taken_between_neighbours() -> None:
    made = speed("name", "work", ours=[1, 2, 10], baseline=[4, 10, 30], target=3)
    assert (made.ours, made.baseline, made.figure) == (2, 10, 4)
    assert (made.details["lowest_ratio"], made.details["highest_ratio"]) == (3, 5)


@pytest.mark.parametrize(
    ("better", "figure", "met"),
    [("more", 15, True), ("more", 14.9, False), ("less", 15, True), ("less", 15.1, False)],
)
def test_a_target_is_met_on_its_own_side(better: str, figure: float, met: bool) -> None:
    assert row(figure, target=15, better=better).met is met


def test_the_table_says_what_was_missed_and_leaves_rows_without_a_target_alone() -> None:
    console = Console(width=120, record=True, quiet=False, file=io.StringIO())
    rows = [row(4, target=5, unit="us"), row(9, target=None, unit="us"), row(24, target=60, better="less")]
    console.print(terminal_table(rows, title="title"))
    text = console.export_text()
    assert "4.0 x" in text and ">= 5 x" in text and text.count("missed") == 1
    assert "<= 60" in text and text.count("met") == 1


def test_the_value_is_of_the_promised_size() -> None:
    assert 150 <= len(VALUE_AS_JSON) <= 250


def test_figures_as_json_are_by_row() -> None:
    assert as_json([row(1, target=2)], "here")["rows"]["row"]["met"] is False
