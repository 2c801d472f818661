"""The log hook: faults and herds, structured, and nothing per request."""

from __future__ import annotations

import logging

import pytest
import structlog

from stampede_guard import events
from stampede_guard.observe.log import LogHook

ENTRY = "shop:secret@example.org"
PER_REQUEST = [
    events.Hit("f", ENTRY),
    events.Stale("f", ENTRY),
    events.Miss("f", ENTRY),
    events.Waited("f", ENTRY, 0.1, "collapsed", "1"),
    events.Started("f", ENTRY, "1"),
    events.Invalidated(ENTRY, True),
]
TOLD: list[tuple[events.Event, int]] = [
    (events.Computed("f", ENTRY, 0.25, "1"), logging.DEBUG),
    (events.Computed("f", ENTRY, 0.25, "1", "LookupError"), logging.WARNING),
    (events.Collapsed("f", ENTRY, 49), logging.INFO),
    (events.Fallback("f", ENTRY, "denied"), logging.WARNING),
    (events.TimedOut("f", ENTRY, "compute_timeout"), logging.WARNING),
    (events.TakenOver("f", ENTRY), logging.WARNING),
    (events.LeaseLost("f", ENTRY), logging.WARNING),
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
