"""The HTTP caches side by side: the arithmetic, and the harness with what needs no peer. Counts only, never a time."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from bench.http.__main__ import parse
from bench.http.client import Failed, ask, ask_once
from bench.http.expiry import calls_per_expiry
from bench.http.nginx import Nginx
from bench.http.peers import BARE, HISHEL, NGINX, NOTHING, OURS, PEERS
from bench.http.plan import Sizes
from bench.http.report import TITLES, bar_lines, cells, draw, markdown
from bench.http.results import Results, Row
from bench.http.run import measure
from bench.journal import Line

ROOT = Path(__file__).resolve().parents[2]
TINY = Sizes(
    rounds=1, round_seconds=0.2, connections=4, calls=64, workers=2, users=5, pause=0.05, ttl=1, compute=0.3,
    expiries=2,
)  # fmt: skip


def line(at: float) -> Line:
    return Line("report", 1, "started", at)


def results(**columns: list[float]) -> Results:
    """Ours with these figures, beside a bare app and a hishel with ones."""
    ones = {name: [1.0] * len(figures) for name, figures in columns.items()}
    return Results(
        "here", [Row(BARE, rounds=ones), Row(OURS, rounds=dict(columns)), Row(HISHEL[0], rounds=ones)]
    )


# --- arithmetic ----------------------------------------------------------------------------------------


def test_calls_close_to_each_other_are_one_expiry_and_the_first_only_fills() -> None:
    lines = [line(at) for at in (0.0, 2.0, 2.1, 2.2, 4.5, 6.9, 7.0)]
    assert calls_per_expiry(lines, quiet=1.0, until=6.5) == [3, 1]
    assert calls_per_expiry([], quiet=1.0, until=9.0) == []


def test_ratios_are_of_neighbours_and_their_median_counts() -> None:
    found = Results("here", [Row(BARE, rounds={"cpu": [1, 10, 1]}), Row(OURS, rounds={"cpu": [2, 10, 3]})])
    assert found.ratio(OURS, "cpu") == 2
    assert found.ratio(OURS, "rate") is None
    assert found.ratio(OURS, "cpu", to=HISHEL[0]) is None


def test_the_cpu_of_a_hit_is_also_held_against_an_endpoint_that_does_nothing() -> None:
    found = Results("here", [Row(NOTHING, rounds={"cpu": [2.0]}), Row(BARE, rounds={"cpu": [4.0]})])
    found.rows.append(Row(OURS, rounds={"cpu": [3.0]}))
    place = TITLES.index("x nothing")
    assert [cells(found, row)[place] for row in found.rows] == ["1.00", "2.00", "1.50"]


def test_a_bar_is_met_or_missed_on_its_own_side() -> None:
    missed = results(cpu_alone=[1.5, 1.4, 1.5], rate=[1.9])
    assert [bar.met for bar in missed.bars()] == [False, False]
    met = results(cpu_alone=[1.3], rate=[2.0])
    assert [bar.met for bar in met.bars()] == [True, True]
    met.row(OURS).expiries = [1, 1, 2]
    assert [bar.met for bar in met.bars()] == [True, True, False]
    assert bar_lines(met)[-1].endswith("MISSED")


# --- report --------------------------------------------------------------------------------------------


def test_what_could_not_run_keeps_its_row_with_the_reason(tmp_path: Path) -> None:
    found = results(rate=[3.0], p99=[0.01], cpu=[1e-4])
    found.rows.append(Row(NGINX, not_run="nginx is not installed"))
    found.rows.append(Row("fastapi-cache2", failed="it did not start\nfor a reason"))
    text = markdown(found)
    assert "NOT RUN: nginx is not installed" in text
    assert "failed: it did not start |" in text
    assert all(len(cells(found, row)) == len(TITLES) for row in found.rows)
    draw(found, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_figures_survive_the_way_through_json() -> None:
    found = results(rate=[3.0])
    found.row(OURS).expiries = [1]
    assert Results.from_json(found.to_json()) == found


def test_every_peer_is_pinned_and_says_its_option() -> None:
    pins = (ROOT / "bench" / "http" / "requirements.txt").read_text()
    for peer in PEERS.values():
        about = peer.about
        assert about.page and about.option
        if about.distribution:
            assert re.search(rf"^{re.escape(about.distribution)}(\[.*\])?==\d", pins, re.MULTILINE), (
                about.name
            )


def test_all_peers_are_measured_unless_some_are_named() -> None:
    assert parse([]).only == list(PEERS)
    assert parse(["--only", "ours"]).only == ["ours"]
    with pytest.raises(SystemExit):
        parse(["--only", "nobody"])


# --- the harness, small --------------------------------------------------------------------------------


async def test_one_run_has_every_figure_of_ours_and_of_the_bare_app() -> None:
    steps: list[str] = []
    found = await measure([OURS], TINY, setting="here", step=steps.append)
    assert [row.name for row in found.rows] == [NOTHING, BARE, OURS]
    for row in found.rows:
        assert not row.failed, row.failed
        assert {name: len(figures) for name, figures in row.rounds.items()} == dict.fromkeys(
            ("cpu_alone", "cpu_together", "rate", "p99", "cpu"), 1
        )
    ours = found.row(OURS)
    assert set(ours.expiries) == {1} and ours.errors == 0
    assert len(found.bars()) == 4


async def test_a_peer_that_does_not_start_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.adapter.About.missing", lambda about: "it is nowhere to be had")
    found = await measure([], TINY, setting="here", step=lambda what: None)
    assert [row.name for row in found.rows] == [NOTHING, BARE]
    for row in found.rows:
        assert (row.not_run, row.rounds, row.expiries) == ("it is nowhere to be had", {}, [])


async def test_errors_of_a_peer_are_counted_where_they_may_happen_and_end_a_measurement_where_not() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        answers = await ask(port, "/", users=2, seconds=0.3, pause=0.05, tolerant=True)
        assert answers.errors >= 2 and answers.seconds == []
        with pytest.raises(Failed, match="500"):
            await ask(port, "/", users=2, seconds=0.3)
        with pytest.raises(Failed, match="500"):
            await ask_once(port, "/")


def test_without_nginx_its_row_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.http.nginx._program", lambda: None)
    assert PEERS[NGINX].missing() == "nginx is not installed"
    with pytest.raises(RuntimeError, match="not installed"), Nginx(1, workers=1):
        pass
