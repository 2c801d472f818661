"""`hooks=(guard.report,)`: leases and jobs report to the hooks of a guard, also to those that are added later."""

from __future__ import annotations

from stampede_guard import StampedeGuard, events
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import MemoryLeases
from stampede_guard.stores.memory import MemoryStore


async def test_leases_and_jobs_report_to_the_hooks_of_the_guard() -> None:
    guard = StampedeGuard(MemoryStore())
    seen: list[events.Event] = []
    async with guard, MemoryLeases(hooks=(guard.report,)) as leases:
        guard.add_hook(seen.append)
        async with leases.hold("import"):
            pass
        assert [type(event) for event in seen] == [events.LeaseWon, events.LeaseReleased]
        jobs = Jobs(leases)

        @jobs.every(300, name="tick")
        async def tick(run: Run) -> None:
            """Does nothing."""

        await jobs.run_now("tick")
    assert [event.outcome for event in seen if isinstance(event, events.JobEnded)] == ["completed"]
