"""The measurement beside the peers: its arithmetic, and its harness with the two adapters that need no peer.

Counts and order only, never a time: what is fast enough is said by `make bench-peers`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from bench.journal import Journal, Line
from bench.peers.__main__ import parse
from bench.peers.adapter import About, Compute
from bench.peers.adapters import ADAPTERS, TABLE
from bench.peers.commands import CommandCount
from bench.peers.outcome import Answer, Outcome
from bench.peers.plan import Sizes
from bench.peers.report import markdown, memory_ratios, scenario_cells
from bench.peers.results import Results, Row
from bench.peers.run import measure
from bench.peers.scenario import NEVER, Column
from bench.peers.scenarios import SCENARIOS
from bench.peers.stage import Stage
from bench.peers.verdict import verdicts
from bench.peers.worker import Worker

TINY = Sizes(
    processes=2, callers=5, seconds=0.2, interrupted_seconds=0.4, long_seconds=0.3, rounds=1,
    patience=10, patience_after_kill=20, hit_repetitions=1, hit_calls=10, memory_calls=10,
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


def line(worker: int, what: str, at: float) -> Line:
    return Line("key", worker, what, at)


# --- arithmetic ----------------------------------------------------------------------------------------


def test_a_wake_up_counts_from_the_end_of_the_computation_and_only_where_nobody_computed() -> None:
    outcome = Outcome(
        began=10.0,
        answers=[Answer(0, 11.0, "value"), Answer(1, 11.5, "value"), Answer(1, 12.0, "error: X")],
        started=[line(0, "started", 10.1)],
        ended=[line(0, "ended", 11.0)],
    )
    assert outcome.wake_ups() == [0.5]
    assert (outcome.served, outcome.waiting, outcome.seconds) == (2, 0, 2.0)
    assert outcome.errors == {"error: X": 1}


def test_where_every_process_computed_nobody_was_woken() -> None:
    started = [line(0, "started", 1.0), line(1, "started", 1.0)]
    ended = [line(0, "ended", 2.0)]
    outcome = Outcome(0.0, [Answer(0, 2.0, "value"), Answer(1, 2.1, "value")], started, ended)
    assert outcome.wake_ups() == []


def test_a_caller_that_was_given_up_leaves_no_time_until_all_had_an_answer() -> None:
    outcome = Outcome(0.0, [Answer(0, 1.0, "value"), Answer(1, 9.0, "waiting")])
    assert (outcome.seconds, outcome.waiting, outcome.errors) == (None, 1, {})


def test_a_takeover_is_the_next_computation_of_a_survivor() -> None:
    started = [
        line(0, "started", 1.0),
        line(0, "started", 1.4),
        line(1, "started", 1.5),
        line(2, "started", 3.0),
    ]
    outcome = Outcome(0.0, [], started)
    assert outcome.takeover(1.25, killed=0) == 0.25
    assert outcome.already_computing(1.25, killed=0) == 0
    assert outcome.already_computing(2.0, killed=0) == 1
    assert outcome.takeover(3.5, killed=0) is None


def test_the_journal_keeps_what_several_have_written_in_order(tmp_path: Path) -> None:
    journals = [Journal(tmp_path / "journal") for _ in range(2)]
    assert journals[0].lines("a", "started") == []
    journals[0].write("a", 0, "started")
    journals[1].write("b", 1, "started")
    journals[1].write("a", 1, "started")
    journals[0].write("a", 0, "ended")
    assert [found.by for found in journals[1].lines("a", "started")] == [0, 1]
    assert [found.by for found in journals[1].lines("a", "ended")] == [0]


@pytest.mark.parametrize(
    "begun", ['{"key": "a", "by": 1, "wh', '{"key": "a", "by": 1, "what": "started", "at": 1.0}']
)
def test_a_line_that_is_still_being_written_is_not_there_yet(tmp_path: Path, begun: str) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write("a", 0, "started")
    with journal.path.open("a") as file:
        file.write(begun)
    assert [found.by for found in journal.lines("a")] == [0]


def test_a_script_counts_as_one_command_and_what_comes_after_the_block_not_at_all(
    own_valkey: ValkeyServer,
) -> None:
    with own_valkey.client() as client:
        client.ping()
        with CommandCount(own_valkey.url) as count:
            client.eval("for i = 1, 10 do redis.call('GET', 'k') end return 1", 0)
            client.get("k")
        client.get("k")
        with CommandCount(own_valkey.url) as nothing:
            pass
    assert (count.total, nothing.total) == (2, 0)


# --- standing ------------------------------------------------------------------------------------------


def results(**cold: dict[str, float | None]) -> Results:
    rows = [Row(name, figures={"cold": figures}) for name, figures in cold.items()]
    return Results("here", rows=rows)


def standing(found: Results, column: str) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    (verdict,) = [verdict for verdict in verdicts(found, SCENARIOS) if verdict.column.name == column]
    return verdict.standing, verdict.rival, verdict.cheats


def test_ours_is_behind_where_a_peer_is_better_for_no_higher_price() -> None:
    found = results(
        ours={"computations": 1.0, "commands": 24.0}, cashews={"computations": 1.0, "commands": 20.0}
    )
    assert standing(found, "computations") == ("level", "cashews", ())
    assert standing(found, "commands") == ("behind", "cashews", ())


def test_a_better_figure_at_the_price_of_more_computations_is_named_with_its_price() -> None:
    found = results(ours={"computations": 1.0, "seconds": 0.9}, naive={"computations": 400.0, "seconds": 0.5})
    assert standing(found, "computations") == ("first", "naive", ())
    assert standing(found, "seconds") == ("first", "", (("naive 0.50", "400 computations"),))


def test_never_is_worse_than_any_time_and_nothing_to_measure_is_no_rival() -> None:
    found = results(
        ours={"computations": 1.0, "seconds": 30.0, "wake_up_max": 3.0},
        cashews={"computations": 1.0, "seconds": NEVER, "wake_up_max": None},
    )
    assert standing(found, "seconds") == ("first", "cashews", ())
    assert standing(found, "wake_up_max") == ("first", "", ())


@pytest.mark.parametrize(
    ("unit", "figure", "best", "level"),
    [
        ("count", 2, 1, False), ("ms", 6, 2, True), ("ms", 30, 20, False), ("s", 1.09, 1, True), ("s", 1.2, 1, False),
        ("x", 9.6, 10, True), ("x", 9, 10, False),
        ("s", NEVER, 1, False), ("s", 1, NEVER, False), ("s", NEVER, NEVER, True),
    ],
)  # fmt: skip
def test_level_allows_for_what_the_next_run_may_turn_round(
    unit: str, figure: float, best: float, level: bool
) -> None:
    column = Column(name="c", title="c", unit=unit)  # type: ignore[arg-type]
    assert column.level(figure, best) is level


# --- report --------------------------------------------------------------------------------------------


def test_a_peer_that_could_not_run_is_in_every_table_with_the_reason() -> None:
    found = results(ours={"computations": 1.0})
    found.rows.append(Row("cashews", not_run="cashews is not installed"))
    found.rows.append(Row("aiocache", failed={"cold": "failed: nobody computed within 1 s"}))
    text = markdown(found)
    assert "NOT RUN: cashews is not installed" in text
    assert "failed: nobody computed within 1 s" in text
    assert scenario_cells(found.rows[0], SCENARIOS["cold"])[0] == "1"
    assert all(len(scenario_cells(row, SCENARIOS["cold"])) == 5 for row in found.rows)


def test_figures_survive_the_way_through_json() -> None:
    found = results(ours={"computations": 1.0, "seconds": NEVER, "wake_up_max": None})
    found.memory = {"ours": {"absent": "not built"}}
    assert Results.from_json(found.to_json()) == found


def test_hits_in_memory_are_told_as_multiples() -> None:
    cells = memory_ratios({"async_lru": {"us": 1.0}, "ours": {"us": 2.0}, "cashews": {"absent": "not there"}})
    assert cells == {
        "async_lru": ["1.00", "1.0 x", "0.5 x"],
        "ours": ["2.00", "2.0 x", "1.0 x"],
        "cashews": ["NOT RUN: not there", "", ""],
    }


def test_every_adapter_is_pinned_linked_and_says_its_option() -> None:
    pins = (ROOT / "bench" / "peers" / "requirements.txt").read_text()
    for adapter in ADAPTERS.values():
        about = adapter.about
        assert about.page and about.option
        if about.distribution:
            assert re.search(rf"^{re.escape(about.distribution)}==\d", pins, re.MULTILINE), about.name
            assert about.page.startswith("https://")


def test_all_peers_and_scenarios_are_played_unless_some_are_named() -> None:
    options = parse([])
    assert options.only == TABLE and set(options.scenario) == {*SCENARIOS, "memory"}
    assert parse(["--only", "ours", "--scenario", "cold"]).only == ["ours"]
    with pytest.raises(SystemExit):
        parse(["--only", "nobody"])


# --- the harness, on two processes of five callers -----------------------------------------------------


class Deaf:
    """A peer that never answers, and of whose callers every other one ignores its cancellation."""

    about = About(name="deaf", distribution="", page="", option="")

    def __init__(self) -> None:
        self.calls = 0
        self.end = asyncio.Event()

    async def open(self, url: str, compute: Compute) -> None: ...

    async def call(self, key: str) -> Any:
        self.calls += 1
        deaf = self.calls % 2 == 0
        while True:
            try:
                await self.end.wait()
                return None
            except asyncio.CancelledError:
                if not deaf:
                    raise

    async def close(self) -> None: ...


async def test_callers_of_a_peer_that_hangs_are_given_up_also_those_that_cannot_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deaf = Deaf()
    monkeypatch.setitem(ADAPTERS, "deaf", lambda: deaf)
    monkeypatch.setattr("bench.peers.worker.LAST_WORDS", 0.01)
    worker = Worker({"number": 0, "adapter": "deaf", "url": "", "journal": str(tmp_path / "journal")})
    try:
        said = await worker.do_herd(key="key", seconds=0, raises=False, callers=4, at=0.0, patience=0.01)
    finally:
        deaf.end.set()
    assert [kind for _, kind in said["answers"]] == ["waiting"] * 4
    await asyncio.gather(*worker.callers)


@pytest.fixture
async def ours() -> AsyncIterator[Stage]:
    async with Stage("ours", TINY) as stage:
        yield stage


async def test_a_cold_herd_of_ours_computes_once_and_one_of_naive_calls_ten_times() -> None:
    # A process that a crowded machine starts late must still be in time for the herd.
    sizes = dataclasses.replace(TINY, seconds=0.8)
    rows = await measure(["naive", "ours"], ["cold"], sizes, step=lambda name, scenario: None)
    naive, guarded = (row.figures["cold"] for row in rows)
    assert (naive["computations"], naive["commands"], naive["wake_up_median"]) == (10, 20, None)
    assert guarded["computations"] == 1
    assert guarded["commands"] is not None and 4 <= guarded["commands"] <= 20
    assert guarded["wake_up_median"] is not None


async def test_what_befalls_the_computing_process_befalls_nobody_else(ours: Stage) -> None:
    raised = await SCENARIOS["raises"].play(ours)
    assert raised["computations"] == 1
    cancelled = await SCENARIOS["cancelled"].play(ours)
    assert (cancelled["computations"], cancelled["harmed"]) == (1, 0)
    killed = await SCENARIOS["killed"].play(ours)
    assert (killed["computations"], killed["unserved"]) == (2, 0)
    assert killed["takeover"] is not None and math.isfinite(killed["takeover"])


async def test_without_redis_each_process_computes_once_and_serves_all_its_callers(ours: Stage) -> None:
    gone = await SCENARIOS["redis-killed"].play(ours)
    assert (gone["computations"], gone["unserved"]) == (2, 0)


async def test_a_peer_that_cannot_be_opened_has_no_figures_and_ends_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.peers.fleet.WORKER", "bench.peers.there_is_no_such_module")
    (row,) = await measure(["ours"], ["hot"], TINY, step=lambda name, scenario: None)
    assert "has died" in row.failed["hot"] and row.figures == {}


def test_a_peer_for_newer_pythons_says_which_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    about = ADAPTERS["async-hybrid-cache"].about
    monkeypatch.setattr("bench.peers.adapter.sys.version_info", (3, 11, 9))
    assert about.missing() == "async-hybrid-cache needs Python 3.12"
    monkeypatch.setattr("bench.peers.adapter.sys.version_info", (3, 12, 1))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.5.0")
    assert (about.missing(), about.version) == ("", "0.5.0")


async def test_a_peer_that_is_not_installed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.adapter.About.missing", lambda about: "it is nowhere to be had")
    (row,) = await measure(["cashews"], ["cold"], TINY, step=lambda name, scenario: None)
    assert (row.not_run, row.figures, row.failed) == ("it is nowhere to be had", {}, {})
