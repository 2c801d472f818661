"""The report and the JSON tell what was measured, also when something was not."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from bench.herd.database import Calibration
from bench.herd.measure import measure
from bench.herd.modes import Mode
from bench.herd.plan import QUICK
from bench.herd.recording import CpuSample, DatabaseSample, Recording, Request
from bench.herd.report import headline, write_report
from bench.herd.stage import Stage
from bench.herd.story import Story, Told
from bench.herd.table import rows, table_so_far, terminal_table
from stampede_guard.ops.fleet.herds import herds
from tests.ops.fleet.test_herds import computed, waited


def told(mode: Mode, queries: int, *, others: float = 0.0) -> Told:
    backends = tuple((number, 11.0) for number in range(queries))
    recording = Recording(
        mode=mode,
        ramped=10.0,
        stopped=28.0,
        requests=[Request(10.0 + 0.5 * step, 0.002, 200, 1 + step % 8) for step in range(36)],
        database=[
            DatabaseSample(10.0, 0),
            DatabaseSample(11.1, 0, backends),
            DatabaseSample(12.0, queries),
        ],
        cpu=[CpuSample(11.0, 0.5, 0.1, others)],
        redis_commands=[11.05, 11.06],
    )
    return Told(recording, measure(recording, quiet=QUICK.quiet))


def story(*modes: Told, solo: float = 0.45) -> Story:
    stage = Stage(
        database_url="", database_version="PostgreSQL 18", database_pids=None, query_id=1,
        calibration=Calibration(solo, 1_400_000, 198.0), redis_url="", redis_version="Valkey 9.1",
        redis_pids=tuple, monitored=True,
    )  # fmt: skip
    return Story(QUICK, stage, "2 cores", {one.recording.mode: one for one in modes})  # type: ignore[misc]


TWO = (told("local", 8), told("guard", 1))


def test_the_json_has_a_list_of_queries_per_expiry_for_every_mode(tmp_path: Path) -> None:
    story(*TWO).write_json(tmp_path / "deep" / "herd.json")
    content = json.loads((tmp_path / "deep" / "herd.json").read_text())
    assert {mode: content["modes"][mode]["queries_per_expiry"] for mode in content["modes"]} == {
        "local": [8],
        "guard": [1],
    }
    assert content["modes"]["guard"]["redis_commands_per_expiry"] == [2]
    assert content["solo_seconds"] == 0.45


def test_figures_that_do_not_exist_are_null_in_the_json(tmp_path: Path) -> None:
    quiet = Recording(mode="guard", ramped=10.0, stopped=28.0)
    story(Told(quiet, measure(quiet, quiet=2.0))).write_json(tmp_path / "herd.json")
    figures = json.loads((tmp_path / "herd.json").read_text())["modes"]["guard"]
    assert figures["queries_per_expiry"] == []
    assert figures["latency"]["p99"] is None
    assert figures["db_cpu_peak"] is None


def test_the_report_is_one_file_that_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    picture = write_report(story(*TWO), tmp_path / "herd.html")
    page = (tmp_path / "herd.html").read_text()
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert page.count("data:image/png;base64,") == 3
    assert "local 8; guard 1" in page
    assert picture == tmp_path / "herd.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "herd-two.png").read_bytes().startswith(b"\x89PNG")


def test_a_mode_without_any_expiry_can_still_be_reported(tmp_path: Path) -> None:
    quiet = Recording(mode="naive", ramped=10.0, stopped=28.0)
    told_nothing = Told(quiet, measure(quiet, quiet=2.0))
    write_report(story(told_nothing), tmp_path / "herd.html")
    assert "no expiry was seen" in (tmp_path / "herd.html").read_text()


def test_the_headline_gives_the_span_of_queries_per_expiry() -> None:
    assert headline(story(*TWO)) == "Queries per expiry: local 8; guard 1."


def test_the_table_has_one_text_per_mode_in_every_row() -> None:
    assert {len(texts) for _, texts in rows(story(*TWO))} == {2}
    output = io.StringIO()
    Console(file=output, width=120).print(terminal_table(story(*TWO)))
    assert "queries per expiry" in output.getvalue()


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (story(told("naive", 80)), "naive: requests that missed wait for a pooled connection"),
        (story(*TWO, solo=0.2), "less than 300 or more than 700 ms"),
        (story(told("guard", 1, others=0.6)), "other programs used up to 60 % of the CPU"),
    ],
)
def test_what_makes_the_times_misleading_is_said(one: Story, said: str) -> None:
    assert any(said in note for note in one.notes)


def test_a_clean_run_has_no_notes() -> None:
    assert story(*TWO).notes == []


def test_the_first_mode_is_told_while_the_others_run() -> None:
    output = io.StringIO()
    Console(file=output, width=120).print(table_so_far(story(TWO[0])))
    text = output.getvalue()
    assert "So far" in text and "local" in text
    assert re.search(r"queries per expiry .*\b8\b", text) and "P99" in text and "Redis commands" not in text


def test_one_expiry_is_drawn_from_inside_the_workers(tmp_path: Path) -> None:
    guard = told("guard", 1)
    (guard.recording.herd,) = herds([*computed("host/1"), *waited("host/2")])
    write_report(story(told("local", 8), guard), tmp_path / "herd.html")
    page = (tmp_path / "herd.html").read_text()
    assert "One expiry from inside the workers" in page and page.count('class="lane"') == 2
    assert "<script" not in page
