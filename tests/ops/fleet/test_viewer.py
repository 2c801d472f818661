"""The watch of a fleet is renewed as long as somebody looks, also after a renewal has failed."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard.errors import StoreUnavailable
from stampede_guard.ops.fleet.viewer import AGAIN_SECONDS, SWITCH_SECONDS, Viewer


class Servers:
    async def now(self) -> float:
        return 1.0


class Steps:
    """Its store is away at the second and third write of the switch."""

    def __init__(self) -> None:
        self.tried = 0

    async def switch(self, *_: Any) -> int:
        self.tried += 1
        if self.tried in (2, 3):
            raise StoreUnavailable("away")
        return 1


async def test_a_watch_goes_on_after_renewals_that_failed() -> None:
    steps, paused, enough = Steps(), list[float](), asyncio.Event()

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 5:
            enough.set()
            await asyncio.Event().wait()

    servers: Any = Servers()
    session: Any = steps
    async with asyncio.timeout(60), Viewer(servers, session, "shop", pause=pause):
        await enough.wait()
    regular = SWITCH_SECONDS / 2
    assert paused == [regular, AGAIN_SECONDS, AGAIN_SECONDS, regular, regular]
    assert steps.tried == 5
