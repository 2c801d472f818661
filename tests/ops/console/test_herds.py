"""The screen of herds: a real herd of three guards, a herd with a fault, and words that are no markup."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.core.states import Waiting
from stampede_guard.errors import StoreRefused
from stampede_guard.ops.console import fleet as fleets
from stampede_guard.ops.console.pages import duration_text
from stampede_guard.ops.console.screens import herds
from stampede_guard.ops.fleet.herds import HerdStory
from stampede_guard.ops.fleet.lanes import STYLE
from stampede_guard.ops.fleet.viewer import Viewer
from stampede_guard.policy import Policy
from stampede_guard.stores.fleet.stream import Happening
from tests.ops.console.conftest import Browser
from tests.support.gate import Gate, until
from tests.support.sessions import patient

HOSTILE = '"><script>alert(1)</script>'


def waits(guard: StampedeGuard) -> bool:
    """Whether a flight of this guard is among the waiters that the store knows."""
    return any(isinstance(flight.state.phase, Waiting) for flight in guard.engine.runtime().flights.values())


async def published(guard: StampedeGuard) -> None:
    await guard.engine.runtime().publishers.aclose()


async def test_viewers_of_one_moment_share_what_was_read_and_put_together(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, read, gathered = [100.0], Counter[int](), Counter[str]()
    asked, together = Viewer.herd_lines, fleets.herds

    async def herd_lines(watch: Viewer, *, most: int = 200) -> list[Happening]:
        read[most] += 1
        return await asked(watch, most=most)

    def herds_of(lines: list[Happening]) -> list[HerdStory]:
        gathered["herds"] += 1
        return together(lines)

    monkeypatch.setattr(Viewer, "herd_lines", herd_lines)
    monkeypatch.setattr(fleets, "herds", herds_of)
    monkeypatch.setattr(browser.fleet, "_clock", lambda: now[0])
    pages = await asyncio.gather(*(browser.see("/herds") for _ in range(8)))
    assert {page.status_code for page in pages} == {200}
    now[0] += fleets.LINES_SECONDS - 0.1
    await browser.see("/api/herds", only="faults")
    assert (read[herds.LINES], gathered["herds"]) == (1, 1)
    now[0] += 0.2
    await browser.see("/herds")
    assert (read[herds.LINES], gathered["herds"]) == (2, 2)


async def test_lines_that_could_not_be_read_are_asked_for_again(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, fails = Viewer.herd_lines, [True]

    async def herd_lines(watch: Viewer, *, most: int = 200) -> list[Happening]:
        if fails.pop():
            raise StoreRefused("LOADING")
        return await asked(watch, most=most)

    monkeypatch.setattr(Viewer, "herd_lines", herd_lines)
    assert (await browser.see("/herds")).status_code == 503
    fails.append(False)
    assert (await browser.see("/herds")).status_code == 200


async def test_a_herd_of_a_fleet_is_a_row_a_figure_and_a_table(
    browser: Browser, valkey_url: str, namespace: str
) -> None:
    async with AsyncExitStack() as stack:
        # Only the message ends a wait: a poll might find the value first.
        policy = Policy(poll_interval=60, lease_ttl=60)
        made = [
            StampedeGuard.from_url(patient(valkey_url), namespace=namespace, policy=policy) for _ in range(3)
        ]
        fleet = [await stack.enter_async_context(guard) for guard in made]
        for guard in fleet:
            await guard.get_or_compute("warm", _value)
        await browser.see("/herds")
        await until(lambda: all(guard.engine.hooks.any for guard in fleet))
        gate = Gate()

        async def compute() -> str:
            await gate.hold()
            return "value"

        calls = [asyncio.create_task(fleet[0].get_or_compute("report:7", compute)) for _ in range(4)]
        await gate.arrival()
        calls += [asyncio.create_task(guard.get_or_compute("report:7", _value)) for guard in fleet[1:]]
        await until(lambda: all(waits(guard) for guard in fleet[1:]))
        gate.open()
        assert await asyncio.gather(*calls) == ["value"] * 6
        for guard in fleet:
            await published(guard)

    browser.fleet.tell_news()
    told = (await browser.see("/api/herds")).json()
    (row,) = told["herds"]
    assert row["function"].endswith("get_or_compute")
    assert (row["callers"], row["computations"], row["collapsed"]) == (6, 1, 5)
    assert row["key"].startswith("#") and "report" not in json.dumps(told)
    # The guards of this test are one process.
    one = await browser.see("/herds", id=row["id"])
    assert "gets the lease, token" in one.text and "4 callers served" in one.text
    assert 'class="herd-figure"' in one.text and 'class="compute"' in one.text
    assert "style=" not in one.text and "<style" not in one.text
    twin = (await browser.see("/api/herds", id=row["id"])).json()["herd"]
    assert {"granted", "published", "woken", "landed"} <= {mark["kind"] for mark in twin["marks"]}
    assert one.text.count(" ms</td>") == len(twin["marks"]), "the table has the same marks"


async def _value() -> str:
    return "value"


async def test_hostile_words_are_shown_and_do_nothing(
    browser: Browser, guard: StampedeGuard, namespace: str
) -> None:
    session = guard.engine.runtime().session
    words = {"function": HOSTILE, "key": HOSTILE, "process": HOSTILE}
    lines = [
        {"kind": "asked", "flight": "1", **words},
        {"kind": "taken over", "error": HOSTILE, **words},
        {"kind": HOSTILE, "what": HOSTILE, **words},
        {"kind": "ended", "flight": "1", "seconds": 0.1, "error": HOSTILE, **words},
    ]
    await session.tell(namespace, [(10, json.dumps(line)) for line in lines])
    (row,) = (await browser.see("/api/herds", only="faults")).json()["herds"]
    assert row["faults"] == ["taken over"]
    for page in (await browser.see("/herds"), await browser.see("/herds", id=row["id"])):
        assert page.status_code == 200 and "&lt;script&gt;" in page.text
        assert "<script>alert" not in page.text


async def test_a_herd_that_is_forgotten_is_said_to_be(browser: Browser) -> None:
    page = await browser.see("/herds", id="1-none")
    assert page.status_code == 200 and "not known any more" in page.text


async def test_the_style_sheet_has_the_colours_of_the_figure(browser: Browser) -> None:
    sheet = (await browser.see("/static/console.css")).text
    rules = STYLE.partition("  .herd-figure .still")[0]
    for rule in re.findall(r"^ +(\.herd-figure .*\})$", rules, re.MULTILINE):
        assert rule in sheet
    assert herds.SCREEN.path == "/herds"


def test_durations_have_one_decimal_below_ten_milliseconds() -> None:
    told = [duration_text(seconds) for seconds in (0.00123456, 0.0072, 0.00999, 0.0123, 0.34)]
    assert told == ["1.2 ms", "7.2 ms", "10.0 ms", "12 ms", "340 ms"]
