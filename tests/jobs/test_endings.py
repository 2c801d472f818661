"""How a run ended is told rightly, however strangely its function ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.run import Run
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import Fleet, virtually
from tests.support.heap import collect


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


def test_virtual_time_stands_still_while_a_plain_function_runs() -> None:
    def tick() -> None:
        # Long enough for every timer of a virtual minute, which takes a few milliseconds.
        threading.Event().wait(0.3)

    assert ended(tick, time_limit=1) == ("completed", "")


def test_a_plain_function_that_exits_ends_its_thread_and_not_the_program() -> None:
    def tick() -> None:
        raise SystemExit(3)

    assert ended(tick) == ("failed", "RuntimeError: tick raised SystemExit: 3")


def test_a_plain_function_that_raises_what_no_future_can_carry_has_failed() -> None:
    def tick() -> None:
        next(iter(()))

    assert ended(tick) == ("failed", "RuntimeError: tick raised StopIteration")


def test_a_plain_function_that_raises_what_closes_a_coroutine_has_failed() -> None:
    def tick() -> None:
        raise GeneratorExit

    assert ended(tick, retry_abandoned=True) == ("failed", "RuntimeError: tick raised GeneratorExit")


def test_a_coroutine_that_raises_what_closes_a_coroutine_has_failed_while_its_task_runs() -> None:
    calls = 0

    async def tick() -> None:
        nonlocal calls
        calls += 1
        raise GeneratorExit("of its own")

    assert ended(tick, retry_abandoned=True) == ("failed", "GeneratorExit: of its own")
    assert calls == 1


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


def test_any_text_of_an_ending_is_text_that_every_back_end_can_keep() -> None:
    assert Ending(outcome="failed", error="a\0b \ud83d").error == "a\\0b \\ud83d"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_no_back_end_can_count_is_refused_where_it_is_reported(value: float) -> None:
    async def tick(run: Run) -> None:
        with pytest.raises(Misuse, match="write a number"):
            run.report(mean=value)

    assert ended(tick) == ("completed", "")


def test_a_plain_function_is_told_of_its_time_limit_and_keeps_its_lease_until_it_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)
            told, may_end = threading.Event(), threading.Event()

            @jobs.every(3_600, time_limit=0.01)
            def plain(run: Run) -> None:
                assert run.stopping.wait(60)
                told.set()
                assert may_end.wait(60)

            pressed = asyncio.create_task(jobs.run_now("plain"))
            assert await asyncio.to_thread(told.wait, 30)
            assert (await jobs.run_now("plain")).outcome == "skipped"
            may_end.set()
            ending = await pressed
            assert (ending.outcome, ending.error) == ("failed", "TimeoutError: time_limit=0.01 s is over")
            view = await leases.show("plain")
            assert view is not None and not view.held

    asyncio.run(main())
    assert "goes on in its thread" not in caplog.text


def test_what_a_plain_function_raises_once_it_was_told_to_stop_is_nobodys_to_retrieve(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)

            @jobs.every(3_600, time_limit=0.01)
            def plain(run: Run) -> None:
                assert run.stopping.wait(60)
                raise ValueError("too late")

            assert (await jobs.run_now("plain")).error == "TimeoutError: time_limit=0.01 s is over"

    asyncio.run(main())
    collect()
    assert "never retrieved" not in caplog.text


def test_a_plain_function_that_never_looks_is_left_alone_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    may_end = threading.Event()

    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)

            @jobs.every(3_600, time_limit=0.01, lease_ttl=0.3)
            def plain() -> None:
                may_end.wait(60)

            assert (await jobs.run_now("plain")).outcome == "failed"
            assert not may_end.is_set()

    try:
        asyncio.run(main())
        assert "goes on in its thread" in caplog.text
    finally:
        may_end.set()
