"""Two viewers of one fleet: one shows names, so the processes publish them; the other may not see them."""

from __future__ import annotations

import json

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import hashed
from tests.ops.console.conftest import Browser, a_browser, live

NAME = "shop:shop.quality:ada@example.org"
HASH = hashed(NAME)
PAGES = ("/", "/herds", "/function", "/functions", "/api/overview", "/api/herds", "/api/function")


async def _published_with_names(guard: StampedeGuard, other: Browser) -> None:
    reached = await other.fleet.reached()
    now = int(await reached.servers.now() // WATCHED.seconds)
    numbers = {f"hot:shop.quality\n{NAME}": 5, "hits:shop.quality": 5, "processes:": 1}
    for slot in (now - 1, now):
        await reached.steps.count(guard.namespace, WATCHED, slot, numbers)
    words = {"function": "shop.quality", "key": NAME, "process": "p"}
    lines = [
        {"kind": "asked", "flight": "1", **words},
        {"kind": "taken over", "flight": "1", **words},
        {"kind": "operator", "what": "invalidate", "said": f"invalidated {NAME}", **words},
    ]
    await reached.steps.tell(guard.namespace, [(5, json.dumps(line)) for line in lines])


@pytest.mark.parametrize("shows_names", [False, True])
async def test_the_pages_of_a_viewer_show_only_what_this_viewer_may_see(
    guard: StampedeGuard, shows_names: bool
) -> None:
    async with a_browser(guard, shows_names=True) as other, a_browser(guard, shows_names=shows_names) as mine:
        await _published_with_names(guard, other)
        herds = (await mine.see("/api/herds")).json()["herds"]
        texts = [(await mine.see(page, id=herds[0]["id"], name="shop.quality")).text for page in PAGES]
        texts += [(await mine.see("/herds")).text, (await live(mine.console, "/live/herds")).text]
        seen = await (await mine.fleet.reached()).watch.look()
        assert {hot.key for hot in seen.hottest} <= {NAME if shows_names else HASH}
        hottest = (await mine.see("/api/function", name="shop.quality")).json()["hottest"]
        (row,) = herds
    assert [hot["key"] for hot in hottest] == [NAME if shows_names else HASH]
    assert row["key"] == (NAME if shows_names else HASH)
    assert any("ada@example" in text for text in texts) is shows_names
