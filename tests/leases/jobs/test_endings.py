"""How a run ended is told rightly, however strangely its function ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.leases.jobs.run import Run
from tests.leases.jobs.fleet import Fleet, virtually


class Exit(BaseException):
    pass


class Textless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def ended(function: Any, **terms: Any) -> tuple[str, str]:
    """Outcome and error of its first run."""

    async def scenario(fleet: Fleet) -> tuple[str, str]:
        worker = fleet.worker()
        worker.jobs.every(10, name="tick", **terms)(function)
        worker.start()
        await fleet.until(15)
        run = (await fleet.history())[10]
        return run.outcome, run.error

    return virtually(scenario)


def test_a_function_that_awaits_what_was_cancelled_has_failed_and_is_not_abandoned() -> None:
    calls = 0

    async def tick() -> None:
        nonlocal calls
        calls += 1
        inner = asyncio.ensure_future(asyncio.sleep(1))
        inner.cancel()
        await inner

    assert ended(tick, retry_abandoned=True) == ("failed", "CancelledError: ")
    assert calls == 1


def test_a_cancellation_in_a_plain_function_is_a_failure_too() -> None:
    def tick() -> None:
        raise asyncio.CancelledError("of its own")

    assert ended(tick) == ("failed", "CancelledError: of its own")


def test_a_plain_function_that_exits_ends_its_thread_and_not_the_program() -> None:
    def tick() -> None:
        raise SystemExit(3)

    assert ended(tick) == ("failed", "RuntimeError: tick raised SystemExit: 3")


def test_what_ends_the_program_does_so_after_the_slot_has_its_outcome() -> None:
    async def tick() -> None:
        # As SystemExit is for the run; that itself would end the test's event loop, too.
        raise Exit("3")

    assert ended(tick) == ("failed", "Exit: 3")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("a\0b"), "ValueError: a\\0b"),
        (ValueError("half \ud83d"), "ValueError: half \\ud83d"),
        (Textless(), "Textless: (it has no text)"),
    ],
)
def test_an_error_is_told_in_text_that_every_back_end_can_keep(error: Exception, told: str) -> None:
    async def tick() -> None:
        raise error

    assert ended(tick) == ("failed", told)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_no_back_end_can_count_is_refused_where_it_is_reported(value: float) -> None:
    async def tick(run: Run) -> None:
        with pytest.raises(Misuse, match="write a number"):
            run.report(mean=value)

    assert ended(tick) == ("completed", "")
