"""Early refresh: a fresh value is computed anew before it expires, once fleet-wide, and nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy, PolicyError, StampedeGuard
from stampede_guard.api.decorators.many import cached_many
from stampede_guard.core.scripts import Granted
from stampede_guard.engine.flights.flight import Flight
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.codec import codec_for
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.sessions import patient

TTL = 60.0
LAST = 1 - 1e-12
"""A draw with which everybody is due whose computation took a second or more."""


def early(guards: Guards, *, draw: float = LAST, **fields: Any) -> StampedeGuard:
    """A process whose readers all make this draw."""
    guard = guards.guard(**{"ttl": TTL, "early_beta": 1.0} | fields)
    guard.engine.runtime().draw = lambda: draw  # type: ignore[method-assign]
    return guard


async def put(guards: Guards, name: str, body: bytes, *, took: float = 10.0) -> int:
    """Store a value whose computation took so many seconds. Returns its token."""
    session, policy = guards.guard().engine.runtime().session, Policy(ttl=TTL)
    grant = await session.acquire(name, flight="given", policy=policy)
    assert isinstance(grant, Granted)
    assert await session.publish(
        name, flight="given", grant=grant, outcome="value", body=body, policy=policy,
        took_ms=round(took * 1000),
    )  # fmt: skip
    return grant.token


def text(value: str) -> bytes:
    return codec_for(Any).encode(value)


class Source:
    """A computation that is held at a gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.error: Exception | None = None

    async def __call__(self) -> str:
        await self.gate.hold()
        if self.error is not None:
            raise self.error
        return "new"


def count_asks(guard: StampedeGuard) -> list[str]:
    session, asked = guard.engine.runtime().session, []
    acquire = session.acquire

    async def counted(name: str, **options: Any) -> Any:
        asked.append(name)
        return await acquire(name, **options)

    session.acquire = counted  # type: ignore[method-assign]
    return asked


async def landed(*fleet: StampedeGuard) -> None:
    await until(lambda: not any(guard.engine.runtime().flights for guard in fleet))


# --- one refresh, and nobody waits ---------------------------------------------------------------------


async def test_a_value_is_refreshed_once_fleet_wide_while_all_are_served_the_fresh_one(
    guards: Guards,
) -> None:
    await put(guards, guards.name("k"), text("old"))
    source, fleet = Source(), [early(guards) for _ in range(3)]
    for _ in range(10):
        calls = [guard.get_or_compute("k", source) for guard in fleet for _ in range(5)]
        assert await soon(asyncio.gather(*calls)) == ["old"] * 15
    await source.gate.arrival()
    source.gate.open()
    await landed(*fleet)
    assert source.gate.entered == 1
    for guard in fleet:
        guard.engine.runtime().draw = lambda: 0.0  # type: ignore[method-assign]
        assert await guard.get_or_compute("k", source) == "new"
    assert source.gate.entered == 1


async def test_whoever_is_not_due_refreshes_nothing(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, source = early(guards, draw=0.5), Source()
    assert await guard.get_or_compute("k", source) == "old"
    assert not guard.engine.runtime().flights
    await guards.age(guards.name("k"), 59)
    assert await guard.get_or_compute("k", source) == "old"
    await source.gate.arrival()
    source.gate.open()


async def test_without_beta_nobody_draws(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard = guards.guard(ttl=TTL)
    guard.engine.runtime().draw = lambda: pytest.fail("a draw")  # type: ignore[method-assign]
    assert await guard.get_or_compute("k", Source()) == "old"
    assert not guard.engine.runtime().flights


async def test_a_lease_held_elsewhere_is_not_waited_for_and_not_asked_for_again_at_once(
    guards: Guards,
) -> None:
    await put(guards, guards.name("k"), text("old"))
    holder, other = early(guards), early(guards)
    source, asked = Source(), count_asks(other)
    assert await holder.get_or_compute("k", source) == "old"
    await source.gate.arrival()
    for _ in range(20):
        assert await soon(other.get_or_compute("k", source, poll_interval=3.0)) == "old"
        await landed(other)
    assert len(asked) == 1
    source.gate.open()


async def test_a_reading_from_before_the_refresh_does_not_refresh_once_more(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, late, source = early(guards), early(guards), Source()
    source.gate.open()
    before = await late.engine.runtime().session.read(guards.name("k"))
    assert await guard.get_or_compute("k", source) == "old"
    await until(lambda: source.gate.entered == 1)
    await landed(guard)

    def read_long_ago(_: str) -> Any:
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(before)
        return answer

    asked = count_asks(late)
    late.engine.runtime().session.read = read_long_ago  # type: ignore[method-assign]
    assert await late.get_or_compute("k", source) == "old"
    await landed(late)
    assert (len(asked), source.gate.entered) == (1, 1)


async def test_a_caller_that_finds_the_value_gone_meanwhile_gets_the_new_one(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, source = early(guards), Source()
    assert await guard.get_or_compute("k", source) == "old"
    await source.gate.arrival()
    await guards.age(guards.name("k"), TTL + 1)
    caller = asyncio.create_task(guard.get_or_compute("k", source))
    await until(lambda: any(flight.joined for flight in guard.engine.runtime().flights.values()))
    source.gate.open()
    assert await soon(caller) == "new"
    assert source.gate.entered == 1


async def test_over_many_expiries_each_value_is_refreshed_once_and_nobody_ever_waits(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All real: the time that a computation takes is measured, stored and drawn with.
    waited, running, most, computed, seen = 0, 0, 0, 0, set()
    join = Flight.join

    def counted(flight: Flight, *args: Any, **kwargs: Any) -> Any:
        nonlocal waited
        waited += 1
        return join(flight, *args, **kwargs)

    async def compute() -> int:
        nonlocal running, most, computed
        computed += 1
        number = computed
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return number

    async with Guards(patient(valkey_url), namespace) as guards:
        fleet = [guards.guard(ttl=2.0, early_beta=4.0) for _ in range(3)]
        assert await fleet[0].get_or_compute("k", compute) == 1
        monkeypatch.setattr(Flight, "join", counted)

        async def hammer(guard: StampedeGuard) -> None:
            while computed < 5:
                seen.add(await guard.get_or_compute("k", compute))
                await asyncio.sleep(0.002)

        await asyncio.wait_for(asyncio.gather(*map(hammer, fleet)), 60)
        await landed(*fleet)
    assert (waited, most) == (0, 1)
    assert seen | {5} == {1, 2, 3, 4, 5}, "a value was computed that nobody was ever served"


# --- when something is wrong ----------------------------------------------------------------------------


async def test_a_refresh_that_fails_is_noticed_by_nobody_and_not_tried_again_at_once(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    fleet, source = [early(guards, error_ttl=600.0) for _ in range(2)], Source()
    source.gate.open()
    source.error = RuntimeError("the source is down")
    for _ in range(10):
        for guard in fleet:
            assert await soon(guard.get_or_compute("k", source)) == "old"
            await landed(guard)
    assert source.gate.entered == 1


@pytest.mark.parametrize("error", [StoreUnavailable("lost"), StoreRefused("no writes here")])
async def test_a_store_that_gives_no_lease_makes_nobody_compute(guards: Guards, error: Exception) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, source = early(guards), Source()

    async def fail(*args: Any, **options: Any) -> Any:
        raise error

    guard.engine.runtime().session.acquire = fail  # type: ignore[method-assign]
    for _ in range(5):
        assert await soon(guard.get_or_compute("k", source)) == "old"
        await landed(guard)
    assert source.gate.entered == 0


async def test_while_the_store_is_away_nothing_is_refreshed_early(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, source = early(guards), Source()
    runtime = guard.engine.runtime()
    reading = await runtime.session.read(guards.name("k"))
    assert reading is not None
    runtime.remember(guards.name("k"), reading)
    runtime.away_for = lambda name, tags=(): True  # type: ignore[method-assign]
    assert await guard.get_or_compute("k", source) == "old"
    assert not runtime.flights


# --- what a value says ----------------------------------------------------------------------------------


async def test_a_value_says_how_long_its_computation_took(guards: Guards) -> None:
    guard = guards.guard(ttl=TTL)

    async def compute() -> str:
        await asyncio.sleep(0.06)
        return "value"

    assert await guard.get_or_compute("k", compute) == "value"
    reading = await guard.engine.runtime().session.read(guards.name("k"))
    assert reading is not None and reading.took_ms >= 50


# --- every face -----------------------------------------------------------------------------------------


async def test_decorated_and_plain_functions_are_refreshed_early(guards: Guards) -> None:
    guard, runs, plain_runs = early(guards), 0, []

    @guard.locked_cache()
    async def decorated() -> str:
        nonlocal runs
        runs += 1
        return "new"

    @guard.locked_cache()
    def plain() -> str:
        plain_runs.append(1)
        return "new"

    body = codec_for(str).encode("old")
    await put(guards, decorated.key(), body)
    await put(guards, plain.key(), body)
    assert await decorated() == "old"
    await until(lambda: runs == 1)

    async def draw_in_the_portal() -> None:
        guard.engine.runtime().draw = lambda: LAST  # type: ignore[method-assign]

    from stampede_guard.engine.threads.portal import portal

    portal().call(draw_in_the_portal)
    assert await asyncio.to_thread(plain) == "old"
    await until(lambda: plain_runs == [1])


async def test_ids_that_are_due_together_are_refreshed_in_one_call(guards: Guards) -> None:
    guard, calls = early(guards), []

    @cached_many(guard=guard)
    async def products(ids: list[int]) -> dict[int, str]:
        calls.append(sorted(ids))
        return dict.fromkeys(ids, "new")

    assert await products([1, 2, 3]) == {1: "new", 2: "new", 3: "new"}
    names = products.keys([1, 2, 3])
    for id in (1, 3):
        reading = await guard.engine.runtime().session.read(names[id])
        assert reading is not None
        await products.invalidate([id])
        await put(guards, names[id], reading.body.replace(b"new", b"old"))
    guard.engine.runtime().draw = lambda: 1 - 1e-6  # type: ignore[method-assign]
    assert await products([1, 2, 3]) == {1: "old", 2: "new", 3: "old"}
    await landed(guard)
    assert calls == [[1, 2, 3], [1, 3]]
    guard.engine.runtime().draw = lambda: 0.0  # type: ignore[method-assign]
    assert await products([1, 2, 3]) == {1: "new", 2: "new", 3: "new"}


async def test_a_computation_bound_to_its_request_is_not_refreshed_by_a_guards_policy(guards: Guards) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard = early(guards)
    assert await guard.get_or_compute("k", Source(), request_bound=True) == "old"
    assert not guard.engine.runtime().flights


def test_a_computation_bound_to_its_request_cannot_ask_for_it() -> None:
    guard = StampedeGuard(MemoryStore(), namespace="t")

    async def query(project: int, db: Any) -> str:
        return "value"

    with pytest.raises(PolicyError, match=r"early_beta=1.0 is not allowed: .*resources="):
        guard.locked_cache(unkeyed=("db",), early_beta=1.0)(query)
    with pytest.raises(PolicyError, match="early_beta"):
        guard.single("k", early_beta=1.0)
    guard.locked_cache(unkeyed=("db",), early_beta=0.0)(query)


# --- a read that fails meanwhile ------------------------------------------------------------------------


def fail_reads(guard: StampedeGuard, error: Exception) -> list[str]:
    """All reads from now on; they are noted."""
    failed: list[str] = []

    def read(name: str) -> Any:
        failed.append(name)
        answer = asyncio.get_running_loop().create_future()
        answer.set_exception(error)
        return answer

    guard.engine.runtime().session.read = read  # type: ignore[method-assign]
    return failed


async def test_a_caller_whose_read_fails_meanwhile_asks_once_more_and_has_the_fresh_value(
    guards: Guards,
) -> None:
    await put(guards, guards.name("k"), text("old"))
    guard, source = early(guards), Source()
    assert await guard.get_or_compute("k", source) == "old"
    await source.gate.arrival()
    failed = fail_reads(guard, StoreUnavailable("no answer"))
    callers = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(5)]
    assert await soon(asyncio.gather(*callers)) == ["old"] * 5, "while the refresh is under way"
    assert failed
    source.error = LookupError("the source is down")
    source.gate.open()
    await landed(guard)
    assert source.gate.entered == 1
