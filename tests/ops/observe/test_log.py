"""The log hook: faults and herds, structured, and nothing per request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
import structlog

from stampede_guard import StampedeGuard, events
from stampede_guard.ops.observe.log import LogHook
from tests.support.gate import Gate, soon, until

ENTRY = "shop:secret@example.org"
PER_REQUEST = [
    events.Hit("f", ENTRY),
    events.Stale("f", ENTRY),
    events.Miss("f", ENTRY),
    events.Waited("f", ENTRY, 0.1, "collapsed", "1"),
    events.Refreshed("f", ENTRY, 0.1, "computed", "1"),
    events.Started("f", ENTRY, "1"),
    events.Invalidated(ENTRY, True),
    events.TimedOut("f", ENTRY, "soft_timeout"),
]
TOLD: list[tuple[events.Event, int]] = [
    (events.Computed("f", ENTRY, 0.25, "1"), logging.DEBUG),
    (events.Computed("f", ENTRY, 0.25, "1", "LookupError"), logging.WARNING),
    (events.Collapsed("f", ENTRY, 49), logging.INFO),
    (events.Fallback("f", ENTRY, "denied"), logging.WARNING),
    (events.TimedOut("f", ENTRY, "compute_timeout"), logging.WARNING),
    (events.TakenOver("f", ENTRY), logging.WARNING),
    (events.LeaseLapsed("f", ENTRY), logging.WARNING),
    (events.BreakerOpened("10.0.0.7:6379"), logging.ERROR),
    (events.BreakerClosed(), logging.WARNING),
]


@pytest.mark.parametrize("event", PER_REQUEST, ids=lambda event: type(event).__name__)
def test_nothing_is_logged_per_request(event: events.Event, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        LogHook()(event)
    assert caplog.records == []


@pytest.mark.parametrize(("event", "level"), TOLD, ids=lambda value: type(value).__name__)
def test_a_line_has_its_level_and_its_fields(
    event: events.Event, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        LogHook()(event)
    (record,) = caplog.records
    assert record.levelno == level and record.name == "stampede_guard.events"
    assert ENTRY not in record.getMessage() and not hasattr(record, "entry")
    if isinstance(event, events.Collapsed):
        assert record.getMessage() == "stampede_guard.collapsed function=f callers=49"
        assert record.__dict__["callers"] == 49


def test_a_structlog_logger_gets_keywords() -> None:
    with structlog.testing.capture_logs() as lines:
        hook = LogHook(structlog.get_logger())
        for event, _ in TOLD:
            hook(event)
        for other in PER_REQUEST:
            hook(other)
    assert len(lines) == len(TOLD)
    assert lines[2] == {
        "event": "stampede_guard.collapsed",
        "log_level": "info",
        "function": "f",
        "callers": 49,
    }
    assert ENTRY not in str(lines)


@pytest.mark.parametrize(
    ("hooks", "lines"),
    [
        ([], ["stampede_guard"]),
        ([LogHook], ["stampede_guard.events"]),
        ([lambda: lambda event: None], ["stampede_guard"]),
    ],
    ids=["no hook", "the log hook", "another hook"],
)
async def test_a_herd_is_one_line_whoever_writes_it(
    hooks: list[Callable[[], events.Hook]], lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    guard, gate = StampedeGuard.from_url("memory://", hooks=[make() for make in hooks]), Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    with caplog.at_level(logging.INFO):
        async with guard:
            calls = [asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(3)]
            await gate.arrival()
            await until(lambda: any(flight.joined == 3 for flight in guard.engine.runtime().flights.values()))
            gate.open()
            await soon(asyncio.gather(*calls))
            await until(lambda: not guard.engine.runtime().flights)
    herds = [record for record in caplog.records if getattr(record, "callers", None)]
    assert [record.name for record in herds] == lines
