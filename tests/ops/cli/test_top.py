"""`stampede-guard top`: what a fleet of real processes does while somebody watches."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from stampede_guard import StampedeGuard
from stampede_guard.ops.cli.commands.top import _as_json, _picture
from stampede_guard.ops.cli.running import screen
from stampede_guard.ops.fleet.snapshot import snapshot
from stampede_guard.stores.fleet.stream import from_stream
from tests.ops.cli.conftest import ROOT, Operator

PROCESSES = 3


def started(operator: Operator) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ops.cli.busy", operator.url, operator.namespace]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def pictures(operator: Operator) -> tuple[dict[str, Any], str]:
    """What --json and --once show as soon as all processes are in both.

    A process of a busy machine may publish too late for one picture. Raises `TimeoutError` if it never does.
    """
    async with asyncio.timeout(240):
        while True:
            told, shown = await asyncio.gather(
                asyncio.to_thread(operator.run, "top", "--json", "--names"),
                asyncio.to_thread(operator.run, "top", "--once", "--names"),
            )
            found = told.json
            here = {one["process"] for one in found["happened"]}
            if found["processes"] == len(here) == PROCESSES and f"processes {PROCESSES}" in shown.out:
                return found, shown.out


async def test_top_shows_what_the_processes_do(operator: Operator) -> None:
    fleet = [started(operator) for _ in range(PROCESSES)]
    try:
        for process in fleet:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        found, shown = await pictures(operator)
        modes = await operator.call("mode", "--json")
    finally:
        for process in fleet:
            process.communicate(timeout=60)

    assert found["away"] == 0
    quality = found["functions"]["shop.quality"]
    assert quality["calls"] == quality["hits"] + quality["stale"] + quality["misses"] > 0
    assert 0 < quality["computations"] < quality["calls"] and quality["saved"] > 0
    assert 0.003 < quality["compute_p50"] < 30
    assert found["functions"]["shop.broken"]["failed"] > 0
    assert any("shop.broken" in one for one in found["troubles"])
    herd = {one["kind"] for one in found["happened"]}
    assert {"asked", "granted", "began", "ended", "published", "landed"} <= herd
    assert "shop.quality" in shown and f"{operator.namespace}:shop.quality:" in shown, "--names"
    assert "computed, collapsed, failed and saved time: sums of the last" in shown
    assert modes.json == {}, "the viewer's switch is no mode"


async def test_top_shows_entries_too(operator: Operator) -> None:
    async with StampedeGuard.from_url(operator.url, namespace=operator.namespace) as guard:

        @guard.locked_cache(ttl=300, stale_ttl=60, name="shop.kept", tags=["project:{number}"])
        async def kept(number: int) -> int:
            return number

        @guard.locked_cache(ttl=300, name="shop.other")
        async def other(number: int) -> int:
            return number

        await asyncio.gather(kept(1), kept(2), other(1))
        told = await operator.call("top", "--json", "--wait=0", "--keys", "--function=kept")
        found = told.json["entries"]
        assert [(one["state"], one["function"]) for one in found] == [("fresh", "shop.kept")] * 2
        assert all(200 < one["fresh_left"] <= 300 and one["waiters"] == 0 for one in found)
        assert all(one["entry"].startswith("#") for one in found), "without --names"
        told = await operator.call("top", "--json", "--wait=0", "--keys", "--tag=project:2", "--names")
        assert [one["entry"] for one in told.json["entries"]] == [kept.key(2)]
        told = await operator.call("top", "--once", "--wait=0", "--keys", "--function=kept", "--names")
        assert "2 entries: 2 fresh" in told.out and "shop.other" not in told.out
    for refused, word in (("--state=fresh", "add --keys"), ("--state=warm", "fresh, stale")):
        told = await operator.call("top", "--once", "--wait=0", *(["--keys"] * ("warm" in refused)), refused)
        assert told.code == 2 and word in told.err


async def test_top_says_what_it_waits_for(operator: Operator) -> None:
    told = await operator.call("top", "--once", "--wait", "0")
    assert "waiting for the first numbers" in told.out
    assert told.err == "waiting for the first numbers of the fleet (0 s)...\n"
    assert (await operator.call("top", "--json", "--wait", "0")).err == ""
    nobody = screen_text(_picture(snapshot({1: {}}), [], operator.namespace))
    assert "no process of this namespace publishes" in nobody


def screen_text(picture: Any) -> str:
    screen = Console(file=io.StringIO(), width=200)
    screen.print(picture)
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_names_from_the_store_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;title\x07\x1b[2Jname\x9b"
    title = evil.encode()
    fields = {b"processes:": b"1", b"hot:" + title + b"\n" + title: b"1"}
    fields |= {kind + title: b"1" for kind in (b"hits:", b"computations:", b"failed:")}
    item = {"kind": evil, "process": evil, "function": evil, "what": evil}
    happened = from_stream([{b"at": b"1000", b"what": json.dumps(item).encode()}])
    screen().print(_picture(snapshot({1: fields}), happened, "shop"))
    shown = capsys.readouterr().out
    assert shown.count("name") >= 5
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_a_function_in_a_mode_that_is_not_counted_has_a_row() -> None:
    fields = {
        b"hits:shop.f": b"3",
        b"runs:shop.f\non": b"2",
        b"runs:shop.silent\noff": b"2",
        b"processes:": b"2",
    }
    seen = snapshot({7: fields})
    rows = _as_json(seen, [])["functions"]
    assert {title: (row["calls"], row["mode"]) for title, row in rows.items()} == {
        "shop.f": (3, "on"),
        "shop.silent": (0, "off"),
    }
    shown = io.StringIO()
    Console(file=shown, width=200).print(_picture(seen, [], "shop"))
    silent = next(line for line in shown.getvalue().splitlines() if line.startswith("shop.silent"))
    assert silent.split() == ["shop.silent", "0.0", "off"]
