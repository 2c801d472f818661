"""What a run tells of itself, and what it may be told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.schedules.schedule import slot_of
from stampede_guard.leases import MemoryLeases


async def seen_by(look: Any, **terms: Any) -> Any:
    """What `look(run)` returned in a run of the job `sync` in `shop`, which completes, and the run in its history."""
    found: list[Any] = []
    async with MemoryLeases(namespace="shop") as leases:
        jobs = Jobs(leases)

        async def sync(run: Run) -> None:
            found.append(look(run))

        jobs.every(300, **terms)(sync)
        ending = await jobs.run_now("sync")
        assert (ending.outcome, ending.error) == ("completed", "")
        (kept,) = await jobs.history("sync")
    return found[0], kept


async def test_a_run_is_known_by_what_its_history_has() -> None:
    (job, id, slot, attempt, token, key), kept = await seen_by(
        lambda run: (run.job, run.id, run.slot, run.attempt, run.token, run.key)
    )
    assert (job, id, slot_of(slot), attempt, token) == (kept.job, kept.run, kept.slot, 1, kept.token)
    assert key == f"shop:sync@{slot.isoformat()}"


async def test_a_run_has_the_lease_of_its_jobs_name() -> None:
    (name, token, remaining), kept = await seen_by(
        lambda run: (run.lease.name, run.lease.token, run.lease.remaining())
    )
    assert (name, token) == ("shop:sync", kept.token)
    assert 0 < remaining <= 60


@pytest.mark.parametrize("value", [True, "12", None, float("nan"), float("inf"), 1j])
async def test_what_is_no_number_cannot_be_reported_and_changes_nothing(value: Any) -> None:
    def look(run: Run) -> None:
        run.report(files=1)
        with pytest.raises(Misuse, match=r"run.report\(rows=.*\): write a number"):
            run.report(files=2, rows=value)

    _, kept = await seen_by(look)
    assert kept.counters == {"files": 1}


@pytest.mark.parametrize("digits", [400, 5_000])
async def test_a_number_that_is_no_float_cannot_be_reported_and_changes_nothing(digits: int) -> None:
    def look(run: Run) -> None:
        run.report(files=1, most=10**300)
        with pytest.raises(Misuse, match=r"run.report\(rows=.*\): write a number"):
            run.report(files=2, rows=-(10**digits))

    _, kept = await seen_by(look)
    assert kept.counters == {"files": 1, "most": 10**300}


@pytest.mark.parametrize("name", ["a\0b", "caf\udce9.csv", "\ud83d", "x" * 201])
async def test_a_name_that_not_every_back_end_can_keep_cannot_be_reported(name: str) -> None:
    def look(run: Run) -> None:
        run.report(files=1)
        with pytest.raises(Misuse, match="at most 200 characters"):
            run.report(**{"files": 2, name: 3})

    _, kept = await seen_by(look)
    assert kept.counters == {"files": 1}


async def test_a_name_of_any_other_characters_can_be_reported() -> None:
    names = ["", "caf\xe9.csv", "a\nb", "\U0001f600", "x" * 200]
    _, kept = await seen_by(lambda run: run.report(**dict.fromkeys(names, 1)))
    assert kept.counters == dict.fromkeys(names, 1)


async def test_a_run_has_a_bounded_number_of_counters() -> None:
    def look(run: Run) -> None:
        run.report(**{f"c{number}": number for number in range(64)})
        run.report(c0=7)
        with pytest.raises(Misuse, match="at most 64 counters"):
            run.report(another=1)

    _, kept = await seen_by(look)
    assert (len(kept.counters), kept.counters["c0"]) == (64, 7)


async def test_a_plain_function_whose_lease_is_asked_for_is_told_to_stop_and_why() -> None:
    begun, told = threading.Event(), []
    async with MemoryLeases() as leases:
        jobs = Jobs(leases)

        @jobs.every(300)
        def plain(run: Run) -> None:
            told.append(threading.current_thread().name)
            begun.set()
            assert run.stopping.wait(60)
            told.append(run.stopping.why)

        pressed = asyncio.create_task(jobs.run_now("plain"))
        assert await asyncio.to_thread(begun.wait, 60)
        view = await leases.show("plain")
        assert view is not None
        await leases.force_release("plain", token=view.token, by="ops")
        ending = await pressed
    assert ending.outcome == "failed"
    assert "ops" in ending.error
    assert told[0] == "stampede_guard plain"
    assert "ops" in told[1]
