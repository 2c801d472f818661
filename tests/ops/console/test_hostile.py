"""Pages survive what other programs have written, and neither rights nor records can be stretched."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.api.names import names_stored
from stampede_guard.ops.console import fleet as fleets
from stampede_guard.ops.console.acting import act
from stampede_guard.ops.console.live import MOST_STREAMS, Streams
from stampede_guard.ops.console.screen import Action, Asked, Parameter
from stampede_guard.ops.fleet.snapshot import snapshot
from stampede_guard.stores.connections.wire import modes_keys, value_key
from stampede_guard.stores.console.console import Console
from stampede_guard.stores.fleet.histogram import BUCKETS
from stampede_guard.stores.fleet.stream import from_stream, stream_name
from stampede_guard.stores.fleet.sums import FunctionSums, from_fields, sums_of, to_fields
from tests.ops.console.conftest import Browser, a_browser
from tests.support.gate import soon

NAMED = b'"kind":"taken over","function":"shop.quality","key":"#key"'
HOSTILE = (
    b'{%s,"x":NaN}', b'{%s,"x":-Infinity}', b'{%s,"x":1e999}', b'{%s,"x":[[[]]]}', b'{%s,"x":{"y":NaN}}',
    b'{%s,"process":"\\ud800"}', b'{%s,"\\uDFFF":"\\udc00 \\ud83d\\ude00"}', b'{%s,"x":"\xed\xa0\x80"}',
    b'{%s,"seconds":' + b"9" * 4000 + b"}",
)  # fmt: skip
PATHS = ("/", "/herds", "/function?name=shop.quality")


async def ada(browser: Browser, action: str, **fields: str) -> Any:
    return await browser.submit(action, token=await browser.token(), **fields)


async def test_pages_show_what_hostile_lines_leave(browser: Browser, valkey: Any, namespace: str) -> None:
    (stream,) = modes_keys(stream_name(namespace))
    now = b"%d" % ((await valkey.time())[0] * 1000)
    for line in HOSTILE:
        await valkey.xadd(stream, {b"at": now, b"what": line.replace(b"%s", NAMED)})
    for path in PATHS:
        assert (await browser.see(path)).status_code == 200, path
        twin = await browser.see("/api/" + (path[1:] or "overview"))
        assert twin.status_code == 200 and "taken over" in twin.text, path


@pytest.mark.parametrize("line", HOSTILE)
def test_a_detail_is_text_for_pages_or_a_number_of_json(line: bytes) -> None:
    (one,) = from_stream([{b"at": b"7", b"what": line.replace(b"%s", NAMED)}])
    text = json.dumps([one.process, dict(one.detail)], allow_nan=False, ensure_ascii=False)
    assert text.encode() and len(text) < 1000
    assert "\N{GRINNING FACE}" in text or "ude00" not in str(line)


@pytest.fixture
async def shop(guard: StampedeGuard) -> AsyncIterator[Any]:
    @guard.locked_cache(ttl=60, name="shop.quality", tags=("project:{project}",))
    async def quality(project: int) -> int:
        return project

    await quality(7)
    yield quality


async def test_the_right_to_drop_an_entry_drops_no_tag_and_the_other_way_round(
    guard: StampedeGuard, shop: Any
) -> None:
    async with a_browser(guard, actions=("invalidate",), shows_names=True) as browser:
        for entry in ("#project:7", f"{guard.namespace}:#project:7"):
            assert (await ada(browser, "invalidate", entry=entry)).status_code == 400
    async with a_browser(guard, actions=("invalidate_tag",), shows_names=True) as browser:
        refused = await ada(browser, "invalidate_tag", tag=shop.key(7))
        assert refused.status_code == 400 and "name of an entry" in refused.text
        assert (await browser.see("/api/keys", entry=shop.key(7))).json()["one"]["state"] == "fresh"


async def test_a_parameter_begins_no_record_of_its_own(
    guard: StampedeGuard, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_browser(guard, actions=("mode",)) as browser:
        forged = "shop.quality is off\n'root' at 10.0.0.1 used mode"
        assert (await ada(browser, "mode", function=forged, to="off")).status_code == 200
    (record,) = [one for one in caplog.records if one.name == "stampede_guard.console"]
    assert "\n" not in record.getMessage() and "'ada'" in record.getMessage()


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_action_that_ends_unexpectedly_is_recorded(
    browser: Browser, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    async def do(fleet: Any, asked: Asked) -> str:
        raise error

    action = Action("break", "It breaks.", do, (Parameter("name", "Of a thing."),))
    with caplog.at_level(logging.WARNING), pytest.raises(error):
        await act(browser.fleet, action, {"name": "seven"}, user="ada", client="10.0.0.1")
    (record,) = [one for one in caplog.records if one.name == "stampede_guard.console"]
    assert all(word in record.getMessage() for word in ("ada", "break", "seven", error.__name__))


async def test_streams_that_begin_together_are_not_too_many() -> None:
    go = asyncio.Event()

    async def pause(seconds: float) -> None:
        await go.wait()

    async def render() -> str:
        return "text"

    streams = Streams(pause=pause)
    # All have asked `is_full` before the first has begun.
    made = [streams.follow(render) for _ in range(2 * MOST_STREAMS)]
    told = [await soon(anext(one, b"")) for one in made]
    assert [one != b"" for one in told] == [True] * MOST_STREAMS + [False] * MOST_STREAMS
    for one in made:
        await one.aclose()  # type: ignore[attr-defined]
    assert not streams.is_full


async def test_a_stream_ends_within_the_patience_of_a_server_that_shuts_down() -> None:
    """The server waits for it: mounted, the console is not told of the shutdown. The page connects again at once."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async def render() -> str:
        return "text"

    told = [one async for one in Streams(pause=pause).follow(render)]
    assert told[0] == b"data: text\nretry: 1000\n\n" and set(told[1:]) == {b": unchanged\n\n"}
    # Kubernetes and Docker Compose kill after 30 and 10 s; `docs/operators.md` says what to set for less.
    assert sum(paused) <= 20


async def test_names_that_are_no_text_hide_no_entry(guard: StampedeGuard, shop: Any, valkey: Any) -> None:
    """Another program's key, and half of a surrogate pair in one of ours."""
    space = guard.namespace.encode()
    await valkey.set(b"{%b:\xff\xfe}:v" % space, b"x")
    await valkey.set(b"{%b:=\xed\xa0\x80}:v" % space, await valkey.get(value_key(shop.key(7))))
    async with a_browser(guard, shows_names=True) as browser:
        for path in ("/keys", "/api/keys"):
            answer = await browser.see(path)
            assert answer.status_code == 200 and "shop.quality" in answer.text
    (found,) = [name async for name in names_stored(guard, "shop.quality")]
    assert f"{guard.namespace}:{found}" == shop.key(7)
    async with await Console.open(guard.engine.store.servers) as console:
        assert guard.namespace in (await console.namespaces(most=10_000))[0]
        assert [name async for name in console.names(guard.namespace, "shop.quality*")] == [shop.key(7)]


async def test_many_functions_are_counted_once_for_all_open_pages(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand functions in ten minutes of slots took three seconds of the application's event loop per page."""
    slots = {number: {b"hits:shop.quality": b"5"} for number in range(100, 220)}
    counted: list[int] = []

    async def given() -> dict[int, Any]:
        return dict(slots)

    def count(window: Any, **options: Any) -> Any:
        counted.append(len(window))
        return snapshot(window, **options)

    monkeypatch.setattr(browser.fleet, "slots", given)
    monkeypatch.setattr(fleets, "snapshot", count)
    for _ in range(3):
        told = (await browser.see("/api/overview")).json()
        assert told["history"]["hits"] == [1.0] * 120
    assert counted == [1] * 120
    counted.clear()
    slots[219] = {b"hits:shop.quality": b"10"}
    told = (await browser.see("/api/overview")).json()
    assert told["history"]["hits"][-2:] == [1.0, 2.0]
    assert counted == [1]


def test_the_sums_of_one_function_need_no_other() -> None:
    rows = {title: FunctionSums(hits=3, micros=7, took=[1] * BUCKETS) for title in ("a", "b:c", "hits:a")}
    slot = {name.encode(): b"%d" % number for name, number in to_fields(rows).items()}
    assert {title: sums_of(slot, title) for title in rows} == from_fields([slot]) == rows
    assert sums_of(slot, "b") is None
