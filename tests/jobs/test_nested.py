"""A job and a function that never runs twice at a time: what of it the history may call completed."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.errors import ReentrantCall
from stampede_guard.jobs import Jobs
from stampede_guard.leases import SKIPPED, MemoryLeases
from stampede_guard.leases.exclusive import Overlap
from tests.jobs.fleet import Fleet, virtually


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_a_job_that_calls_what_its_own_name_excludes_fails_at_once_and_says_why(overlap: Overlap) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()

        @worker.jobs.every(10)
        @worker.leases.run_exclusive("tick", overlap=overlap)
        async def tick() -> None:
            raise AssertionError("it is not called")

        worker.start()
        await fleet.until(15)
        run = (await fleet.history())[10]
        assert run.outcome == "failed"
        assert "ReentrantCall: 'shop:tick' waits for itself: the job of that name" in run.error

    virtually(scenario)


def test_a_plain_job_is_told_so_too() -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)

            @jobs.every(60)
            @leases.run_exclusive("plain")
            def plain() -> None:
                raise AssertionError("it is not called")

            ending = await jobs.run_now("plain")
            assert (ending.outcome, "waits for itself" in ending.error) == ("failed", True)

    asyncio.run(main())


def test_another_name_another_house_and_what_outlives_the_run_are_free() -> None:
    async def main() -> None:
        async with MemoryLeases() as leases, MemoryLeases() as others:
            jobs = Jobs(leases)
            over = asyncio.Event()
            left: list[asyncio.Task[object]] = []

            @leases.run_exclusive("tick")
            async def same() -> str:
                return "ran"

            async def ran() -> str:
                return "ran"

            async def later() -> object:
                await over.wait()
                return await same()

            async def body() -> None:
                assert await leases.run_exclusive("tock").run(ran) == "ran"
                assert await others.run_exclusive("tick").run(ran) == "ran"
                with pytest.raises(ReentrantCall):
                    await same()
                left.append(asyncio.create_task(later()))

            jobs.every(60, name="tick")(body)
            assert (await jobs.run_now("tick")).outcome == "completed"
            over.set()
            assert await left[0] == "ran"

    asyncio.run(main())


def test_a_job_whose_function_was_skipped_is_skipped() -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)
            begun, end = asyncio.Event(), asyncio.Event()

            @leases.run_exclusive("import")
            async def import_all() -> int:
                begun.set()
                await end.wait()
                return 12

            jobs.every(60, name="nightly")(import_all)
            button = asyncio.create_task(import_all())
            await begun.wait()
            ending = await jobs.run_now("nightly")
            assert (ending.outcome, "SKIPPED" in ending.error) == ("skipped", True)
            assert not (await jobs.health())[0].ever_succeeded
            end.set()
            assert await button == 12
            assert (await jobs.run_now("nightly")).outcome == "completed"
            assert await import_all() is not SKIPPED

    asyncio.run(main())
