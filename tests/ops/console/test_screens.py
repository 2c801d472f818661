"""What the pages show of processes that publish."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from tests.ops.cli.conftest import ROOT
from tests.ops.console.conftest import BASE, Browser

PROCESSES = 2


async def shown(browser: Browser, path: str, until: Any, **query: str) -> Any:
    """The JSON twin as soon as the fleet's numbers are there."""
    async with asyncio.timeout(60):
        while True:
            found = (await browser.see(f"/api{path}", **query)).json()
            if until(found):
                return found
            await asyncio.sleep(0.5)


@pytest.fixture
async def fleet(valkey_url: str, namespace: str) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "tests.ops.cli.busy", valkey_url, namespace]
    made = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for process in made:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
        yield
    finally:
        for process in made:
            await asyncio.to_thread(process.communicate, timeout=60)


async def test_pages_show_what_the_fleet_does(fleet: None, browser: Browser) -> None:
    found = await shown(browser, "/overview", lambda told: told.get("processes") == PROCESSES)
    assert found["rates"]["hits"] > 0 and found["breaker"]["ok"] == PROCESSES
    assert any("shop.broken" in one for one in found["troubles"])
    assert any(found["history"]["hits"])
    page = (await browser.see("/")).text
    assert "shop.broken" in page and "<svg" in page and 'class="area c1"' in page

    rows = (await browser.see("/api/functions", sort="name", order="up")).json()["functions"]
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    row = next(row for row in rows if row["name"] == "shop.quality")
    assert row["calls"] > row["computations"] > 0 and row["saved_per_hour"] > 0 and row["mode"] == ""
    page = (await browser.see("/functions", q="QUAL")).text
    assert "shop.quality" in page and "shop.broken" not in page


async def test_a_mode_is_switched_for_the_fleet_and_recorded(
    guard: StampedeGuard, acting: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await acting.submit("mode", page="/functions", function="shop.quality", to="bypass")
    assert answer.status_code == 200 and "is in mode bypass" in answer.text
    told = (await acting.see("/api/functions")).json()
    assert told["switches"] == {"shop.quality": {"mode": "bypass", "sample": None, "left": None}}
    (record,) = [one for one in caplog.records if one.name == "stampede_guard.console"]
    assert "'ada'" in record.getMessage() and "shop.quality" in record.getMessage()
    (item,) = [
        one for one in (await acting.see("/api/overview")).json()["happened"] if one["kind"] == "operator"
    ]
    assert item["function"] == "shop.quality" and item["detail"]["user"] == "ada"

    answer = await acting.submit("mode", page="/functions", function="shop.quality", to="default")
    assert answer.status_code == 200
    assert (await acting.see("/api/functions")).json()["switches"] == {}


async def test_a_form_of_another_site_changes_nothing(acting: Browser) -> None:
    fields = {"function": "*", "to": "off"}
    refused = [
        await acting.submit("mode", page="/functions", origin="https://evil.test", **fields),
        await acting.submit("mode", page="/functions", origin="null", **fields),
        await acting.submit("mode", page="/functions", token="0" * 64, **fields),
        await acting.submit("mode", page="/functions", token="", **fields),
    ]
    token = (await acting.see("/functions")).text.split('name="token" value="')[1][:64]
    sent = {**fields, "token": token}
    refused += [
        await acting.post("/ops/act/mode", data=sent),
        await acting.post(
            "/ops/act/mode", data=sent, headers={"sec-fetch-site": "same-site", "origin": BASE}
        ),
    ]
    acting.cookies.clear()
    refused.append(await acting.submit("mode", token=token, **fields))
    assert [one.status_code for one in refused] == [403] * 7
    assert (await acting.see("/api/functions")).json()["switches"] == {}


async def test_wrong_and_large_forms_are_refused(acting: Browser) -> None:
    for fields in (
        {},
        {"function": "x" * 300, "to": "on"},
        {"function": "f", "to": "fly"},
        {"function": "*watched", "to": "on"},
    ):
        answer = await acting.submit("mode", page="/functions", **fields)
        assert answer.status_code == 400, fields
    assert (await acting.submit("mode", token="x", function="y" * 20_000)).status_code == 400
    answer = await acting.post("/ops/act/mode", json={"to": "on"}, headers={"origin": BASE})
    assert answer.status_code == 400


async def test_wrong_parameters_are_told(browser: Browser) -> None:
    answer = await browser.see("/api/functions", sort="nothing")
    assert answer.status_code == 400 and "sort must be one of" in answer.json()["error"]
    assert (await browser.see("/functions", order="sideways")).status_code == 400
