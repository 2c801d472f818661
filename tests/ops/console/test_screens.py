"""What the pages show of processes that publish."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.ops.console.app import ASSETS
from stampede_guard.ops.console.fleet import Fleet
from stampede_guard.ops.console.live import MOST_STREAMS
from stampede_guard.ops.console.screens import SCREENS
from stampede_guard.ops.console.screens.functions import MOST_ROWS, in_order
from stampede_guard.ops.fleet.snapshot import Snapshot
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.sums import FunctionSums
from stampede_guard.stores.switch import Switch
from tests.ops.cli.conftest import ROOT
from tests.ops.console.conftest import ACTIONS, BASE, Browser, a_browser, live

PROCESSES = 2
NO_GAUGES: Any = dict.fromkeys(("processes", "in_flight", "l1_bytes", "ok", "away", "refused", "full"), 0)


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


def test_rows_keep_the_order_of_names_and_what_is_not_known_comes_last() -> None:
    rows: list[dict[str, Any]] = [
        {"name": name, "took": took} for name, took in (("c", 1.0), ("a", None), ("b", 2.0), ("d", 1.0))
    ]
    assert [row["name"] for row in in_order(rows, "took", down=True)] == ["b", "c", "d", "a"]
    assert [row["name"] for row in in_order(rows, "took", down=False)] == ["c", "d", "b", "a"]


async def test_a_page_of_functions_has_a_bound(monkeypatch: pytest.MonkeyPatch, browser: Browser) -> None:
    seen = Snapshot(
        seconds=30.0,
        functions={f"shop.f{number:03}": FunctionSums(hits=number) for number in range(MOST_ROWS + 5)},
        hottest=(),
        **NO_GAUGES,
    )

    async def now(self: Fleet) -> Snapshot:
        return seen

    monkeypatch.setattr(Fleet, "now", now)
    told = (await browser.see("/api/functions")).json()
    assert len(told["functions"]) == MOST_ROWS and told["left_out"] == 5
    assert "5 more are left out" in (await browser.see("/functions")).text
    assert "left out" not in (await browser.see("/functions", q="f001")).text


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
    assert row["calls"] > row["computations"] > 0 and row["saved_per_hour"] > 0
    assert row["mode"] == "on" and row["switch"] == ""
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


async def test_a_function_is_shown_over_time_with_its_policy(
    fleet: None, guard: StampedeGuard, browser: Browser
) -> None:
    @guard.locked_cache(ttl=77, name="shop.quality")
    async def quality(project: int) -> int:
        return project

    found = await shown(
        browser, "/function", lambda told: told["function"]["calls"] and told["hottest"], name="shop.quality"
    )
    assert any(map(any, found["history"]["took"])) and any(map(any, found["history"]["waited"]))
    assert all(hot["key"].startswith("#") for hot in found["hottest"]), "names are hashed unless asked for"
    ttl = next(row for row in found["policy"] if row["field"] == "ttl")
    assert ttl["value"] == 77 and ttl["set"] and "short enough" in ttl["reason"]
    assert any("began" in text for _, text in found["marks"]), "the processes of the fleet are new"
    page = (await browser.see("/function", name="shop.quality")).text
    assert 'class="heat"' in page and "<strong>77</strong>" in page


async def test_a_function_that_is_not_counted_is_listed_with_the_modes_of_its_processes(
    monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    seen = Snapshot(
        seconds=30.0,
        functions={"shop.f": FunctionSums(hits=1)},
        hottest=(),
        modes={"shop.f": {"on": 3, "shadow": 1}, "shop.silent": {"off": 4}},
        left_out=16,
        **NO_GAUGES,
    )

    async def now(self: Fleet) -> Snapshot:
        return seen

    monkeypatch.setattr(Fleet, "now", now)
    told = (await browser.see("/api/functions", sort="mode", order="up")).json()
    rows = {row["name"]: row for row in told["functions"]}
    assert list(rows) == ["shop.silent", "shop.f"] and told["known"] == 2
    assert (rows["shop.silent"]["calls"], rows["shop.silent"]["mode"]) == (0, "off")
    assert rows["shop.f"]["mode"] == "on in 3, shadow in 1"
    reached = await browser.fleet.reached()
    await reached.steps.switch(browser.fleet.namespace, "shop.silent", Switch("bypass"))
    row = next(one for one in (await browser.see("/api/functions")).json()["functions"] if one["calls"] == 0)
    assert (row["mode"], row["switch"]) == ("off", "bypass")
    page = (await browser.see("/functions")).text
    assert "switch: bypass" in page and "about 16 more functions in a process" in page


async def test_a_console_without_the_function_shows_the_policy_that_processes_publish(
    guard: StampedeGuard, browser: Browser
) -> None:
    reached = await browser.fleet.reached()
    now = int(await reached.servers.now() // WATCHED.seconds)
    for text in (
        '{"ttl":77.0,"compression":"zstd"}',
        '{"ttl":300.0,"compression":"zstd"}',
        '{"ttl":"<b>"}',
        "[",
    ):
        await reached.steps.count(guard.namespace, WATCHED, now - 1, {f"policy:shop.far\n{text}": 1})
    found = await shown(browser, "/function", lambda told: told["policy"], name="shop.far")
    rows = {row["field"]: row for row in found["policy"]}
    assert {rows["ttl"]["value"], *rows["ttl"]["others"]} == {77, 300} and rows["ttl"]["set"]
    assert rows["compression"]["value"] == "zstd" and rows["compression"]["others"] == []
    assert rows["lease_ttl"]["value"] == 3 and not rows["lease_ttl"]["set"]
    page = (await browser.see("/function", name="shop.far")).text
    assert "<strong>zstd</strong>" in page and "As processes published it" in page


async def test_a_function_needs_a_name(browser: Browser) -> None:
    refused = await browser.see("/api/function")
    assert refused.status_code == 400 and "name= is missing" in refused.json()["error"]
    told = (await browser.see("/api/openapi.json")).json()
    assert told["paths"]["/api/function"]["get"]["parameters"][0]["required"] is True
    unknown = await browser.see("/function", name="no.such")
    assert unknown.status_code == 200 and "No process has published it" in unknown.text


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"


async def test_names_with_html_stay_text(guard: StampedeGuard, acting: Browser) -> None:
    """Names of functions, keys and processes come from the store, where another program may have written them."""
    fleet = acting.fleet
    reached = await fleet.reached()
    numbers = {
        f"hits:{EVIL}": 5,
        f"failed:{EVIL}": 1,
        f"computations:{EVIL}": 1,
        f"took3:{EVIL}": 1,
        "processes:": 1,
    }
    numbers[f"hot:{EVIL}\n{EVIL}"] = 5
    numbers[f"runs:{EVIL}\n{EVIL}"] = 5
    numbers[f"policy:{EVIL}\n{EVIL}"] = 5
    now = int(await reached.servers.now() // WATCHED.seconds)
    # A slot may be one ahead; it is shown when it is complete.
    await reached.steps.count(guard.namespace, WATCHED, now, numbers)
    line = {"kind": EVIL, "process": EVIL, "function": EVIL, "key": EVIL, EVIL: EVIL}
    await reached.steps.tell(guard.namespace, [(0, json.dumps(line))])
    await shown(acting, "/functions", lambda told: any(row["name"] == EVIL for row in told["functions"]))
    await acting.submit("mode", page="/functions", function=EVIL[:200], to="shadow")

    listed = [screen for screen in SCREENS if screen.listed or screen.name == "function"]
    for screen in listed:
        asked = {one.name: EVIL for one in screen.parameters if not one.choices and one.number is None}
        page = (await acting.see(screen.path, **asked)).text
        assert "<script>alert" not in page and "<img" not in page, screen.name
        assert programs_in(page) == ["/ops/static/console.js"], screen.name
        # The page's own address is in its forms and links.
        page = (await acting.see(screen.path, **{EVIL: EVIL})).text
        assert programs_in(page) == ["/ops/static/console.js"], screen.name


def programs_in(page: str) -> list[str]:
    """What a browser would run: the sources of scripts, and every attribute that contains code or style."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(name for name, _ in attrs if name.startswith("on") or name in ("style", "srcdoc"))
            found.extend(
                value for _, value in attrs if value and value.strip().lower().startswith("javascript:")
            )
            if tag in ("script", "iframe", "object", "style", "img"):
                found.append(str(dict(attrs).get("src")).partition("?")[0])

    Reader().feed(page)
    return found


async def test_without_the_store_there_is_an_honest_page(namespace: str) -> None:
    guard = StampedeGuard.from_url("redis://user:hunter2@127.0.0.1:1/0", namespace=namespace)
    async with a_browser(guard, actions=ACTIONS) as browser:
        for screen in SCREENS:
            page = await browser.see(screen.path)
            assert page.status_code in (400, 404, 503) and "hunter2" not in page.text, screen.name
        assert "no numbers now" in (await browser.see("/")).text
        assert (await browser.see("/api/overview")).status_code == 503
        # A form is shown on no page.
        token = await browser.token()
        assert (await browser.submit("mode", token=token, function="f", to="on")).status_code == 503


async def test_while_the_store_is_away_a_page_shows_what_it_showed_last(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    guard = StampedeGuard.from_url(own_valkey.url, namespace=namespace)
    async with a_browser(guard, actions=ACTIONS) as browser:
        before = (await browser.see("/functions")).text
        assert "Redis is away" not in before
        own_valkey.kill()
        away = await browser.see("/functions")
        assert away.status_code == 200
        assert re.search(r"Redis is away.*numbers of \d\d:\d\d:\d\d UTC", away.text, re.DOTALL)
        assert re.search("<h1>Functions</h1>", away.text)
        assert 'method="post"' not in away.text
        # Another page has shown nothing before, and a program must not take old numbers for new ones.
        assert (await browser.see("/functions", q="other")).status_code == 503
        assert (await browser.see("/api/functions")).status_code == 503
        own_valkey.start()
        after = await browser.see("/functions")
        assert (after.status_code, "Redis is away" in after.text) == (200, False)


async def test_live_parts_are_sent_while_a_page_is_open(browser: Browser) -> None:
    """Streams end with their page, and there are not too many."""
    console = browser.console
    stream = await live(console, "/live/overview")
    assert stream.headers["x-accel-buffering"] == "no", "nginx would keep the events back"
    assert stream.status == 200 and "data-live" in stream.text and stream.text.startswith("data: ")
    assert not console._streams._open
    console._streams._open = MOST_STREAMS
    assert (await browser.see("/live/overview")).status_code == 204
    console._streams._open = 0


async def test_the_document_describes_every_page(browser: Browser) -> None:
    told = (await browser.see("/api/openapi.json")).json()
    assert told["openapi"] == "3.1.0" and told["servers"] == [{"url": "/ops"}]
    assert {f"/api/{screen.name}" for screen in SCREENS} == told["paths"].keys()


def test_what_the_browser_loads_is_small() -> None:
    room = ROOT / "stampede_guard" / "ops" / "console"
    files = [*(room / "static").iterdir(), *(room / "templates").iterdir()]
    assert {path.name for path in (room / "static").iterdir()} == ASSETS.keys()
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 150_000


def live_parts(text: str) -> list[str]:
    """The ids of what is replaced while a page is open: console.js replaces all if they change."""
    return re.findall(r'<\w+ (?=[^>]* data-live)[^>]*?id="(\w+)"', text)


async def test_a_page_has_the_same_live_parts_before_and_after_something_happened(
    guard: StampedeGuard, browser: Browser
) -> None:
    asked = {"function": {"name": "shop.quality"}}
    screens = [screen for screen in SCREENS if screen.name in ("overview", "functions", "function", "herds")]
    before = [live_parts((await browser.see(one.path, **asked.get(one.name, {}))).text) for one in screens]
    reached = await browser.fleet.reached()
    line = {"kind": "fallback", "function": "shop.quality", "process": "p", "key": "#1", "flight": "1"}
    await reached.steps.tell(guard.namespace, [(5, json.dumps(line))])
    await reached.steps.switch(guard.namespace, "shop.quality", Switch("bypass"))
    browser.fleet.tell_news()
    after = [live_parts((await browser.see(one.path, **asked.get(one.name, {}))).text) for one in screens]
    assert before == after and all(before)
    assert (
        "happened" in before[2] and "fallback" in (await browser.see("/function", name="shop.quality")).text
    )
