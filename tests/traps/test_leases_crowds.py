"""A thousand who wait, two thousand who come at once, and a fleet that does nothing: none of it is an outage."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis.asyncio

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.memory import MemoryRuns
from stampede_guard.jobs.messages import Claim, Claimed, JobPoll, JobView, PollAnswer, Registration
from stampede_guard.leases import PostgresLeases
from stampede_guard.leases.core import holding
from stampede_guard.leases.core.holding import AwaitingLease, BackendAnswered, Sleep, decide
from stampede_guard.leases.core.moves import Freed, Want
from stampede_guard.leases.core.queue import CALLED
from stampede_guard.leases.core.timing import WATCHING, job_timing, leader_timing
from stampede_guard.leases.messages import LeaseHeld, Owner
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.postgres.connections import APPLICATION_NAME, Connections
from stampede_guard.leases.protocol import Backend
from stampede_guard.stores.redis import RedisStore
from tests.leases.test_hold import Faulty
from tests.leases.virtual import Fleet, virtually
from tests.support.gate import until
from tests.support.leases import LONG, MemoryWorld, PostgresWorld, RedisWorld, World, ask, granted, owner


@pytest.fixture(params=["memory", "postgres", "valkey"])
async def world(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[World]:
    made: MemoryWorld | PostgresWorld | RedisWorld
    match request.param:
        case "memory":
            made = MemoryWorld()
        case "postgres":
            made = PostgresWorld(request.getfixturevalue("postgres_url"))
            await made.prepare()
        case _:
            outside = redis.asyncio.Redis.from_url(request.getfixturevalue("valkey_url"))
            made = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
def name(namespace: str) -> str:
    return f"{namespace}:lease"


async def hearing(backend: Backend, calls: list[tuple[str, int]], name: str) -> None:
    """Until calls reach it."""
    backend.on_called(lambda holder, ahead: calls.append((holder, ahead)))
    await until(lambda: backend.hears)
    async with asyncio.timeout(LONG):
        while not calls:
            token = await granted(backend, f"{name}:first", "x")
            await backend.acquire(ask(f"{name}:first", "y", place=30), timeout=LONG)
            await backend.release(f"{name}:first", holder="x", token=token, at_least_for=0, timeout=LONG)
            await backend.leave(f"{name}:first", holder="y", timeout=LONG)
            await asyncio.sleep(0)
    calls.clear()


class TestWaiters:
    async def test_a_release_calls_the_first_few_and_nobody_else(self, world: World, name: str) -> None:
        one, other = world.open(), world.open()
        calls: list[tuple[str, int]] = []
        await hearing(other, calls, name)
        token = await granted(one, name, "a")
        for number in range(30):
            await one.acquire(ask(name, f"w{number}", place=30), timeout=LONG)
        await one.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        await until(lambda: len(calls) == CALLED)
        assert calls == [("w0", 0), ("w1", 1), ("w2", 2)]
        # Whoever asks out of turn calls nobody a second time.
        await one.acquire(ask(name, "w20", place=30), timeout=LONG)
        await granted(one, name, "w0")
        await one.release(name, holder="w0", token=0, at_least_for=0, timeout=LONG)
        await until(lambda: len(calls) > CALLED)
        assert calls[CALLED:] == [("w3", 0)] or ("w3", 2) in calls[CALLED:] or calls[CALLED][0] == "w3"

    async def test_who_is_called_and_does_not_answer_is_passed_over_after_its_turn(
        self, world: World, name: str
    ) -> None:
        backend = world.open()
        token = await granted(backend, name, "a")
        for holder in ("dead", "b"):
            question = ask(name, holder, place=300)
            await backend.acquire(with_turn(question, 5.0), timeout=LONG)
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        answer = await backend.acquire(with_turn(ask(name, "b", place=300), 5.0), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.ahead == 1 and 0 < answer.remaining <= 5.0
        await world.age(name, 6)
        await granted(backend, name, "b")

    async def test_a_lease_that_ended_by_itself_is_not_waited_for_longer_than_a_turn(
        self, world: World, name: str
    ) -> None:
        backend = world.open()
        calls: list[tuple[str, int]] = []
        await hearing(backend, calls, name)
        await granted(backend, name, "a", lease_ttl=10)
        for holder in ("w0", "w1", "w2", "w3"):
            await backend.acquire(with_turn(ask(name, holder, place=300), 5.0), timeout=LONG)
        await world.age(name, 11)
        # Nobody gave it back, and nobody was told: who asks out of turn has those before it called.
        answer = await backend.acquire(with_turn(ask(name, "w3", place=300), 5.0), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining <= 5.0
        await until(lambda: len(calls) == 3)
        assert [holder for holder, _ in calls] == ["w0", "w1", "w2"]
        await world.age(name, 6)
        await granted(backend, name, "w3")

    async def test_a_place_is_a_row_of_its_own_and_who_keeps_it_writes_nothing_else(
        self, world: World, name: str
    ) -> None:
        backend = world.open()
        token = await granted(backend, name, "a")
        await world.crowd(name, 990)
        for number in (0, 500, 989):
            answer = await backend.acquire(ask(name, f"w{number}", place=600), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.ahead == number
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        await granted(backend, name, "w0")
        view = await backend.show(name, timeout=LONG)
        assert view is not None and len(view.waiting) == 989

    async def test_a_question_of_a_waiter_touches_the_same_number_of_keys_however_many_wait(
        self, valkey_url: str, namespace: str
    ) -> None:
        outside = redis.asyncio.Redis.from_url(valkey_url)
        made = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
        try:
            backend, touched = made.open(), {}
            for crowd in (10, 900):
                title = f"{namespace}:of{crowd}"
                token = await granted(backend, title, "a")
                await made.crowd(title, crowd)
                before = await commands(outside)
                await backend.acquire(ask(title, "w5", place=600), timeout=LONG)
                await backend.release(title, holder="a", token=token, at_least_for=0, timeout=LONG)
                await granted(backend, title, "w0")
                touched[crowd] = commands_since(before, await commands(outside))
            assert abs(touched[10] - touched[900]) <= 3, touched
        finally:
            await made.aclose()

    async def test_places_that_an_older_version_wrote_into_the_row_keep_their_order(
        self, valkey_url: str, namespace: str
    ) -> None:
        outside = redis.asyncio.Redis.from_url(valkey_url)
        made, title = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace), f"{namespace}:old"
        try:
            backend = made.open()
            token = await granted(backend, title, "a")
            key = f"{{{namespace}.leases}}:rows"
            row = json.loads(await outside.hget(key, title))
            till = str(round((time.time() + 30) * 1e6))
            row["queue"] = [
                {
                    "holder": holder,
                    "owner": json.dumps({"process": holder}),
                    "until": till,
                    "seconds": "30000000",
                }
                for holder in ("old1", "old2")
            ]
            await outside.hset(key, title, json.dumps(row))
            answer = await backend.acquire(ask(title, "new", place=30), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.ahead == 2
            await backend.release(title, holder="a", token=token, at_least_for=0, timeout=LONG)
            answer = await backend.acquire(ask(title, "new", place=30), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.owner == Owner(process="old1")
            await granted(backend, title, "old1")
        finally:
            await made.aclose()


def with_turn(question: Any, turn: float) -> Any:
    return replace(question, turn=turn)


async def commands(outside: redis.asyncio.Redis) -> Counter[str]:
    stats = await outside.info("commandstats")
    return Counter({name: entry["calls"] for name, entry in stats.items()})


def commands_since(before: Counter[str], after: Counter[str]) -> int:
    grown = after - before
    return sum(
        count for name, count in grown.items() if name not in ("cmdstat_info", "cmdstat_ping", "cmdstat_eval")
    )


class TestHowOftenWaitersAsk:
    def test_who_is_far_behind_and_would_be_called_asks_seldom(self) -> None:
        timing = leader_timing()
        place = timing.place_for(500, hears=True)
        pauses = [
            timing.next_question(10.0, ahead, 1.0, place=place, hears=True) for ahead in (0, 5, 19, 25, 500)
        ]
        assert pauses[0] <= 1.25 and pauses == sorted(pauses)
        assert pauses[-1] >= 30 and pauses[-1] * 2 <= place, "and keeps its place"

    def test_who_would_not_be_called_asks_as_before(self) -> None:
        timing = leader_timing()
        assert timing.next_question(1e9, 500, 1.0, hears=False) <= 5.0

    @pytest.mark.parametrize("candidates", [3, 20, 50, 200])
    def test_the_candidates_of_an_election_together_ask_hardly_more_however_many_they_are(
        self, candidates: int
    ) -> None:
        timing = leader_timing()
        a_second = sum(
            1 / timing.next_question(12.0, ahead, 0.5, place=timing.place_for(ahead, hears=True), hears=True)
            for ahead in range(candidates)
        )
        assert a_second < 12, a_second

    def test_the_first_twenty_ask_when_the_lease_is_to_end(self) -> None:
        """A crash is followed within the lease's time and a second, though those before are dead as well."""
        timing = leader_timing()
        for ahead in range(WATCHING):
            pause = timing.next_question(
                3.0, ahead, 1.0, place=timing.place_for(ahead, hears=True), hears=True
            )
            assert pause <= 3.25

    def test_a_call_brings_the_next_question_forward_by_its_own_rank(self) -> None:
        timing = job_timing()
        state, _ = decide(holding.Idle(), Want(100.0, 900.0), timing)
        held = LeaseHeld(Owner(process="x"), 1, 50.0, 500)
        state, command = decide(state, BackendAnswered(held, 100.1, 0.5, hears=True), timing)
        assert isinstance(state, AwaitingLease) and isinstance(command, Sleep) and command.until >= 104
        for _ in range(2):
            state, _ = decide(state, holding.Looked(command.until), timing)
            state, command = decide(
                state, BackendAnswered(held, command.until + 0.1, 0.5, hears=True), timing
            )
            assert isinstance(command, Sleep)
        assert command.until > 120
        state, command = decide(state, Freed(120.0, 0.5, 0), timing)
        assert isinstance(command, Sleep) and command.until == 120.0


# --- PostgreSQL's few connections


class Slow:
    """A connection whose statements end when the test says so."""

    made = 0

    def __init__(self) -> None:
        Slow.made += 1
        self.waiting: list[asyncio.Future[list[int]]] = []
        self.closed = False

    async def fetch(self, sql: str, *args: object) -> list[int]:
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return await future

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True

    async def close(self, timeout: float) -> None:
        self.closed = True


@pytest.fixture
def slow() -> list[Slow]:
    return []


def room_of(slow: list[Slow], *, size: int = 1, idle_for: float = 60.0) -> Connections:
    async def connect() -> Slow:
        slow.append(Slow())
        return slow[-1]

    return Connections(connect, size=size, idle_for=idle_for)


class TestWaitingForAConnection:
    async def test_it_is_no_outage_while_others_are_answered(self, slow: list[Slow]) -> None:
        room, patience = room_of(slow), 0.2
        tasks = [asyncio.ensure_future(room.fetch("x", timeout=patience)) for _ in range(12)]
        begun = asyncio.get_running_loop().time()
        for _ in tasks:
            await until(lambda: bool(slow and slow[0].waiting))
            # Each is answered in time; the last one waits for many time-outs.
            await asyncio.sleep(patience / 2)
            slow[0].waiting.pop().set_result([1])
            await asyncio.sleep(0)
        assert await asyncio.gather(*tasks) == [[1]] * 12
        assert asyncio.get_running_loop().time() - begun > patience * 3
        assert len(slow) == 1 and not slow[0].closed, "a healthy connection is not closed"
        await room.aclose()

    async def test_a_database_that_is_silent_to_all_is_told_to_all_by_one_time_out(
        self, slow: list[Slow]
    ) -> None:
        room = room_of(slow)
        answers = await asyncio.gather(
            *[room.fetch("x", timeout=0.3) for _ in range(200)], return_exceptions=True
        )
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        assert len(slow) <= 3, "not one time-out after the other"
        await room.aclose()

    async def test_what_still_waits_for_a_connection_may_be_cancelled_and_was_never_sent(
        self, slow: list[Slow]
    ) -> None:
        room = room_of(slow)
        first = asyncio.ensure_future(room.fetch("first", timeout=LONG))
        await until(lambda: bool(slow and slow[0].waiting))
        second = asyncio.ensure_future(room.fetch("second", timeout=LONG))
        await until(lambda: room.unsent(second))
        assert not room.unsent(first)
        second.cancel()
        slow[0].waiting.pop().set_result([1])
        assert await first == [1]
        with contextlib.suppress(asyncio.CancelledError):
            await second
        assert not slow[0].closed and not slow[0].waiting
        await room.aclose()

    async def test_a_connection_that_nobody_uses_is_closed(self, slow: list[Slow]) -> None:
        room = room_of(slow, size=3, idle_for=0.05)
        tasks = [asyncio.ensure_future(room.fetch("x", timeout=LONG)) for _ in range(3)]
        await until(lambda: len(slow) == 3 and all(one.waiting for one in slow))
        for one in slow:
            one.waiting.pop().set_result([1])
        await asyncio.gather(*tasks)
        await until(lambda: all(one.closed for one in slow))
        await room.aclose()

    async def test_a_storm_of_cancellations_holds_up_nobody(self, postgres_url: str, namespace: str) -> None:
        world = PostgresWorld(postgres_url)
        await world.prepare()
        leases = PostgresLeases.from_url(postgres_url, namespace=namespace)
        try:
            async with leases.hold("crowded"):
                waiting = [asyncio.ensure_future(wait_for(leases)) for _ in range(300)]
                backend: Any = leases.part().backend
                await until(lambda: sum(task.done() for task in waiting) == 0)
                await asyncio.sleep(0)
                for task in waiting:
                    task.cancel()
                async with asyncio.timeout(LONG):
                    async with leases.hold("other"):
                        pass
                await asyncio.gather(*waiting, return_exceptions=True)
            await until(lambda: leases.part().busy == 0)
            view = await leases.show("crowded")
            assert view is not None and not view.held and view.waiting == ()
            assert backend._leaving._waiting == []
        finally:
            await leases.aclose()
            await world.aclose()

    @pytest.mark.alone(reason="each of the claims has three seconds, and they need most of the machine")
    async def test_two_thousand_claims_at_once_are_all_answered(
        self, postgres_url: str, namespace: str
    ) -> None:
        world = PostgresWorld(postgres_url)
        await world.prepare()
        backend = world.open()
        try:
            runs, job = runs_of(backend), f"{namespace}:many"
            registration = Registration(job=job, schedule="s", fingerprint="f", rhythm=1.0)
            view = await runs.register(registration, timeout=LONG)
            first = int(view.at * 1000) - 2_000
            answers = await asyncio.gather(
                *[
                    runs.claim(
                        Claim(
                            job=job, slot=first - number, run=f"r{number}", owner=owner("x"),
                            fingerprint="f", alive_for=60.0,
                        ),
                        timeout=3.0,
                    )
                    for number in range(2_000)
                ],
                return_exceptions=True,
            )  # fmt: skip
            assert Counter(type(answer) for answer in answers) == {Claimed: 2_000}
        finally:
            await world.aclose()


async def wait_for(leases: PostgresLeases) -> None:
    async with leases.hold("crowded", wait=60):
        pass


async def test_connections_of_leases_have_a_name(postgres_url: str) -> None:
    user = await asyncpg.connect(postgres_url)
    named = PostgresBackend.from_url(f"{postgres_url}?application_name=shop-leases")
    plain = PostgresBackend.from_url(postgres_url)
    try:
        for backend, wanted in ((plain, APPLICATION_NAME), (named, "shop-leases")):
            rows = await backend.room.fetch("SELECT current_setting('application_name')", timeout=LONG)
            assert rows[0][0] == wanted
    finally:
        await user.close()
        await named.aclose()
        await plain.aclose()


# --- a fleet that does nothing


class Counted(MemoryRuns):
    """As a store in which many jobs are one statement."""

    def __init__(self, **clock: Any) -> None:
        super().__init__(**clock)
        self.asked: Counter[str] = Counter()

    async def register_all(self, registrations: Any, *, timeout: float = 0.0) -> list[JobView]:
        self.asked["register_all"] += 1
        return await super().register_all(registrations)

    async def look(self, looks: Any, *, again: int, timeout: float = 0.0) -> list[PollAnswer]:
        self.asked["look"] += 1
        return await super().look(looks, again=again)


class TestAnIdleFleet:
    def test_a_worker_with_a_hundred_jobs_sends_one_statement_for_all_of_them(self) -> None:
        async def scenario(fleet: Fleet) -> None:
            runs = Counted(clock=lambda: 1_800_000_000.0 + asyncio.get_running_loop().time())
            jobs = Jobs(fleet.process("one"), runs=lambda: runs)
            for number in range(100):
                jobs.cron(f"{number % 60} 3 1 1 *", name=f"job{number}")(nothing)
            jobs.start()
            await asyncio.sleep(3_600)
            await jobs.stop()
            # The first of them comes alone.
            assert runs.asked["register_all"] == 1
            assert 3_600 / 45 <= runs.asked["look"] <= 3_600 / (45 * 0.75) + 2, runs.asked

        virtually(scenario)

    def test_jobs_of_different_rhythms_share_what_they_can(self) -> None:
        async def scenario(fleet: Fleet) -> None:
            runs = Counted(clock=lambda: 1_800_000_000.0 + asyncio.get_running_loop().time())
            jobs = Jobs(fleet.process("one"), runs=lambda: runs)
            for number in range(90):
                ttl = (60.0, 120.0, 600.0)[number % 3]
                jobs.cron("0 3 1 1 *", name=f"job{number}", lease_ttl=ttl)(nothing)
            jobs.start()
            await asyncio.sleep(3_600)
            await jobs.stop()
            assert runs.asked["look"] <= 2 * 3_600 / (45 * 0.75), runs.asked
            for view in await runs.views("", limit=99):
                assert view.at - view.seen_at <= view.seen_for / 4 + 1, "each gave its signs in time"

        virtually(scenario)


async def nothing() -> None: ...


@pytest.mark.parametrize("where", ["memory", "postgres", "valkey"])
async def test_one_look_says_what_single_steps_say(
    where: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    world: World
    if where == "memory":
        world = MemoryWorld()
    elif where == "postgres":
        world = PostgresWorld(request.getfixturevalue("postgres_url"))
        await world.prepare()
    else:
        outside = redis.asyncio.Redis.from_url(request.getfixturevalue("valkey_url"))
        world = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
    backend: Any = world.open()
    runs = runs_of(backend)
    given = [
        Registration(
            job=f"{namespace}:{title}",
            schedule=f"s {title}",
            fingerprint=f"f {title}",
            rhythm=1.0,
            seen_for=180.0,
        )
        for title in ("c", "a", "b")
    ]
    try:
        views = await runs.register_all(given, timeout=LONG)
        assert [view.job for view in views] == [one.job for one in given]
        slot = int(views[0].at * 1000) - 5_000
        for number, alive_for in enumerate((0.0, 600.0)):
            claim = Claim(
                job=given[1].job, slot=slot + number, run=f"r{number}", owner=owner("x"),
                fingerprint=given[1].fingerprint, alive_for=alive_for, attempts=3,
            )  # fmt: skip
            answer = await runs.claim(claim, timeout=LONG)
            assert isinstance(answer, Claimed)
        unknown = Registration(job=f"{namespace}:nobody", schedule="s", fingerprint="f", rhythm=1.0)
        seen = await runs.look(
            [JobPoll(registration=one, attempts=3) for one in (*given, unknown)], again=5, timeout=LONG
        )
        assert [one.view.job if one.view else None for one in seen] == [*(one.job for one in given), None]
        assert [one.view.schedule for one in seen if one.view] == [one.schedule for one in given]
        assert [run.slot for run in seen[1].vanished] == [slot]
        assert seen[1].vanished[0].outcome == "abandoned" and seen[1].vanished[0].owner == owner("x")
        assert seen[0].vanished == seen[2].vanished == ()
        (seen_again,) = await runs.look([JobPoll(registration=given[1], attempts=3)], again=5, timeout=LONG)
        assert [run.slot for run in seen_again.again] == [slot] and seen_again.vanished == ()
        assert seen_again.view.last_error == "the worker vanished"
        assert seen_again.view == await same_but_for_the_time(runs, seen_again.view)
        (other,) = await runs.look([JobPoll(registration=given[1], attempts=1)], again=5, timeout=LONG)
        assert other.again == ()
    finally:
        await world.aclose()


async def same_but_for_the_time(runs: Any, view: JobView) -> JobView:
    found = await runs.view(view.job, timeout=LONG)
    return replace(found, at=view.at)


class Counting(Faulty):
    """A store's face for one candidate. `Counting.asked`: questions of all of them."""

    asked = 0

    async def acquire(self, ask: Any, *, timeout: float) -> Any:
        Counting.asked += 1
        return await super().acquire(ask, timeout=timeout)


class TestManyCandidates:
    @pytest.mark.parametrize(
        ("candidates", "dead"), [(5, 1), (5, 2), (40, 1), (40, 6), (200, 1), (200, 2), (200, 6)]
    )
    def test_a_crash_is_followed_in_time_also_when_the_next_in_line_die_with_the_leader(
        self, candidates: int, dead: int
    ) -> None:
        """The leader and those who stand first: a node, or a zone."""

        async def scenario(fleet: Fleet) -> None:
            loop = asyncio.get_running_loop()
            backends = [Counting(fleet.rows) for _ in range(candidates)]
            elections = [
                fleet.process(str(number), backend=lambda number=number: backends[number]).election("e")
                for number in range(candidates)
            ]
            for election in elections:
                election.start()
                await asyncio.sleep(0.01)
            await asyncio.sleep(120)
            Counting.asked, begun = 0, loop.time()
            await asyncio.sleep(60)
            assert Counting.asked / (loop.time() - begun) < 12
            for backend in backends[:dead]:
                backend.away = True
            crashed = loop.time()
            alive = elections[dead:]
            while not any(election.is_leader for election in alive):  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(0.05)
            assert loop.time() - crashed <= 15 + 1, loop.time() - crashed
            for backend in backends:
                backend.away = False
            await asyncio.gather(*[election.stop() for election in elections])

        virtually(scenario)
