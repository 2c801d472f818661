"""In which modes of the guard what is done."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.policy import Mode
from stampede_guard.testing import FaultyStore
from tests.http.fleet import App, Fleet, status_of
from tests.support.gate import until


@pytest.mark.parametrize("mode", ["bypass", "shadow", "off"])
async def test_a_change_invalidates_in_every_mode(mode: Mode) -> None:
    """1. The mode is changed for a while. 2. Data changes. 3. The mode is `on` again, and so is what was stored."""
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.guards[0].mode = mode
        assert (await fleet.get(method="PUT")).body == b"answer 2"
        fleet.guards[0].mode = "on"
        answer = await fleet.get()
        assert answer.body == b"answer 3"
        assert "hit" not in status_of(answer)


async def test_in_bypass_nothing_is_said_to_be_stored() -> None:
    app = App()
    async with Fleet(app) as fleet:
        fleet.guards[0].mode = "bypass"
        app.go.clear()
        first = asyncio.create_task(fleet.get())
        await app.called.wait()
        second = asyncio.create_task(fleet.get())
        await until(lambda: len(fleet.guards[0].engine.runtime().flights) == 1)
        app.go.set()
        told = sorted(status_of(answer) for answer in await asyncio.gather(first, second))
        assert all("fwd=bypass" in said and "stored" not in said for said in told), told
        fleet.guards[0].mode = "on"
        assert "fwd=uri-miss" in status_of(answer := await fleet.get()) and "; stored" in status_of(answer)


async def test_while_the_store_is_away_nothing_is_said_to_be_stored() -> None:
    store = FaultyStore()
    async with Fleet(App(), on=store) as fleet:
        assert "; stored" in status_of(await fleet.get("/a"))
        store.fail()
        runtime = fleet.guards[0].engine.runtime()
        number = 0
        while not runtime.away:
            await fleet.get(f"/{number}")
            number += 1
        said = status_of(await fleet.get("/b"))
        assert "fwd=uri-miss" in said and "stored" not in said.removeprefix("stampede_guard")
