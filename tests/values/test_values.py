"""What a value says about itself: how long it is stored, and that it is not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from stampede_guard import Misuse, Policy, PolicyError, StampedeGuard, WaitTimeout, cached_many, locked_cache
from stampede_guard.core.states import Waiting
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StoreError
from stampede_guard.events import Waited
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FaultyStore
from tests.ops.observe.recorder import Recorder
from tests.support.clock import Clock
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import plan_of, plans_of

KEY = "report:7"


class Counted:
    """A computation that returns its number, or what it is told."""

    def __init__(self, value: Any = None) -> None:
        self.calls = 0
        self.value = value

    async def __call__(self) -> Any:
        self.calls += 1
        return self.calls if self.value is None else self.value


def nothing_is_stored(value: Any) -> bool:
    return False


async def total_ms(guard: StampedeGuard, name: str) -> int:
    reading = await guard.engine.runtime().session.read(name)
    assert reading is not None
    return reading.total_ms


# --- ttl ------------------------------------------------------------------------------------------


async def test_the_value_says_how_long_it_is_fresh(guards: Guards) -> None:
    guard, compute = guards.guard(), Counted({"max_age": 120.5})
    await guard.get_or_compute(KEY, compute, ttl=lambda value: value["max_age"], stale_ttl=30)
    assert await total_ms(guard, guards.name(KEY)) == 150_500
    assert await guards.guard().get_or_compute(KEY, compute) == {"max_age": 120.5}
    assert compute.calls == 1


async def test_decorated_functions_take_a_ttl_of_the_value_too(guards: Guards) -> None:
    guard = guards.guard()

    @guard.locked_cache(ttl=lambda value: float(value))
    async def seconds(number: int) -> int:
        return number

    @guard.locked_cache(ttl=lambda value: float(value))
    def plain(number: int) -> int:
        return number

    @guard.cached_many(ttl=lambda value: float(value), absent_ttl=7)
    async def many(ids: list[int]) -> dict[int, int]:
        return {id: id for id in ids if id < 500}

    await seconds(40)
    assert await total_ms(guard, seconds.key(40)) == 40_000
    await asyncio.to_thread(plain, 50)
    assert await total_ms(guard, plain.key(50)) == 50_000
    await many([60, 70, 999])
    keys = many.keys([60, 70, 999])
    assert [await total_ms(guard, keys[id]) for id in (60, 70, 999)] == [60_000, 70_000, 7_000]
    await asyncio.to_thread(guard.close)


@pytest.mark.parametrize("seconds", [0, 0.0, -5, None, 0.0004])
async def test_a_lifetime_that_is_over_already_means_not_to_store_it(guards: Guards, seconds: Any) -> None:
    guard, compute = guards.guard(), Counted()
    assert await guard.get_or_compute(KEY, compute, ttl=lambda value: seconds) == 1
    assert await guard.get_or_compute(KEY, compute, ttl=lambda value: seconds) == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [("60", "a str"), (True, "a bool"), (float("nan"), "nan"), (1e12, "1000000000000.0"), ([], "a list")],
)
async def test_what_is_no_lifetime_is_an_error_of_all_callers_that_names_the_function(
    guards: Guards, answer: Any, told: str
) -> None:
    guard, other, compute = guards.guard(), guards.guard(), Counted()
    with pytest.raises(Misuse, match=r"ttl function of .*:get_or_compute") as caught:
        await guard.get_or_compute(KEY, compute, ttl=lambda value: answer)
    assert told in str(caught.value)
    with pytest.raises(Misuse, match="ttl function"):
        await other.get_or_compute(KEY, compute, ttl=lambda value: 60)
    assert compute.calls == 1, "shared like any failed computation"


async def test_what_the_function_raises_the_callers_get(guards: Guards) -> None:
    guard = guards.guard()
    with pytest.raises(KeyError, match="max_age"):
        await guard.get_or_compute(KEY, Counted({}), ttl=lambda value: value["max_age"])


async def test_an_asynchronous_function_of_the_value_is_refused() -> None:
    async def later(value: Any) -> float:
        return 60

    async def one(id: int) -> int:
        return id

    async def many(ids: list[int]) -> dict[int, int]:
        return {id: id for id in ids}

    with pytest.raises(PolicyError, match="ttl"):
        locked_cache(ttl=later)(one)
    with pytest.raises(PolicyError, match="should_cache"):
        cached_many(should_cache=later)(many)
    with pytest.raises(PolicyError, match="should_cache"):
        locked_cache(should_cache=True)(one)


async def test_a_coroutine_for_an_answer_is_an_error_and_no_warning(guards: Guards) -> None:
    async def later(value: Any) -> bool:
        return True

    with pytest.raises(Misuse, match="should_cache function"):
        await guards.guard().get_or_compute(KEY, Counted(), should_cache=lambda value: later(value))


async def test_lambdas_written_into_a_call_do_not_pile_up(guards: Guards) -> None:
    guard, compute = guards.guard(), Counted()
    for _ in range(5):
        await guard.get_or_compute(KEY, compute, ttl=lambda value: 60)
    assert len(plans_of(guard)) == 1 and compute.calls == 1


# --- should_cache ---------------------------------------------------------------------------------


async def test_a_value_that_is_not_to_be_stored_goes_to_its_callers_only(guards: Guards) -> None:
    guard, compute = guards.guard(), Counted()
    values = [await guard.get_or_compute(KEY, compute, should_cache=nothing_is_stored) for _ in range(3)]
    assert values == [1, 2, 3]
    assert await guard.engine.runtime().session.read(guards.name(KEY)) is None


async def test_callers_that_joined_its_computation_share_it(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()

    async def compute() -> int:
        await gate.hold()
        return gate.entered

    calls = [
        asyncio.create_task(guard.get_or_compute(KEY, compute, should_cache=nothing_is_stored))
        for _ in range(4)
    ]
    await gate.arrival()
    await joined(guard, guards.name(KEY), 4)
    gate.open()
    assert await soon(asyncio.gather(*calls)) == [1, 1, 1, 1]


async def test_one_entry_is_not_stored_and_the_next_is(guards: Guards) -> None:
    guard, compute = guards.guard(), Counted()
    for expected in (1, 2, 2):
        value = await guard.get_or_compute(KEY, compute, should_cache=lambda value: value > 1)
        assert value == expected


@pytest.mark.parametrize("kind", ["should_cache", "too large"])
async def test_waiters_of_an_uncacheable_key_compute_beside_each_other(guards: Guards, kind: str) -> None:
    first, others, body = Gate(), Gate(), "x" * 100
    fields: dict[str, Any] = (
        {"should_cache": nothing_is_stored}
        if kind == "should_cache"
        else {"max_value_bytes": 50, "inline_bytes": 10}
    )

    def ask(guard: StampedeGuard, gate: Gate) -> asyncio.Task[str]:
        async def compute() -> str:
            await gate.hold()
            return body

        return asyncio.create_task(guard.get_or_compute(KEY, compute, poll_interval=3, **fields))

    leader = ask(guards.guard(), first)
    await first.arrival()
    fleet = [guards.guard() for _ in range(5)]
    waiting = [ask(guard, others) for guard in fleet]
    for guard in fleet:
        await joined(guard, guards.name(KEY), 1)
    first.open()
    assert await soon(leader) == body
    # All at once: none of them ends before all have begun.
    for _ in fleet:
        await others.arrival()
    others.open()
    assert await soon(asyncio.gather(*waiting)) == [body] * 5


async def test_no_more_than_the_limit_are_let_through_at_once(guards: Guards) -> None:
    most = running = 0
    fields: dict[str, Any] = {"should_cache": nothing_is_stored, "uncacheable_limit": 2}
    step = asyncio.Event()

    async def compute() -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await step.wait()
        running -= 1
        return 1

    step.set()
    await guards.guard().get_or_compute(KEY, compute, **fields)
    step.clear()
    fleet = [guards.guard() for _ in range(6)]
    calls = [asyncio.create_task(guard.get_or_compute(KEY, compute, **fields)) for guard in fleet]
    await until(lambda: running == 2)
    for guard in fleet:
        await joined(guard, guards.name(KEY), 1)
    step.set()
    assert await soon(asyncio.gather(*calls)) == [1] * 6
    assert most == 2


async def test_those_let_through_that_fail_make_room(guards: Guards) -> None:
    fields: dict[str, Any] = {"should_cache": nothing_is_stored, "uncacheable_limit": 1, "error_ttl": 0}
    guard, compute = guards.guard(), Counted()
    await guard.get_or_compute(KEY, compute, **fields)

    async def fail() -> int:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await guard.get_or_compute(KEY, fail, **fields)
    assert await soon(guard.get_or_compute(KEY, compute, **fields)) == 2


async def test_after_an_invalidation_one_computes_for_all_again(guards: Guards) -> None:
    one, other, gate = guards.guard(), guards.guard(), Gate()
    await one.get_or_compute(KEY, Counted(), should_cache=nothing_is_stored)
    await one.invalidate(KEY)

    async def compute() -> int:
        await gate.hold()
        return 7

    calls = [asyncio.create_task(guard.get_or_compute(KEY, compute)) for guard in (one, other)]
    await gate.arrival()
    await joined(one, guards.name(KEY), 1)
    await joined(other, guards.name(KEY), 1)
    gate.open()
    assert await soon(asyncio.gather(*calls)) == [7, 7]
    assert gate.entered == 1


async def test_a_stale_value_is_served_on_and_recomputed_by_nobody_meanwhile(guards: Guards) -> None:
    guard, other, compute = guards.guard(), guards.guard(), Counted()
    fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600, "should_cache": lambda value: value == 1}
    assert await guard.get_or_compute(KEY, compute, **fields) == 1
    await guards.age(guards.name(KEY), 11)
    assert await guard.get_or_compute(KEY, compute, **fields) == 1
    await until(lambda: compute.calls == 2 and not guard.engine.runtime().flights)
    for _ in range(3):
        assert await other.get_or_compute(KEY, compute, **fields) == 1
        await until(lambda: not other.engine.runtime().flights)
    assert compute.calls == 2


async def test_a_refresh_that_would_be_in_vain_is_not_asked_for_by_each_stale_hit(guards: Guards) -> None:
    guard, other, compute = guards.guard(), guards.guard(poll_interval=60, lease_ttl=60), Counted()
    fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600, "should_cache": lambda value: value == 1}
    await guard.get_or_compute(KEY, compute, **fields)
    await guards.age(guards.name(KEY), 11)
    await guard.get_or_compute(KEY, compute, **fields)
    await until(lambda: compute.calls == 2 and not guard.engine.runtime().flights)
    asked = count_asks(other)
    for _ in range(5):
        assert await other.get_or_compute(KEY, compute, **fields) == 1
        await until(lambda: not other.engine.runtime().flights)
    assert (len(asked), compute.calls) == (1, 2)


async def test_in_a_single_block_too(guards: Guards) -> None:
    guard = guards.guard()
    for _ in range(2):
        async with guard.single(KEY, should_cache=nothing_is_stored) as entry:
            assert entry.missing
            assert await entry.set(5) == 5


async def test_ids_are_stored_or_not_one_by_one(guards: Guards) -> None:
    guard, asked = guards.guard(), []

    @guard.cached_many(should_cache=lambda value: value % 2 == 0)
    async def numbers(ids: list[int]) -> dict[int, int]:
        asked.append(sorted(ids))
        return {id: id for id in ids}

    assert await numbers([1, 2, 3]) == {1: 1, 2: 2, 3: 3}
    assert await numbers([1, 2, 3]) == {1: 1, 2: 2, 3: 3}
    assert asked == [[1, 2, 3], [1, 3]]


async def test_while_the_store_is_away_it_is_not_kept_in_the_process_either(namespace: str) -> None:
    async with StampedeGuard.from_url("redis://127.0.0.1:1", namespace=namespace) as guard:
        compute = Counted()
        for expected in (1, 2, 3):
            assert await guard.get_or_compute(KEY, compute, should_cache=nothing_is_stored) == expected


# --- private to its caller ------------------------------------------------------------------------


async def test_what_is_not_to_be_shared_each_caller_computes_for_itself_and_at_once(guards: Guards) -> None:
    guard, first, others = guards.guard(), Gate(), Gate()

    plan = plan_of(guard, KEY, request_bound=True, should_cache=nothing_is_stored)
    plan.share_uncached = False
    served: list[str] = []

    def ask(who: str, gate: Gate) -> asyncio.Task[Any]:
        async def compute() -> str:
            await gate.hold()
            return who

        async def call() -> None:
            served.append(f"{who}={await guard.engine.serve(plan, guard.prefix + '=' + KEY, compute)}")

        return asyncio.create_task(call())

    leader = ask("leader", first)
    await first.arrival()
    joining = [ask(f"early{number}", others) for number in range(3)]
    await joined(guard, guards.name(KEY), 4)
    first.open()
    await soon(leader)
    for _ in joining:
        await others.arrival()
    # The key is known not to be cacheable now: who comes later waits for nobody.
    late = []
    for number in range(2):
        late.append(ask(f"late{number}", others))
        await others.arrival()
    others.open()
    await soon(asyncio.gather(*joining, *late))
    assert sorted(served) == sorted(
        f"{who}={who}" for who in ("leader", "early0", "early1", "early2", "late0", "late1")
    )


def count_asks(guard: StampedeGuard) -> list[str]:
    session, asked = guard.engine.runtime().session, []
    acquire = session.acquire

    async def counted(name: str, **options: Any) -> Any:
        asked.append(name)
        return await acquire(name, **options)

    session.acquire = counted  # type: ignore[method-assign]
    return asked


def private_plan(guard: StampedeGuard, **fields: Any) -> Plan:
    plan = plan_of(guard, KEY, should_cache=lambda value: value == "new", **fields)
    plan.share_uncached = False
    return plan


async def test_those_that_fly_apart_are_woken_by_the_place_that_becomes_free(guards: Guards) -> None:
    guard = guards.guard()
    plan = private_plan(guard, uncacheable_limit=1, poll_interval=600, lease_ttl=900)
    await guard.engine.serve(plan, guard.prefix + "=" + KEY, Counted())
    gates = [Gate() for _ in range(4)]
    asked = count_asks(guard)
    calls, flights = [], guard.engine.runtime().flights

    def waiting() -> int:
        return sum(isinstance(flight.state.phase, Waiting) for flight in flights.values())

    for number, gate in enumerate(gates):

        async def compute(gate: Gate = gate) -> int:
            await gate.hold()
            return 1

        calls.append(asyncio.create_task(guard.engine.serve(plan, guard.prefix + "=" + KEY, compute)))
        await until(lambda those=number: waiting() == those)
    # In the order in which they came, and without a look by any of the others.
    for gate in gates:
        await gate.arrival()
        gate.open()
    assert await soon(asyncio.gather(*calls)) == [1] * 4
    assert len(asked) <= 4 + 2 + 2 + 1


async def test_the_time_of_one_that_is_sent_on_its_own_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, later = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + later)
    guard = StampedeGuard(MemoryStore(clock=Clock()), namespace="test", hooks=(told := Recorder(),))
    plan = private_plan(
        guard, uncacheable_limit=1, fallback_limit=0, wait_timeout=1000, compute_timeout=10_000
    )
    name, gate = f"test:={KEY}", Gate()

    async def compute() -> int:
        await gate.hold()
        return 1

    calls = [
        asyncio.create_task(guard.engine.serve(plan, guard.prefix + "=" + KEY, compute)) for _ in range(2)
    ]
    await gate.arrival()
    await joined(guard, name, 2)
    # The one place is taken, so that the other caller waits once more.
    await guard.engine.runtime().session.fallback(name, flight="beside", policy=Policy(), newer_than=0)
    later = 600.0
    gate.open()
    await until(
        lambda: [type(each.state.phase) for each in guard.engine.runtime().flights.values()] == [Waiting]
    )
    later = 1200.0
    assert await soon(calls[0]) == 1
    with pytest.raises(WaitTimeout):
        await soon(calls[1])
    assert [event.seconds > 1000 for event in told.of(Waited)] == [False, True]
    await guard.aclose()


async def test_those_that_fly_apart_hear_of_an_invalidation_in_their_process() -> None:
    store = FaultyStore(clock=Clock(), wait=lambda _: asyncio.Event().wait())
    guard = StampedeGuard(store)
    plan, first, gate = private_plan(guard), Gate(), Gate()
    await guard.engine.serve(plan, guard.prefix + "=" + KEY, Counted())

    def compute(gate: Gate, value: str) -> Any:
        async def run() -> str:
            await gate.hold()
            return value

        return run

    let_through = asyncio.create_task(
        guard.engine.serve(plan, guard.prefix + "=" + KEY, compute(first, "private"))
    )
    await first.arrival()
    store.fail()
    while not guard.engine.runtime().away:
        with contextlib.suppress(StoreError):
            await guard.engine.runtime().session.read(KEY)
    apart = asyncio.create_task(guard.engine.serve(plan, guard.prefix + "=" + KEY, compute(gate, "new")))
    await gate.arrival()
    assert await guard.invalidate(KEY) == "pending"
    first.open()
    gate.open()
    assert await soon(asyncio.gather(let_through, apart)) == ["private", "new"]
    # It is from before the invalidation, so it is not what this process remembers.
    later = Gate()
    later.open()
    await guard.engine.serve(plan, guard.prefix + "=" + KEY, compute(later, "later"))
    assert later.entered == 1
    await guard.aclose()
