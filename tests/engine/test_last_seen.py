"""The values that a process saw last: what it serves while the store is away."""

from __future__ import annotations

import asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.core.entry import Reading
from stampede_guard.engine.away.last_seen import OVERHEAD, LastSeen
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards


def reading(
    token: int, body: bytes = b"x", *, total: int = 60_000, stale: int = 0, remaining: int = -2
) -> Reading:
    return Reading(body, token, total, stale, total if remaining == -2 else remaining)


def test_a_value_is_fresh_then_stale_then_missing() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(1, total=90_000, stale=30_000), now=100.0)
    assert last.find("k", now=159.9)[1] == "fresh"
    found, state = last.find("k", now=160.0)
    assert (found.token if found else 0, state) == (1, "stale")
    assert last.find("k", now=189.9)[1] == "stale"
    assert last.find("k", now=190.0) == (None, "missing")
    assert len(last) == 0, "what is over is forgotten when it is looked at"


def test_the_time_that_counts_is_what_was_left_when_it_was_seen() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(1, remaining=5_000), now=100.0)
    assert last.find("k", now=104.9)[1] == "fresh"
    assert last.find("k", now=105.0)[1] == "missing"


def test_a_value_without_a_lifetime_is_not_kept_for_ever() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(1, remaining=-1), now=100.0)
    assert last.find("k", now=100.0)[1] == "missing"
    last.keep("k", reading(2, remaining=10**12), now=100.0)
    assert last.find("k", now=160.0)[1] == "missing"


def test_a_newer_value_takes_the_place_of_the_older_one() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(1, b"old"), now=100.0)
    last.keep("k", reading(2, b"new"), now=130.0)
    found, _ = last.find("k", now=189.0)
    assert found is not None and found.body == b"new"
    assert len(last) == 1


def test_what_was_computed_while_the_store_was_away_is_replaced_by_the_next_of_its_kind() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(0, b"first"), now=100.0)
    last.keep("k", reading(0, b"second"), now=101.0)
    found, _ = last.find("k", now=102.0)
    assert found is not None and found.body == b"second"


def test_it_is_bounded_in_bytes_and_the_least_recently_seen_go_first() -> None:
    size = 1 + 100 + OVERHEAD
    last = LastSeen(3 * size)
    for name in "abc":
        last.keep(name, reading(1, b"x" * 100), now=0.0)
    last.keep("a", reading(1, b"x" * 100), now=0.0)
    last.keep("d", reading(1, b"x" * 100), now=0.0)
    assert [name for name in "abcd" if last.find(name, now=0.0)[0]] == ["a", "c", "d"]


def test_a_value_larger_than_all_the_room_pushes_nobody_out() -> None:
    last = LastSeen(1000)
    last.keep("a", reading(1), now=0.0)
    last.keep("b", reading(1, b"x" * 1000), now=0.0)
    assert len(last) == 1


def test_a_value_that_has_grown_too_large_takes_its_older_self_along() -> None:
    last = LastSeen(1000)
    last.keep("a", reading(1, b"old"), now=0.0)
    last.keep("a", reading(2, b"x" * 1000), now=0.0)
    assert last.find("a", now=0.0) == (None, "missing")


def test_with_no_room_nothing_is_kept() -> None:
    last = LastSeen(0)
    last.keep("a", reading(1), now=0.0)
    assert len(last) == 0


def test_dropping_and_clearing_give_the_room_back() -> None:
    last = LastSeen(2 * (1 + 1 + OVERHEAD))
    for _ in range(10):
        last.keep("a", reading(1), now=0.0)
        last.drop("a")
        last.drop("a")
    for _ in range(10):
        last.keep("a", reading(1), now=0.0)
        last.clear()
    for name in "ab":
        last.keep(name, reading(1), now=0.0)
    assert len(last) == 2


# --- in a guard -----------------------------------------------------------------------------------------


async def test_while_the_store_is_away_the_value_seen_last_is_served(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    runs = []

    async def compute() -> int:
        runs.append(1)
        return len(runs)

    async with Guards(own_valkey.url, namespace) as guards:
        writer, reader = guards.guard(), guards.guard()
        assert await writer.get_or_compute("k", compute) == 1
        assert await reader.get_or_compute("k", compute) == 1
        own_valkey.kill()
        # The first calls find out that it is away; each may compute.
        for guard in (writer, reader):
            await soon(guard.get_or_compute("other", compute))
            await until(lambda: guard.engine.runtime().away)  # noqa: B023  # used within the turn
        before = len(runs)
        assert [await soon(guard.get_or_compute("k", compute)) for guard in (writer, reader)] == [1, 1]
        assert len(runs) == before


async def test_an_invalidation_drops_it_at_once_and_reaches_the_store_when_it_is_back(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    source = "before"

    async def compute() -> str:
        return source

    async with Guards(own_valkey.url, namespace) as guards:
        guard = guards.guard()
        assert await guard.get_or_compute("k", compute) == "before"
        own_valkey.kill()
        source = "after"
        assert await soon(guard.invalidate("k")) == "pending"
        assert await soon(guard.get_or_compute("k", compute)) == "after"
        own_valkey.start()
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(guards.guard().get_or_compute("k", compute)) == "after"


async def test_while_the_store_is_away_computations_are_capped_and_one_per_key(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    gate = Gate()
    most = 0
    running = 0

    async def compute() -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await gate.hold()
        running -= 1
        return 1

    async with Guards(own_valkey.url, namespace) as guards:
        guard = guards.guard(max_local_computations=2)
        own_valkey.kill()
        await soon(guard.invalidate("k"))
        await until(lambda: guard.engine.runtime().away)
        callers = [
            asyncio.create_task(guard.get_or_compute(f"k{n}", compute)) for n in range(6) for _ in range(5)
        ]
        await gate.arrival()
        await gate.arrival()
        gate.open()
        assert await soon(asyncio.gather(*callers)) == [1] * 30
        assert (gate.entered, most) == (6, 2)


# --- what an invalidation forbids ---------------------------------------------------------------------------


def test_after_an_invalidation_only_what_was_computed_since_is_kept() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(3), now=100.0)
    last.drop("k", fence=5)
    last.keep("k", reading(4), now=100.0)
    assert last.find("k", now=100.0) == (None, "missing")
    last.drop("k")
    last.keep("k", reading(4), now=100.0)
    assert last.find("k", now=100.0) == (None, "missing"), (
        "the fence stays when the value is dropped once more"
    )
    last.keep("k", reading(5, b"new"), now=100.0)
    found, _ = last.find("k", now=100.0)
    assert found is not None and found.body == b"new"
    last.drop("k")
    last.keep("k", reading(4), now=100.0)
    assert last.find("k", now=100.0) == (None, "missing"), "nor is it forgotten with a value that it let in"


def test_an_older_value_that_arrives_later_does_not_take_the_place_of_a_newer_one() -> None:
    last = LastSeen(10_000)
    last.keep("k", reading(6, b"new"), now=100.0)
    last.keep("k", reading(5, b"old"), now=101.0)
    found, _ = last.find("k", now=102.0)
    assert found is not None and found.body == b"new"


def test_fences_take_room_too_and_the_oldest_goes_first() -> None:
    last = LastSeen(3 * (1 + OVERHEAD))
    for name in "abcd":
        last.drop(name, fence=5)
    assert len(last) == 3
    last.keep("a", reading(4, b""), now=0.0)
    assert last.find("a", now=0.0)[0] is not None
