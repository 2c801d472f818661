"""What every back end of runs does where many come at once, and what the state machine does not see."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from redis.asyncio.cluster import RedisCluster

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import Misuse, StoreRefused
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.messages import Claim, Claimed, Ending, Outdated, Paused, Registration, Taken
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.redis.backend import RedisBackend
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG, owner

WORKERS = 5


def slot_ago(seconds: float) -> int:
    return round((time.time() - seconds) * 1000)


def claim(job: str, slot: int, run: str, **changed: Any) -> Claim:
    given: dict[str, Any] = {"fingerprint": "f", "alive_for": 60.0} | changed
    return Claim(job=job, slot=slot, run=run, owner=owner(run), **given)


def registration(job: str, fingerprint: str = "f", **changed: Any) -> Registration:
    given: dict[str, Any] = {"schedule": f"every {fingerprint}", "rhythm": 60.0} | changed
    return Registration(job=job, fingerprint=fingerprint, **given)


@pytest.fixture
def job(namespace: str) -> str:
    return f"{namespace}:nightly"


@pytest.fixture(params=["memory", "postgres", "valkey", "cluster"])
async def workers(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[list[RunBackend]]:
    """The same runs, as several processes see them."""
    backends: list[Any]
    match request.param:
        case "memory":
            rows = LeaseRows()
            backends = [MemoryBackend(rows) for _ in range(WORKERS)]
        case "postgres":
            url = request.getfixturevalue("postgres_url")
            backends = [PostgresBackend.from_url(url) for _ in range(WORKERS)]
            await backends[0].create_schema()
        case "cluster":
            port = request.getfixturevalue("valkey_cluster").servers[0].port
            cluster = await RedisCluster(host="127.0.0.1", port=port).initialize()
            store: Any = ClusterStore.from_client(cluster, deadline=LONG)
            await cluster.aclose()
            backends = [RedisBackend(store, namespace=namespace, restart="trust") for _ in range(WORKERS)]
        case _:
            store = RedisStore.from_url(request.getfixturevalue("valkey_url"), deadline=LONG)
            backends = [RedisBackend(store, namespace=namespace, restart="trust") for _ in range(WORKERS)]
    yield [runs_of(backend) for backend in backends]
    for backend in backends:
        await backend.aclose()


async def test_of_many_who_claim_a_slot_at_once_one_has_it(workers: list[RunBackend], job: str) -> None:
    await asyncio.gather(*[worker.register(registration(job), timeout=LONG) for worker in workers])
    for number in range(10):
        slot = slot_ago(60 + number)
        answers = await asyncio.gather(
            *[
                worker.claim(claim(job, slot, f"{index}-{turn}"), timeout=LONG)
                for index, worker in enumerate(workers)
                for turn in range(3)
            ]
        )
        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        assert answers.count(Taken("running")) == len(answers) - 1


async def claims_until(paused: asyncio.Event, worker: RunBackend, job: str, before: int) -> list[bool]:
    """Claim one slot after the other. Returns whether each was taken. After the pause it claims once more."""
    taken: list[bool] = []
    over = False
    while not over:
        over = paused.is_set()
        asked = claim(job, before - len(taken), uuid.uuid4().hex)
        answer = await worker.claim(asked, timeout=LONG)
        assert isinstance(answer, Paused if over else Claimed | Paused), answer
        taken.append(isinstance(answer, Claimed))
        await asyncio.sleep(0)
    return taken


async def test_no_claim_takes_a_slot_after_the_answer_to_a_pause(workers: list[RunBackend], job: str) -> None:
    await workers[0].register(registration(job), timeout=LONG)

    async def pauses(paused: asyncio.Event) -> None:
        await workers[-1].pause(job, by="Ada", timeout=LONG)
        paused.set()

    for number in range(20):
        paused = asyncio.Event()
        claiming = [
            claims_until(paused, worker, job, slot_ago(3_600 * (number + 1) + 600 * index))
            for index, worker in enumerate(workers[:-1])
        ]
        *found, _ = await asyncio.gather(*claiming, pauses(paused))
        for taken in found:
            # Those from before the pause, then none.
            assert taken == sorted(taken, reverse=True)
        await workers[0].resume(job, timeout=LONG)


async def test_a_claim_and_a_record_at_once_are_one_outcome(workers: list[RunBackend], job: str) -> None:
    await workers[0].register(registration(job), timeout=LONG)
    for number in range(10):
        slot = slot_ago(60 + number)
        claimed, recorded, again = await asyncio.gather(
            workers[0].claim(claim(job, slot, "a"), timeout=LONG),
            workers[1].record(job, slots=[slot], outcome="skipped", error="", timeout=LONG),
            workers[2].record(job, slots=[slot], outcome="missed", error="", timeout=LONG),
        )
        assert isinstance(claimed, Claimed) + recorded + again == 1


async def test_a_vanished_workers_slot_is_taken_over_by_one(workers: list[RunBackend], job: str) -> None:
    await workers[0].register(registration(job), timeout=LONG)
    slot = slot_ago(60)
    await workers[0].claim(claim(job, slot, "a", alive_for=0.0, attempts=2), timeout=LONG)
    answers = await asyncio.gather(
        *[
            worker.claim(claim(job, slot, str(index), attempts=2), timeout=LONG)
            for index, worker in enumerate(workers)
        ]
    )
    assert [answer.attempt for answer in answers if isinstance(answer, Claimed)] == [2]
    assert not await workers[0].finish(
        job, slot=slot, run="a", ending=Ending(outcome="completed"), timeout=LONG
    )


async def test_a_schedule_that_is_left_is_taken_over_by_one_and_at_once_followed_by_all_who_have_it(
    workers: list[RunBackend], job: str
) -> None:
    await workers[0].register(registration(job, "left", version=9, seen_for=1e-6), timeout=LONG)
    left = await workers[0].view(job, timeout=LONG)
    assert left is not None and left.seen_for == 1e-6
    mine = registration(job, "mine", version=1, seen_for=60.0)
    # Only who asks for it takes over.
    followed = await workers[1].follow(mine, timeout=LONG)
    assert followed is not None and (followed.fingerprint, followed.seen_at) == ("left", left.seen_at)
    took = await asyncio.gather(*[worker.take_over(mine, timeout=LONG) for worker in workers])
    assert sum(took) == 1
    view = await workers[2].follow(mine, timeout=LONG)
    assert view is not None
    assert (view.schedule, view.fingerprint, view.version, view.seen_for) == ("every mine", "mine", 1, 60.0)
    # What the other schedule left undone is this one's.
    assert view.scheduled_at == left.seen_at < view.seen_at
    assert view.registered_at == left.registered_at
    # The other is no more than a late comer by now.
    again = await workers[0].follow(registration(job, "left", version=0, seen_for=60.0), timeout=LONG)
    assert again is not None and again.fingerprint == "mine"


async def test_a_schedule_that_somebody_follows_is_not_to_be_taken_over(
    workers: list[RunBackend], job: str
) -> None:
    assert not await workers[0].take_over(registration(job), timeout=LONG)
    assert await workers[0].follow(registration(job), timeout=LONG) is None
    await workers[0].register(registration(job, "theirs", seen_for=0.0), timeout=LONG)
    assert not await workers[1].take_over(registration(job, "mine", version=2), timeout=LONG), "for ever"
    await workers[0].register(registration(job, "theirs", seen_for=60.0), timeout=LONG)
    assert not await workers[1].take_over(registration(job, "mine", version=2), timeout=LONG)
    view = await workers[1].view(job, timeout=LONG)
    assert view is not None and view.fingerprint == "theirs"


async def test_who_follows_an_older_version_of_the_schedule_that_counts_is_seen_as_well(
    workers: list[RunBackend], job: str
) -> None:
    first = await workers[0].register(registration(job, version=2, rhythm=30.0, seen_for=60.0), timeout=LONG)
    second = await workers[1].register(registration(job, version=1, seen_for=9.0), timeout=LONG)
    third = await workers[2].follow(registration(job, version=1, seen_for=90.0), timeout=LONG)
    assert third is not None
    assert first.seen_at < second.seen_at < third.seen_at
    assert (second.version, second.rhythm, third.version, third.rhythm) == (2, 30.0, 2, 30.0)
    # The longer word is good until it is over.
    assert 9.0 < second.seen_for <= 60.0
    assert third.seen_for == 90.0
    assert third.scheduled_at == first.scheduled_at


async def test_of_two_followers_the_greater_version_counts_and_its_slots_begin_then(
    workers: list[RunBackend], job: str
) -> None:
    old = await workers[0].register(registration(job, "old", version=1, seen_for=900.0), timeout=LONG)
    new = await workers[1].follow(registration(job, "new", version=2, seen_for=60.0), timeout=LONG)
    assert new is not None
    assert (new.fingerprint, new.version, new.seen_for) == ("new", 2, 60.0)
    assert new.scheduled_at > old.scheduled_at
    equal = await workers[2].follow(registration(job, "third", version=2, seen_for=60.0), timeout=LONG)
    assert equal is not None and (equal.fingerprint, equal.seen_at) == ("new", new.seen_at)


async def test_only_what_was_claimed_for_another_attempt_is_to_be_tried_again(
    workers: list[RunBackend], job: str
) -> None:
    await workers[0].register(registration(job), timeout=LONG)
    slots = [slot_ago(60 - number) for number in range(6)]
    allowed = [3, 1, 3, 3, 2, 3]
    for slot, attempts in zip(slots, allowed, strict=True):
        await workers[0].claim(claim(job, slot, "a", alive_for=0.0, attempts=attempts), timeout=LONG)
    done = Ending(outcome="completed")
    assert await workers[0].finish(job, slot=slots[2], run="a", ending=done, timeout=LONG)
    assert await workers[0].retriable(job, attempts=3, limit=9, timeout=LONG) == [], "they run"
    stopped = Ending(outcome="abandoned")
    assert await workers[0].finish(job, slot=slots[3], run="a", ending=stopped, timeout=LONG)
    assert len(await workers[1].sweep(job, timeout=LONG)) == 4

    async def again(*, attempts: int = 3, limit: int = 9) -> list[int]:
        found = await workers[1].retriable(job, attempts=attempts, limit=limit, timeout=LONG)
        assert all(view.outcome == "abandoned" and view.attempt < view.attempts for view in found)
        return [slots.index(view.slot) for view in found]

    assert await again() == [0, 3, 4, 5], "the oldest first"
    assert await again(limit=2) == [0, 3]
    assert await again(attempts=1) == []
    assert await workers[1].claim(claim(job, slots[1], "b", attempts=3), timeout=LONG) == Taken("abandoned")
    assert await workers[1].claim(claim(job, slots[0], "b", attempts=1), timeout=LONG) == Taken("abandoned")
    second = await workers[1].claim(claim(job, slots[0], "b", alive_for=0.0, attempts=2), timeout=LONG)
    assert isinstance(second, Claimed) and second.attempt == 2
    assert await again() == [3, 4, 5]
    await workers[1].sweep(job, timeout=LONG)
    # The last who claimed it wanted two.
    assert await again() == [3, 4, 5]
    third = await workers[1].claim(claim(job, slots[3], "b", alive_for=0.0, attempts=3), timeout=LONG)
    assert isinstance(third, Claimed) and third.attempt == 2
    await workers[1].sweep(job, timeout=LONG)
    assert await again() == [3, 4, 5]
    assert await again(attempts=2) == [4, 5]
    assert await workers[1].prune(job, keep=0, older_than=0.0, timeout=LONG) == 6
    assert await again() == []


async def test_of_a_job_that_was_forgotten_nothing_is_tried_again(
    workers: list[RunBackend], job: str
) -> None:
    await workers[0].register(registration(job), timeout=LONG)
    await workers[0].claim(claim(job, slot_ago(60), "a", alive_for=0.0, attempts=3), timeout=LONG)
    await workers[0].sweep(job, timeout=LONG)
    assert len(await workers[1].retriable(job, attempts=3, limit=9, timeout=LONG)) == 1
    assert await workers[1].forget(job, timeout=LONG)
    await workers[0].register(registration(job), timeout=LONG)
    assert await workers[1].retriable(job, attempts=3, limit=9, timeout=LONG) == []
    assert await workers[1].retriable(f"{job}s", attempts=3, limit=9, timeout=LONG) == []


async def test_jobs_of_a_prefix_are_listed_by_name(workers: list[RunBackend], job: str) -> None:
    for title in ("b", "a", "c"):
        await workers[0].register(registration(f"{job}:{title}"), timeout=LONG)
    views = await workers[1].views(f"{job}:", limit=2, timeout=LONG)
    assert [view.job for view in views] == [f"{job}:a", f"{job}:b"]
    assert await workers[0].forget(f"{job}:a", timeout=LONG)
    views = await workers[1].views(f"{job}:", limit=9, timeout=LONG)
    assert [view.job for view in views] == [f"{job}:b", f"{job}:c"]


async def test_a_long_history_is_read_in_pages(workers: list[RunBackend], job: str) -> None:
    await workers[0].register(registration(job), timeout=LONG)
    slots = [slot_ago(60 + number) for number in range(450)]
    assert await workers[0].record(job, slots=slots, outcome="missed", error="late", timeout=LONG) == 450
    await workers[0].claim(claim(job, slot_ago(9000), "a"), timeout=LONG)
    page = await workers[1].history(job, limit=420, timeout=LONG)
    assert [view.slot for view in page] == slots[:420]
    rest = await workers[1].history(job, limit=99, before=page[-1].slot, timeout=LONG)
    assert len(rest) == 31 and rest[-1].owner == owner("a")
    (only,) = await workers[1].history(job, limit=9, outcomes=["running"], timeout=LONG)
    assert only.run == "a"


class TestInATransaction:
    async def test_the_end_of_a_run_is_committed_with_what_it_wrote(
        self, postgres_url: str, job: str
    ) -> None:
        backend = PostgresBackend.from_url(postgres_url)
        user = await asyncpg.connect(postgres_url)
        try:
            await backend.create_schema()
            runs, slot = runs_of(backend), slot_ago(60)
            await runs.register(registration(job), timeout=LONG)
            await runs.claim(claim(job, slot, "a"), timeout=LONG)
            done = Ending(outcome="completed", counters={"files": 3}, token=7)
            with pytest.raises(Misuse, match="transaction"):
                await runs.finish_in(user, job, slot=slot, run="a", ending=done)
            with pytest.raises(ZeroDivisionError):
                async with user.transaction():
                    assert await runs.finish_in(user, job, slot=slot, run="a", ending=done)
                    raise ZeroDivisionError
            assert [view.outcome for view in await runs.history(job, limit=9, timeout=LONG)] == ["running"]
            async with user.transaction():
                assert not await runs.finish_in(user, job, slot=slot, run="b", ending=done)
                assert await runs.finish_in(user, job, slot=slot, run="a", ending=done)
                assert await user.fetchval("SHOW lock_timeout") == "0", "the user's settings are his own"
            (view,) = await runs.history(job, limit=9, timeout=LONG)
            assert (view.outcome, view.token, view.counters) == ("completed", 7, {"files": 3})
        finally:
            await user.close()
            await backend.aclose()


async def test_tables_of_before_the_pause_are_completed_and_keep_their_jobs(
    postgres_url: str, job: str
) -> None:
    backend = PostgresBackend.from_url(postgres_url, schema="before_pauses")
    try:
        await backend.create_schema()
        runs = runs_of(backend)
        await runs.register(registration(job), timeout=LONG)
        older = "ALTER TABLE before_pauses.jobs DROP paused_at, DROP paused_by, DROP resumed_at"
        await backend.room.fetch(older, timeout=LONG)
        with pytest.raises(StoreRefused, match="create_schema"):
            await runs.view(job, timeout=LONG)
        await backend.create_schema()
        view = await runs.pause(job, by="Ada", timeout=LONG)
        assert view is not None and view.paused_by == "Ada"
    finally:
        await backend.aclose()


async def test_a_row_that_was_made_for_a_claim_while_its_slot_was_pruned_is_not_claimed(
    postgres_url: str, job: str
) -> None:
    backend = PostgresBackend.from_url(postgres_url)
    user = await asyncpg.connect(postgres_url)
    try:
        await backend.create_schema()
        runs, slots = runs_of(backend), [slot_ago(60), slot_ago(30)]
        await runs.register(registration(job), timeout=LONG)
        await runs.record(job, slots=slots, outcome="missed", error="", timeout=LONG)
        assert await runs.prune(job, keep=1, older_than=0.0, timeout=LONG) == 1
        before = slots[0] - 1_000
        await user.execute("INSERT INTO stampede_guard.runs (job, slot) VALUES ($1, $2)", job, before)
        assert await runs.claim(claim(job, before, "a"), timeout=LONG) == Taken("missed")
        assert await runs.record(job, slots=[before], outcome="missed", error="", timeout=LONG) == 0
        assert [run.slot for run in await runs.history(job, limit=9, timeout=LONG)] == slots[1:]
        # It goes with the next that are pruned, and counts for nothing.
        assert await runs.prune(job, keep=1, older_than=0.0, timeout=LONG) == 0
        assert await user.fetchval("SELECT count(*) FROM stampede_guard.runs WHERE job = $1", job) == 1
    finally:
        await user.close()
        await backend.aclose()


async def test_a_redis_that_forgot_everything_gives_no_slot_of_before_its_start_a_second_outcome(
    own_valkey: ValkeyServer,
) -> None:
    job = f"shop:{uuid.uuid4().hex}"
    before = slot_ago(1)
    await asyncio.to_thread(own_valkey.restart, keep_data=False)
    backend = RedisBackend.from_url(own_valkey.url, namespace="shop")
    try:
        runs = runs_of(backend)
        assert await runs.claim(claim(job, before, "a"), timeout=LONG) == Outdated("")
        await runs.register(registration(job), timeout=LONG)
        assert await runs.claim(claim(job, before - 5_000, "a"), timeout=LONG) == Taken("missed")
        assert await runs.record(job, slots=[before - 5_000], outcome="missed", error="", timeout=LONG) == 0
    finally:
        await backend.aclose()
