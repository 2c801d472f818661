"""Functions that never run twice at a time, wherever they are called. In virtual time."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest

from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse, PolicyError, ReentrantCall
from stampede_guard.leases.exclusive import SKIPPED, current_lease
from tests.leases.virtual import Fleet, virtually


class Work:
    """Notes how many run at once."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.runs = 0
        self.at_once = 0
        self.most = 0

    async def __call__(self) -> int:
        self.runs += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            lease = current_lease()
            assert lease is not None and lease.remaining() > 0
            await asyncio.sleep(self.seconds)
            return lease.token
        finally:
            self.at_once -= 1


def test_skip_does_nothing_while_another_one_runs() -> None:
    async def main(fleet: Fleet) -> None:
        work = Work()
        exclusives = [fleet.process(label).run_exclusive("n", overlap="skip") for label in "abc"]
        results = await asyncio.gather(*(exclusive.run(work) for exclusive in exclusives))
        assert work.runs == 1 and results.count(SKIPPED) == 2
        assert not SKIPPED and repr(SKIPPED) == "SKIPPED"
        assert await exclusives[1].run(work)

    virtually(main)


def test_queue_runs_one_after_the_other_in_order() -> None:
    async def main(fleet: Fleet) -> None:
        work = Work()
        exclusives = [fleet.process(label).run_exclusive("n", overlap="queue") for label in "abcd"]
        tokens = await asyncio.gather(*(exclusive.run(work) for exclusive in exclusives))
        assert (work.runs, work.most) == (4, 1)
        assert tokens == sorted(tokens)  # type: ignore[type-var]
        busy = asyncio.create_task(exclusives[0].run(work))
        await asyncio.sleep(1)
        with pytest.raises(LeaseTaken):
            await fleet.process("e").run_exclusive("n", overlap="queue", wait=2).run(work)
        await busy

    virtually(main)


def test_replace_runs_when_the_other_one_has_stopped() -> None:
    async def main(fleet: Fleet) -> None:
        work = Work(1_000)
        a, b = (fleet.process(label).run_exclusive("n", overlap="replace") for label in "ab")
        first = asyncio.create_task(a.run(work))
        await asyncio.sleep(1)
        second, asked_at = asyncio.create_task(b.run(work)), asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost, match="a newer call"):
            await first
        # Long before it would have been renewed: the back end's hint reached it.
        assert asyncio.get_running_loop().time() - asked_at < 1
        await second
        assert (work.runs, work.most) == (2, 1)
        assert await fleet.process("operator").audits() == []

    virtually(main)


def test_what_ended_early_is_not_run_again_before_at_least_for() -> None:
    async def main(fleet: Fleet) -> None:
        work = Work(0.005)
        exclusives = [fleet.process(label).run_exclusive("n", at_least_for=1.0) for label in "abc"]
        for offset in (0.0, 0.05, 0.1):
            for exclusive in exclusives:
                await exclusive.run(work)
            await asyncio.sleep(offset)
        assert work.runs == 1
        await asyncio.sleep(1)
        await exclusives[2].run(work)
        assert work.runs == 2

    virtually(main)


def test_a_decorated_function_keeps_its_name_and_arguments() -> None:
    async def main(fleet: Fleet) -> None:
        leases = fleet.process("a")

        @leases.run_exclusive("n")
        async def add(one: int, *, two: int) -> int:
            """Adds."""
            return one + two

        assert await add(1, two=2) == 3
        assert (add.__name__, add.__doc__) == ("add", "Adds.")
        assert current_lease() is None

    virtually(main)


def test_one_that_would_wait_for_itself_is_told_so() -> None:
    async def main(fleet: Fleet) -> None:
        leases = fleet.process("a")
        exclusive = leases.run_exclusive("n", overlap="queue")

        async def inner() -> int:
            return 1

        async def outer() -> object:
            return await exclusive.run(inner)

        with pytest.raises(ReentrantCall):
            await exclusive.run(outer)
        assert await leases.run_exclusive("n").run(leases.run_exclusive("n")(inner)) is SKIPPED

    virtually(main)


def test_what_cannot_work_is_told_at_decoration() -> None:
    async def main(fleet: Fleet) -> None:
        leases = fleet.process("a")
        with pytest.raises(PolicyError, match="overlap"):
            leases.run_exclusive("n", overlap="drop")  # type: ignore[arg-type]
        for what in (7, Work, (number for number in ())):
            with pytest.raises(Misuse, match="decorates functions"):
                leases.run_exclusive("n")(what)  # type: ignore[call-overload]
        with pytest.raises(PolicyError, match="at_least_for"):
            leases.run_exclusive("n", at_least_for=-1)

    virtually(main)


def test_one_that_would_wait_for_itself_under_a_short_lease_is_told_so_too() -> None:
    async def main(fleet: Fleet) -> None:
        exclusive = fleet.process("a").run_exclusive("n", overlap="replace", lease_ttl=0.6)

        async def inner() -> int:
            return 1

        async def outer() -> object:
            return await exclusive.run(inner)

        with pytest.raises(ReentrantCall):
            await exclusive.run(outer)

    virtually(main)


def test_a_skipped_result_stays_the_one_object_when_a_task_queue_pickles_it() -> None:
    assert pickle.loads(pickle.dumps(SKIPPED)) is SKIPPED
    assert copy.deepcopy([SKIPPED]) == [SKIPPED]
