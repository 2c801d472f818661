"""Collapsed callers in the guard's own log: a line for the first herd, then summaries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import events
from stampede_guard.engine.stats.herdlog import MOST_FUNCTIONS, SUMMARY_SECONDS, HerdLog
from stampede_guard.ops.observe.log import LogHook


class Loop:
    """Timers that a test lets expire."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        self.timers.append((seconds, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def expire(self) -> None:
        ((_, callback),) = self.timers
        self.timers.clear()
        callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def herds(loop: Loop, caplog: pytest.LogCaptureFixture) -> HerdLog:
    caplog.set_level(logging.INFO, logger="stampede_guard")
    made: Any = loop
    return HerdLog(made)


def test_four_hundred_herds_in_a_window_are_two_lines(
    herds: HerdLog, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(400):
        herds.landed("quality" if number % 4 else "report", 3)
    assert caplog.messages == ["report: 3 callers were served by one flight"]
    assert [seconds for seconds, _ in loop.timers] == [SUMMARY_SECONDS]
    loop.expire()
    assert caplog.messages[1:] == ["1197 callers were served by 399 flights: quality 900, report 297"]
    assert caplog.records[1].__dict__["collapsed"] == 1197 - 399


def test_a_quiet_window_ends_the_summaries_and_the_next_herd_is_logged_at_once(
    herds: HerdLog, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    herds.landed("quality", 2)
    loop.expire()
    assert not loop.timers
    herds.landed("quality", 4)
    assert caplog.messages[-1] == "quality: 4 callers were served by one flight"


def test_while_herds_go_on_there_is_one_line_a_window(
    herds: HerdLog, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    herds.landed("quality", 2)
    for _ in range(3):
        herds.landed("quality", 2)
        herds.landed("quality", 2)
        loop.expire()
    assert caplog.messages[1:] == ["4 callers were served by 2 flights: quality 4"] * 3


def test_what_was_counted_is_written_when_the_guard_closes(
    herds: HerdLog, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    herds.landed("quality", 2)
    herds.landed("quality", 5)
    herds.close()
    assert not loop.timers
    assert caplog.messages[-1] == "5 callers were served by 1 flights: quality 5"
    herds.close()
    assert len(caplog.messages) == 2


def test_a_summary_is_bounded_however_many_functions_there_are(
    herds: HerdLog, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MOST_FUNCTIONS + 50):
        herds.landed(f"f{number}", 2)
    assert len(herds._callers) <= MOST_FUNCTIONS + 1
    loop.expire()
    assert "other functions 98" in caplog.messages[-1] and "more functions" in caplog.messages[-1]
    assert len(caplog.messages[-1]) < 300


def test_nothing_is_counted_where_nobody_listens(herds: HerdLog, loop: Loop) -> None:
    logging.getLogger("stampede_guard").setLevel(logging.WARNING)
    herds.landed("quality", 2)
    assert not loop.timers


# --- the hook that logs ---------------------------------------------------------------------------

PER_CALL: list[Callable[[str], events.Event]] = [
    lambda name: events.Computed(name, "entry", 0.1, "1", "LookupError"),
    lambda name: events.Collapsed(name, "entry", 9),
    lambda name: events.Fallback(name, "entry", "denied"),
    lambda name: events.TimedOut(name, "entry", "wait_timeout"),
    lambda name: events.TakenOver(name, "entry"),
    lambda name: events.LeaseLapsed(name, "entry"),
]


@pytest.mark.parametrize("make", PER_CALL, ids=lambda make: type(make("f")).__name__)
def test_the_log_hook_writes_one_line_per_function_and_window_and_counts_the_rest(
    make: Callable[[str], events.Event], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="stampede_guard.events")
    now = [100.0]
    hook = LogHook(every=10, clock=lambda: now[0])
    for _ in range(50):
        hook(make("f"))
    assert len(caplog.records) == 1 and "suppressed" not in caplog.messages[0]
    hook(make("g"))
    assert len(caplog.records) == 2, "another function has a line of its own"
    now[0] += 10
    hook(make("f"))
    assert caplog.records[2].__dict__["suppressed"] == 49
    now[0] += 10
    hook(make("f"))
    assert "suppressed" not in caplog.records[3].__dict__


def test_a_failure_is_not_hidden_by_computations_that_succeed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="stampede_guard.events")
    hook = LogHook(every=10, clock=lambda: 0.0)
    hook(events.Computed("f", "entry", 0.1, "1"))
    hook(events.Computed("f", "entry", 0.1, "1", "LookupError"))
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.WARNING]


def test_every_event_is_a_line_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="stampede_guard.events")
    hook = LogHook(every=0)
    for _ in range(3):
        hook(events.Collapsed("f", "entry", 9))
    assert len(caplog.records) == 3
