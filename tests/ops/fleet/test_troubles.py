"""Sentences about the last minutes of a fleet."""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.fleet.troubles import RECENT_SECONDS, job_troubles, recent_troubles
from stampede_guard.stores.fleet.stream import Happening


def line(kind: str, function: str = "shop.quality", at: float = 1000.0, **detail: str) -> Happening:
    return Happening(at, kind, "pod/host/1", function, "", detail)


def test_lost_leases_failed_jobs_and_values_not_stored_are_told_for_some_minutes() -> None:
    lines = [
        line("not stored", what="unsupported"),
        line("not stored", what="unsupported"),
        line("lapsed"),
        line("lease lost", "leader"),
        line("job ended", "nightly", outcome="failed"),
        line("job ended", "hourly", outcome="completed"),
        line("operator"),
        line("lease won", "leader"),
    ]
    assert recent_troubles(lines, 1000.0 + RECENT_SECONDS) == [
        "leases were lost in the last 5 minutes: leader",
        "leases lapsed during computations in the last 5 minutes: shop.quality",
        "values were not stored in the last 5 minutes: shop.quality",
        "jobs failed in the last 5 minutes: nightly",
    ]
    assert recent_troubles(lines, 1001.0 + RECENT_SECONDS) == []


def test_a_sentence_has_a_few_names_and_none_that_is_empty() -> None:
    many = [line("lease lost", f"lease {number}") for number in range(5)]
    assert recent_troubles(many, 1000.0)[0].endswith(": lease 0, lease 1, lease 2, 2 more")
    assert recent_troubles([line("lapsed", "")], 1000.0)[0].endswith("the last 5 minutes")


async def test_a_job_that_is_overdue_or_failed_is_told_although_nobody_watched() -> None:
    async with MemoryLeases(namespace="shop") as leases:
        jobs = Jobs(leases)

        @jobs.every(60)
        async def report() -> None:
            raise LookupError

        await jobs.run_now("report")
        (view,) = await jobs.views()
        await jobs.stop()
    assert job_troubles([view], prefix=leases.prefix) == ["jobs failed in the last 5 minutes: report"]
    late = replace(view, at=view.at + 3600)
    assert job_troubles([late], prefix=leases.prefix) == ["jobs are overdue: report"]
