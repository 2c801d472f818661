"""A switch with a time, in a process that cannot read the store when the time is over."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from stampede_guard.engine.modes.switches import Switches
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.stores.switch import Switch

HOUR = 3600.0


class Process:
    """`looks_after(seconds)`: the switches that hold then. The store gives `answer`, or raises it."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.answer: Mapping[str, Switch] | Exception = {}
        self.known: Mapping[str, Switch] = {}
        self.ends: dict[str, float] = {}
        self.changes = 0
        self.reopen()

    def reopen(self) -> None:
        """The guard is closed and used again, or used in a further event loop."""
        self.switches = Switches(
            self.read, self.changed, lambda: self.known, ends=self.ends, clock=lambda: self.at
        )

    async def read(self) -> Mapping[str, Switch]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def changed(self, fleet: Mapping[str, Switch]) -> None:
        self.known = fleet
        self.changes += 1

    async def looks_after(self, seconds: float) -> set[str]:
        self.at += seconds
        await self.switches._look()
        return set(self.known)


FAILURES = [StoreUnavailable("away"), StoreRefused("no permission"), AttributeError("no switches")]


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_switch_ends_in_a_process_that_cannot_read(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process()
    process.answer = {"*": Switch("shadow", left=HOUR), "shop.one": Switch("off")}
    await process.looks_after(0)
    process.answer = failure
    assert await process.looks_after(HOUR - 1) == {"*", "shop.one"}
    process.reopen()
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        assert await process.looks_after(2) == {"shop.one"}
        assert await process.looks_after(5) == {"shop.one"}
    assert "the mode of * is now its own again (fleet's switch)" in caplog.messages
    assert process.changes == 2


@pytest.mark.parametrize("left", [2 * HOUR, None])
async def test_the_newest_read_says_when_a_switch_ends(left: float | None) -> None:
    process = Process()
    process.answer = {"*": Switch("shadow", left=HOUR)}
    await process.looks_after(0)
    process.answer = {"*": Switch("shadow", left=left)}
    await process.looks_after(10)
    process.answer = StoreUnavailable("away")
    assert await process.looks_after(HOUR) == {"*"}
    assert await process.looks_after(2 * HOUR) == (set() if left else {"*"})


async def test_the_log_says_that_known_switches_hold_on(caplog: pytest.LogCaptureFixture) -> None:
    process = Process()
    process.answer = {"*": Switch("shadow")}
    await process.looks_after(0)
    process.answer = StoreRefused("no permission")
    await process.looks_after(5)
    (said,) = (message for message in caplog.messages if "cannot be read" in message)
    assert "The last known switches hold" in said
