"""The figures of the pages: nobody types them. Each is rendered from a record, between markers."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.figures import __main__ as program
from bench.figures.parts import PARTS, Part
from bench.figures.places import PLACES, write
from bench.figures.record import RECORDS, ROOT, Record, digest, load_all
from bench.http.results import Results as HttpResults
from bench.http.results import Row as HttpRow
from bench.markdown import between, into_page
from bench.peers.results import Results as PeersResults
from bench.peers.results import Row as PeersRow


def page(name: str) -> str:
    return (ROOT / PLACES[name].page).read_text("utf-8")


# --- what is committed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLACES)
def test_the_figures_of_a_page_are_those_of_the_records(name: str) -> None:
    stated = between(page(name), name)
    rendered = PLACES[name].rendered(load_all())
    if rendered is None:
        assert "earlier state" in stated.lower(), "without a record, the page says how old its figures are"
    else:
        assert stated == rendered, "a figure was typed by hand: `make figures` measures and writes them"


@pytest.mark.parametrize("record", load_all().values(), ids=lambda record: record.part)
def test_the_pictures_of_a_page_are_those_that_the_run_drew(record: Record) -> None:
    assert record.part in PARTS
    assert record.pictures.keys() == PARTS[record.part].pictures.keys()
    for path, drawn in record.pictures.items():
        assert digest(ROOT / path) == drawn, f"{path} is not the picture of the record"


def test_every_part_has_a_place_and_every_place_its_markers() -> None:
    assert {part for place in PLACES.values() for part in place.parts} == PARTS.keys()
    for name in PLACES:
        assert between(page(name), name)


# --- how it is written ---------------------------------------------------------------------------------


def test_figures_go_between_their_markers_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n\n<!-- figures:a -->\nold\n<!-- end:a -->\n\nafter\n")
    for _ in range(2):
        into_page(path, "| new |", name="a")
        assert path.read_text() == "before\n\n<!-- figures:a -->\n\n| new |\n\n<!-- end:a -->\n\nafter\n"
    assert between(path.read_text(), "a") == "| new |"
    for text in ("<!-- figures:a -->", "<!-- end:a --> <!-- figures:a -->", ""):
        path.write_text(text)
        with pytest.raises(ValueError):
            into_page(path, "new", name="a")


def test_a_changed_figure_is_seen_and_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.figures.places.ROOT", tmp_path)
    for place in PLACES.values():
        target = tmp_path / place.page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(re.sub(r"\d+\.\d us", "99.9 us", (ROOT / place.page).read_text("utf-8"), count=1))
    records = {"micro": Record.read(RECORDS / "micro.json")}
    assert write(records) == ["bench/README.md"]
    assert (tmp_path / "bench/README.md").read_text("utf-8") == (ROOT / "bench/README.md").read_text("utf-8")
    assert write(records) == []


def test_a_record_survives_the_way_through_json(tmp_path: Path) -> None:
    for load in ((0.25, 3.0), None):
        made = Record(
            part="micro", commit="abc", date="2026-01-02", load=load, figures={"a": 1}, pictures={"p": "d"}
        )
        assert Record.read(made.write(tmp_path)) == made
    assert "load of the machine was not recorded" in made.stamp


# --- the benchmarks whose records are not there yet ------------------------------------------------------


def recorded(part: str, figures: dict[str, Any]) -> Record:
    return Record(part=part, commit="abc1234", date="2026-01-02", load=(0.1, 2.0), figures=figures)


def samples() -> dict[str, Record]:
    peers = PeersResults("here")
    for name in ("ours", "cashews", "aiocache", "fastapi-cache2", "dogpile.cache"):
        cold = {"computations": 1.0 if name == "ours" else 400.0, "commands": 24.0}
        killed = {"takeover": 0.3 if name == "ours" else math.inf if name == "cashews" else None}
        peers.rows.append(
            PeersRow(name, "1.0", figures={"cold": cold, "killed": killed, "cancelled": {"harmed": 0.0}})
        )
    http = HttpResults("here", [HttpRow("ours", expiries=[1]), HttpRow("hishel, Redis", expiries=[64, 63])])
    latency = {"count": 2, "p50": 0.01, "p95": 0.2, "p99": 1.5, "max": None}
    mode = {
        "expiries": [1.0], "queries_per_expiry": [1], "redis_commands_per_expiry": None,
        "redis_commands_per_request": 1.0, "peak_concurrent_queries": 1, "db_cpu_peak": 46.0, "db_cpu_mean": 9.0,
        "others_cpu_mean": 1.0, "others_cpu_peak": 2.0, "latency": latency, "latency_after_expiry": latency,
        "share_over_2s": 0.0, "requests": 100, "requests_per_second": 10.0, "errors": 0, "workers": 8,
        "collapsed_per_expiry": [], "note": "",
    }  # fmt: skip
    demo = {
        "machine": "2 cores", "database": "PostgreSQL 18", "redis": "Valkey 9", "solo_seconds": 0.5, "ttl": 24.0,
        "users": 80, "seconds_per_mode": 75.0, "modes": {"naive": mode, "guard": mode},
    }  # fmt: skip
    tool = {"tree": "everything", "files": 10, "bytes": 1000, "tool": "bandit"}
    walk = {"calls": 10, "computations": 1, "ours": 1.0, "server": 2.0, "seconds": 0.5}
    costs = dict.fromkeys("read read_key acquire held publish told renew invalidate".split(), 2.0)
    expiry = {
        "processes": 8, "compute": 0.45, "computations": 1, "commands": {"read": 16}, "busy": 0.1,
        "last_served": 0.2, "median_served": 0.1, "longest_answer": 0.3,
    }  # fmt: skip
    cell = {"processes": 1, "keys": 1, "rounds": 1, "cold": walk, "warm": walk, "as_promised": True}
    scale = {"setting": "2 cores", "grid": [cell], "costs": costs, "expiries": [expiry]}
    figures = {
        "demo": demo, "peers": peers.to_json(), "http": http.to_json(), "scale": scale,
        "watching": {"setting": "2 cores", "rows": [["a hit", "31.7 us"]]},
        "audit": {"setting": "2 cores", "rows": [tool]}, "micro": Record.read(RECORDS / "micro.json").figures,
    }  # fmt: skip
    # As it comes from a file.
    return {part: recorded(part, json.loads(json.dumps(found))) for part, found in figures.items()}


WANTED = {
    "demo": "| queries per expiry | 1 | 1 |",
    "micro": "| hits one after the other (asyncio) |",
    "peers": "### In one table",
    "http": "| **ours** |",
    "scale": "One expiry of one key",
    "sizes": "serves about 500,000 hits per second if each comes alone (1 s / 2 us)",
    "watching": "| a hit | 31.7 us |",
    "audit": "| everything | 10 | 0.0 | bandit | NOT RUN |",
    "compared": "| When is a killed holder replaced? Seconds | **0.30** | never | - | - | - |",
}


@pytest.mark.parametrize("name", PLACES)
def test_each_benchmarks_figures_become_a_table_with_their_commit(name: str) -> None:
    text = PLACES[name].rendered(samples())
    assert text is not None
    assert text.startswith("Commit `abc1234`, 2026-01-02")
    assert WANTED[name] in text


def test_the_readme_has_room_for_its_table() -> None:
    readme = page("compared")
    found = samples()
    found["http"] = replace(found["http"], commit="def5678")
    rendered = PLACES["compared"].rendered(found)
    assert rendered is not None
    assert len(readme.replace(between(readme, "compared"), rendered).split()) <= 700


# --- the run -------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One part, which a small program measures; records and pages are not the repository's."""
    monkeypatch.setattr(program, "OUT", tmp_path / "out")
    monkeypatch.setattr(program, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "load_all", dict)
    monkeypatch.setattr(program, "_git", lambda *arguments: "" if arguments[0] == "status" else "abc1234")
    return tmp_path


def commanded(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def command(part: Part, out: Path, *, quick: bool) -> list[str]:
        return [sys.executable, "-c", code, str(out)]

    monkeypatch.setattr(Part, "command", command)


MEASURES = 'import sys, pathlib; pathlib.Path(sys.argv[1], "micro.json").write_text(\'{"setting": "x", "rows": {}}\')'


def test_a_run_is_recorded_with_its_commit_and_the_load(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commanded(monkeypatch, MEASURES)
    assert program.main(["--only", "micro"]) == 0
    record = Record.read(here / "records" / "micro.json")
    assert (record.commit, record.figures) == ("abc1234", {"setting": "x", "rows": {}})
    assert record.load is not None and 0 <= record.load[0] <= record.load[1]


def test_a_quick_run_leaves_the_records_as_they_are(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commanded(monkeypatch, MEASURES)
    assert program.main(["--only", "micro", "--quick"]) == 0
    assert not (here / "records").exists()
    assert "| work | ours |" in capsys.readouterr().out


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "pass"])
def test_what_could_not_be_measured_leaves_no_record_and_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    commanded(monkeypatch, code)
    assert program.main(["--only", "micro", "scale"]) == 1
    assert "NOT MEASURED: micro, scale" in capsys.readouterr().err
    assert not (here / "records").exists()


def test_figures_that_break_a_promise_are_recorded_and_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = json.dumps(samples()["scale"].figures)
    commanded(
        monkeypatch,
        f"import sys, pathlib; pathlib.Path(sys.argv[1], 'scale.json').write_text({scale!r}); sys.exit(1)",
    )
    assert program.main(["--only", "scale"]) == 1
    assert "A PROMISE IS BROKEN, see the table: scale" in capsys.readouterr().err
    assert Record.read(here / "records" / "scale.json").figures == json.loads(scale)


def test_figures_of_uncommitted_code_are_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = " M stampede_guard/policy.py\n M bench/README.md\n M bench/figures/records/micro.json"
    monkeypatch.setattr(program, "_git", lambda *arguments: status)
    assert program.main(["--only", "micro"]) == 2
    assert "stampede_guard/policy.py" in capsys.readouterr().err
    assert program.uncommitted() == ["stampede_guard/policy.py"]


def test_every_command_is_a_target_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for part in PARTS.values():
        assert f"\n{part.target}: " in makefile and f"$({part.variable})" in makefile
        assert "{out}" in part.full and "{out}" in part.quick
