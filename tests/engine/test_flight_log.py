"""Each step of a flight is a line of the log, if somebody asks for it."""

from __future__ import annotations

import logging

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import soon

SECRET_KEY, SECRET_VALUE = "account-of-smith", "forty-thousand"


async def _value() -> str:
    return SECRET_VALUE


async def test_each_step_is_a_line_with_the_flight_its_state_the_event_and_the_command(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "stampede_guard.flight")
    async with StampedeGuard(MemoryStore(), namespace="f") as guard:
        await guard.get_or_compute(SECRET_KEY, _value)
    lines = [record.getMessage() for record in caplog.records if record.name == "stampede_guard.flight"]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "Asking, StoreAnswered -> Computing, Compute",
        "Computing, ComputationBegan -> Computing, Keep",
        "Computing, ComputationEnded -> Publishing, Publish",
        "Publishing, PublishAnswered -> Delivering, Deliver",
        "Delivering, Delivered -> Landed, Land",
    ]
    assert len({line.split(": ", 1)[0] for line in lines}) == 1, "one flight, with its kind"
    assert "(foreground)" in lines[0]
    assert not any(secret in line for line in lines for secret in (SECRET_KEY, SECRET_VALUE))


async def test_without_the_level_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stampede_guard.flight")
    async with StampedeGuard(MemoryStore(), namespace="f") as guard:
        await guard.get_or_compute(SECRET_KEY, _value)
    assert not [record for record in caplog.records if record.name == "stampede_guard.flight"]


async def test_a_filter_that_raises_does_no_harm(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("stampede_guard.flight")

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("a fault in the application's filter")

    # Not by its attribute: loggers remember their level, and all later tests would log each step.
    caplog.set_level(logging.DEBUG, "stampede_guard.flight")
    monkeypatch.setattr(logger, "filters", [refuse])
    async with StampedeGuard(MemoryStore(), namespace="f") as guard:
        assert await soon(guard.get_or_compute("k", _value)) == SECRET_VALUE
