"""The elected worker refreshes hot keys before they expire. In virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.events import Event, Hit, Miss, Stale
from stampede_guard.stores.memory import MemoryStore
from tests.leases.virtual import Fleet, virtually

TTL = 30


class Users:
    """Two processes over one store; every call of either is counted by how it was served."""

    def __init__(self, stale_ttl: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        self.store = MemoryStore(clock=loop.time)
        self.served: Counter[str] = Counter()
        self.computed: Counter[int] = Counter()
        self.failing = False
        self.seconds = 0.5
        self.stale_ttl = stale_ttl
        self.guards = [StampedeGuard(self.store, namespace="w", hooks=(self._note,)) for _ in range(2)]
        self.functions = [self._cached(guard) for guard in self.guards]

    def _note(self, event: Event) -> None:
        if isinstance(event, Hit | Miss | Stale):
            self.served[type(event).__name__] += 1

    def _cached(self, guard: StampedeGuard) -> Any:
        async def report(project: int) -> int:
            self.computed[project] += 1
            await asyncio.sleep(self.seconds)
            if self.failing:
                raise ZeroDivisionError
            return project

        return guard.locked_cache(ttl=TTL, stale_ttl=self.stale_ttl)(report)

    async def aclose(self) -> None:
        for guard in self.guards:
            await guard.aclose()


async def opened(fleet: Fleet, **options: float) -> Users:
    users = Users(**options)
    fleet.at_end.append(users.aclose)
    return users


def test_users_never_meet_a_cold_key_that_is_hot() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmers = [fleet.process(f"p{i}").warmer(guard) for i, guard in enumerate(users.guards)]
        async with warmers[0], warmers[1]:
            for _ in range(10 * TTL):
                for function in users.functions:
                    await function(7)
                await asyncio.sleep(1)
            assert users.served["Miss"] == 1 and users.served["Stale"] == 0
            # Once per lifetime or a little more, by one of the two.
            assert 9 <= users.computed[7] <= 15
            assert [warmer.election.is_leader for warmer in warmers].count(True) == 1

    virtually(main)


def test_a_warmer_that_is_started_again_learns_again() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])
        for project in (1, 2):
            async with warmer:
                for _ in range(5):
                    await users.functions[0](project)
                assert len(warmer.hot) == project

    virtually(main)


def test_without_a_warmer_they_do() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        for _ in range(3 * TTL):
            await users.functions[0](7)
            await asyncio.sleep(1)
        assert users.served["Miss"] >= 2

    virtually(main)


def test_what_is_called_no_more_is_refreshed_no_more() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])
        async with warmer:
            for _ in range(10):
                await users.functions[0](7)
            assert warmer.hot == [users.functions[0].key(7)]
            await asyncio.sleep(60)
            before = users.computed[7]
            await asyncio.sleep(300)
            assert users.computed[7] == before
            assert warmer.hot == []

    virtually(main)


def test_a_key_that_is_kept_is_warm_though_nobody_calls_it() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])
        warmer.keep(users.functions[0], 9)
        async with warmer:
            await asyncio.sleep(5 * TTL)
            warmer.keep(users.functions[0], 10)
            await asyncio.sleep(2)
            assert users.computed[9] >= 5 and users.computed[10] == 1
            users.served.clear()
            assert await users.functions[1](9) == 9
            assert users.served["Miss"] == 0
        with pytest.raises(Misuse, match="locked_cache"):
            warmer.keep(print)

    virtually(main)


def test_a_function_may_have_parameters_with_the_names_of_keeps_own() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        computed: list[tuple[str, int]] = []

        @users.guards[0].locked_cache(ttl=TTL)
        async def documented(function: str, self: int) -> str:
            computed.append((function, self))
            return function

        warmer = fleet.process("p").warmer(users.guards[0])
        warmer.keep(documented, function="f", self=7)
        async with warmer:
            await asyncio.sleep(2)
        assert computed == [("f", 7)]

    virtually(main)


def test_what_cannot_be_kept_warm_is_refused_at_once() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])

        @users.guards[0].locked_cache(ttl=TTL)
        def plain(project: int) -> int:
            return project

        other = StampedeGuard(users.store, namespace="other")
        with pytest.raises(Misuse, match=r"has no projct \(do you mean project\?\); it has project"):
            warmer.keep(users.functions[0], projct=9)
        with pytest.raises(Misuse, match="has no every; it has project"):
            warmer.keep(users.functions[0], 9, every="10s")
        with pytest.raises(Misuse, match="missing a required argument: 'project'"):
            warmer.keep(users.functions[0])
        with pytest.raises(Misuse, match="another guard"):
            warmer.keep(other.locked_cache(ttl=TTL, name="others")(users.functions[0].__wrapped__), 9)
        with pytest.raises(Misuse, match="plain function"):
            warmer.keep(plain, 9)
        assert not warmer._kept

    virtually(main)


def test_no_more_keys_are_kept_warm_than_asked_for_and_the_hottest_are() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0], most=2)
        async with warmer:
            for _ in range(5):
                for project in range(40):
                    for _ in range(1 + 3 * (project in (3, 5))):
                        await users.functions[0](project)
            assert set(warmer.hot) == {users.functions[0].key(project) for project in (3, 5)}
            assert len(warmer._keys) <= 16

    virtually(main)


def test_who_was_never_elected_forgets_what_was_hot_long_ago() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0], most=2)
        function = users.functions[0]
        for project in range(16):
            for _ in range(8):
                await function(project)
        # The next day it is others, a few of them often; nobody has stood for election here.
        for _ in range(300):
            for project in (100, 101, 102):
                await function(project)
        assert {name.rpartition(":")[2] for name in warmer.hot} <= {
            function.key(project).rpartition(":")[2] for project in (100, 101, 102)
        }
        assert len(warmer._keys) <= 16

    virtually(main)


def test_a_computation_that_fails_is_tried_again_and_harms_nobody() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])
        async with warmer:
            for _ in range(TTL):
                await users.functions[0](7)
                users.failing = users.computed[7] > 0
                await asyncio.sleep(0.8)
            users.failing = False
            for _ in range(4 * TTL):
                await users.functions[0](7)
                await asyncio.sleep(1)
            assert warmer.election.is_leader

    virtually(main)


def test_what_cannot_work_is_told_at_once() -> None:
    async def main(fleet: Fleet) -> None:
        users, leases = await opened(fleet), fleet.process("p")
        with pytest.raises(PolicyError, match="most"):
            leases.warmer(users.guards[0], most=0)
        with pytest.raises(Misuse, match="StampedeGuard"):
            leases.warmer(object())

    virtually(main)


def test_what_takes_long_is_begun_early_enough_to_be_there_in_time() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        users.seconds = 8.0
        async with fleet.process("p").warmer(users.guards[0]):
            for _ in range(6 * TTL):
                await users.functions[1](7)
                await users.functions[0](7)
                await asyncio.sleep(1)
            assert users.served["Miss"] <= 2 and users.served["Stale"] == 0

    virtually(main)


def test_what_may_be_served_stale_is_fresh_all_the_same() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet, stale_ttl=10 * TTL)
        async with fleet.process("p").warmer(users.guards[0]):
            for _ in range(6 * TTL):
                await users.functions[0](7)
                await asyncio.sleep(1)
            assert users.served["Miss"] == 1 and users.served["Stale"] == 0

    virtually(main)


def test_a_hot_key_that_was_invalidated_is_warm_again_before_anybody_asks() -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        async with fleet.process("p").warmer(users.guards[0]):
            for _ in range(20):
                await users.functions[0](7)
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)
            before = users.computed[7]
            await users.functions[0].invalidate(7)
            await asyncio.sleep(6)
            assert users.computed[7] == before + 1
            users.served.clear()
            await users.functions[1](7)
            assert users.served["Miss"] == 0

    virtually(main)


def test_what_is_cold_is_forgotten_and_what_is_kept_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def main(fleet: Fleet) -> None:
        users = await opened(fleet)
        warmer = fleet.process("p").warmer(users.guards[0])
        warmer.keep(users.functions[0], 9)
        async with warmer:
            for project in range(5):
                await users.functions[0](project)
            await asyncio.sleep(10 * TTL)
            assert [name.rpartition(":")[2] for name in warmer._keys] == [
                users.functions[0].key(9).rpartition(":")[2]
            ]
            # Looked at, and not called again and again.
            assert sum(users.served.values()) <= 10
        assert not [record for record in caplog.records if record.levelname == "ERROR"]

    virtually(main)
