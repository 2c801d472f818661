"""What the fixes are for: each fixed file is run under a herd and computes once, where it computed for everybody.

The files before and after are the cases of test_fixes.py; the libraries that they use are the real ones.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from operator import attrgetter
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
from aiocache import SimpleMemoryCache
from fastapi_cache import FastAPICache
from fastapi_cache.backends.inmemory import InMemoryBackend

from stampede_guard import StampedeGuard, configure
from stampede_guard.testing import herd
from tests.audit import computing
from tests.audit.fixes.test_fixes import CASES, FIXED, name
from tests.support.heap import collect
from tests.support.titles import titled

CALLERS, WORKERS = 24, 8
_SOMEBODY = object()


class Ledger:
    async def total(self, day: int) -> str:
        return str(await computing.compute(day))


# Case, function, arguments.
HERDS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("SG101-safe-endpoints", "quality", (7,)),
    ("SG101-safe-endpoints", "prices", ("USD",)),
    ("SG101-safe-endpoints", "names", ()),
    ("SG101-safe-other_names", "rates", (7,)),
    ("SG101-unsafe-left_open", "namespaced", (7,)),
    ("SG101-unsafe-left_open", "untyped", (_SOMEBODY, _SOMEBODY)),
    ("SG101-unsafe-left_open", "lasting", ()),
    ("SG102-safe-plain", "odd", (7,)),
    ("SG102-safe-plain", "rates", (7,)),
    ("SG102-safe-plain", "first", (7,)),
    ("SG102-unsafe-keyed", "rates", (7,)),
    ("SG103-safe-texts", "rates", (7,)),
    ("SG103-safe-texts", "prices", (7,)),
    ("SG103-safe-texts", "names", (7,)),
    ("SG103-unsafe-template", "rates", (7,)),
    ("SG201-unsafe-early_return", "report", (7, True)),
    ("SG201-unsafe-in_the_branch", "report", (_SOMEBODY, 7)),
    ("SG201-unsafe-in_the_branch", "total", ()),
    ("SG201-unsafe-in_the_branch", "lines", (7,)),
    ("SG201-unsafe-own_keys", "of_day", (SimpleNamespace(number=7),)),
    ("SG201-unsafe-own_keys", "booked", (Ledger(), 7)),
    ("SG201-unsafe-own_keys", "today", ()),
    ("SG201-unsafe-own_keys", "shop.sales", (7,)),
    ("SG201-unsafe-own_keys", "shop.stock", ()),
    ("SG201-unsafe-own_keys", "Shop.names", ()),
    ("SG201-unsafe-threads", "count", (7,)),
    ("SG203-unsafe-decorator", "rates", (7,)),
]
# They keep their own cache. The number of computations afterwards, and the client.
ENCLOSED: list[tuple[str, str, tuple[Any, ...], int, str]] = [
    ("SG201-unsafe-around", "counted", (7,), 1, "redis"),
    ("SG201-unsafe-around", "guarded", (7,), 1, "redis"),
    ("SG201-unsafe-around", "forgotten", (7,), 1, "redis"),
    ("SG201-unsafe-around", "as_long_as_told", (7, 60), 1, "redis"),
    ("SG201-unsafe-around", "pages", (7,), 2, "plain"),
    ("SG201-unsafe-around", "orders.open", (7,), 1, "plain"),
    ("SG201-unsafe-around", "of_no_declared_type", (7,), 1, "plain"),
    ("SG201-unsafe-around", "totals", (7,), 1, "plain"),
    ("SG201-unsafe-around", "in_many_steps", (7,), 1, "plain"),
    ("SG201-unsafe-asked_by_each", "before_the_get", (7,), 1, "redis"),
    ("SG201-unsafe-asked_by_each", "by_a_key", (7,), 1, "redis"),
    ("SG201-unsafe-asked_by_each", "of_known_users", (7,), 1, "redis"),
    ("SG203-unsafe-around_a_prefix", "rates", (7,), 1, "redis"),
    ("SG203-unsafe-around_a_check", "rates", (7,), 1, "redis"),
    ("SG203-unsafe-around_a_check", "prices", (7,), 1, "redis"),
    ("SG203-unsafe-around_a_check", "costs", (7,), 1, "redis"),
    ("SG203-unsafe-around_a_check", "stock", (7,), 1, "redis"),
]
MEMOS = [("SG107-unsafe-coroutines", "settings", ("a",)), ("SG107-unsafe-coroutines", "limits", ())]
ROUTES = ["SG109-safe-ours", "SG109-unsafe-theirs"]
FALSY = [
    ("SG205-unsafe-known_client", "orders"),
    ("SG205-unsafe-known_client", "returns"),
    ("SG205-unsafe-by_its_name", "orders"),
]
LATE = "SG302-unsafe-late"
WEAK = ["SG304-safe-private", "SG304-unsafe-public"]
OTHERS = [
    "SG301-unsafe-locks",
    LATE,
    *WEAK,
    "SG305-unsafe-flags",
    "SG403-unsafe-keys",
    "SG404-unsafe-pauses",
    "SG404-unsafe-threads",
]

Load = Callable[[str, str], ModuleType]


@pytest.fixture
def load() -> Iterator[Load]:
    """Imports a case's file, before or after, as a module of its own."""
    made: list[str] = []

    def imported(case: str, when: str) -> ModuleType:
        path = CASES.joinpath(*case.split("-")) / f"{when}.py"
        title = f"case_{case.replace('-', '_').lower()}_{when}"
        spec = importlib.util.spec_from_file_location(title, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[title] = module
        made.append(title)
        spec.loader.exec_module(module)
        return module

    yield imported
    for title in made:
        del sys.modules[title]


@pytest.fixture(autouse=True)
async def store() -> AsyncIterator[None]:
    computing.calls.clear()
    FastAPICache.init(InMemoryBackend())
    InMemoryBackend._store.clear()
    async with StampedeGuard.from_url("memory://", namespace="fixes") as guard:
        configure(guard)
        yield
    configure(None)
    FastAPICache.reset()


async def crowd(ask: Callable[[], Awaitable[Any]], *, computing_at_once: int = 1) -> list[Any]:
    """What becomes of callers that come at once."""
    computing.together = computing_at_once

    async def caller() -> Any:
        return await ask()

    try:
        async with asyncio.timeout(60):
            return list(await asyncio.gather(*[caller() for _ in range(CALLERS)], return_exceptions=True))
    finally:
        computing.together = 1


def asked(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Awaitable[Any]]:
    if asyncio.iscoroutinefunction(function):
        return lambda: function(*arguments)
    return lambda: asyncio.to_thread(function, *arguments)


@pytest.mark.parametrize(("case", "function", "arguments"), HERDS, ids=titled)
async def test_what_everybody_computed_is_computed_once(
    load: Load, case: str, function: str, arguments: tuple[Any, ...]
) -> None:
    answers = await crowd(asked(attrgetter(function)(load(case, "before")), arguments), computing_at_once=2)
    assert len(computing.calls) > 1
    computing.calls.clear()
    cured = attrgetter(function)(load(case, "after"))
    crowded = await herd(cured, args=arguments, callers=CALLERS, workers=WORKERS)
    assert (crowded.computations, len(computing.calls)) == (1, 1)
    assert [repr(answer) for answer in crowded.values] == [repr(answers[0])] * CALLERS


async def everything(client: Any) -> dict[bytes, tuple[bytes, bool]]:
    """What a client's server stores: each key with its bytes, and whether it ends."""
    kept = {}
    keys = client.keys()
    for key in await keys if asyncio.iscoroutine(keys) else keys:
        asked = client.get(key), client.ttl(key)
        value, ttl = await asyncio.gather(*asked) if asyncio.iscoroutine(asked[0]) else asked
        kept[key] = value, ttl > 0
    return kept


@pytest.mark.parametrize(("case", "function", "arguments", "computations", "client"), ENCLOSED, ids=titled)
async def test_a_lock_around_it_changes_nothing_but_the_number_of_computations(
    load: Load, case: str, function: str, arguments: tuple[Any, ...], computations: int, client: str
) -> None:
    seen = []
    for when in ("before", "after"):
        module = load(case, when)
        at_once = 1 if when == "after" else computations + 1
        answers = await crowd(asked(attrgetter(function)(module), arguments), computing_at_once=at_once)
        if when == "after":
            assert len(computing.calls) == computations
        else:
            assert len(computing.calls) > computations
        computing.calls.clear()
        answers.append(await asked(attrgetter(function)(module), arguments)())
        assert computing.calls == []
        seen.append((answers, await everything(getattr(module, client))))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == computations


@pytest.mark.parametrize(
    ("case", "function", "times"),
    [
        ("SG201-unsafe-asked_by_each", "before_the_get", 3),
        ("SG203-unsafe-around_a_check", "rates", 3),
        ("SG203-unsafe-around_a_check", "prices", 1),
    ],
)
async def test_who_is_asked_before_is_asked_as_often_afterwards(
    load: Load, case: str, function: str, times: int
) -> None:
    for when in ("before", "after"):
        ask = asked(getattr(load(case, when), function), (7,))
        computing.questions.clear()
        assert [await ask() for _ in range(3)] == [80] * 3
        assert len(computing.questions) == times


async def test_objects_keep_their_own_entries_and_a_property_is_computed_once(load: Load) -> None:
    for when in ("before", "after"):
        module = load("SG201-unsafe-own_keys", when)
        first, second, same = module.Shop(1), module.Shop(2), module.Shop(1)
        computing.calls.clear()
        assert {await shop.sales(7) for shop in (first, second, same, first)} == {"80"}
        assert computing.calls == [(1, 7), (2, 7)]
        computing.calls.clear()
        assert await crowd(lambda shop=first: asyncio.to_thread(lambda: shop.rating)) == [80] * CALLERS
        assert (len(computing.calls) == 1) == (when == "after")


@pytest.mark.parametrize(("case", "function", "arguments"), MEMOS, ids=titled)
async def test_a_coroutine_that_could_be_awaited_once_answers_everybody(
    load: Load, case: str, function: str, arguments: tuple[Any, ...]
) -> None:
    memo = getattr(load(case, "before"), function)
    answers = await crowd(lambda: memo(*arguments))
    assert sum(isinstance(answer, RuntimeError) for answer in answers) == CALLERS - 1
    computing.calls.clear()
    cured = getattr(load(case, "after"), function)
    crowded = await herd(cured, args=arguments, callers=CALLERS, workers=WORKERS)
    assert (crowded.computations, len(computing.calls)) == (1, 1)


@pytest.mark.parametrize("case", ROUTES)
async def test_a_route_that_was_not_cached_is_computed_once(load: Load, case: str) -> None:
    async def computations(app: Any) -> int:
        computing.calls.clear()
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            answers = await crowd(lambda: client.get("/rates?day=7"))
        assert {answer.text for answer in answers} == {"80"}
        return len(computing.calls)

    assert await computations(load(case, "before").app) == CALLERS
    assert await computations(load(case, "after").app) == 1


@pytest.mark.parametrize(("case", "function"), FALSY)
async def test_a_falsy_answer_is_believed(load: Load, case: str, function: str) -> None:
    async def computations(module: ModuleType) -> int:
        computing.calls.clear()
        cache = [SimpleMemoryCache()] if case == "SG205-unsafe-by_its_name" else []
        assert [await getattr(module, function)(*cache, 7) for _ in range(3)] == [0, 0, 0]
        return len(computing.calls)

    assert await computations(load(case, "before")) == 3
    assert await computations(load(case, "after")) == 1


def test_a_lock_is_still_one_and_ends(load: Load) -> None:
    for when, lasts in (("before", (-1, -1)), ("after", (60, 60))):
        module = load("SG301-unsafe-locks", when)
        assert [module.enter("a"), module.enter("a")] == [True, False]
        assert [module.enter_too("b"), module.enter_too("b")] == [True, False]
        assert tuple(module.redis.ttl(f"lock:{lock}") for lock in "ab") == lasts


async def test_the_same_keys_are_found_without_stopping_the_server(load: Load) -> None:
    found = []
    for when in ("before", "after"):
        module = load("SG403-unsafe-keys", when)
        module.redis.flushall()
        names = {f"{kind}:{n}": 1 for kind in ("user", "order") for n in range(100)}
        module.redis.mset(names)
        await module.aredis.mset(names)
        found.append(
            (
                sorted(module.of_users()),
                module.count(),
                sorted(await module.async_of_users()),
                await module.async_count(),
            )
        )
    assert found[0] == found[1] and found[0][1] == 100


async def answered_later(execute: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    """A server's answer takes a turn of the event loop at least. The fake's takes one only before Python 3.12, whose
    `wait_for` makes no task for what is ready: each caller would ask and set the flag before the next one asks."""
    answer = await execute(*arguments, **options)
    await asyncio.sleep(0)
    return answer


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
async def test_of_all_who_find_a_flag_free_one_takes_it(load: Load) -> None:
    for when in ("before", "after"):
        module = load("SG305-unsafe-flags", when)
        module.aredis.execute_command = partial(answered_later, module.aredis.execute_command)
        asks = [
            module.sync_all,
            partial(module.sync_one, "a"),
            partial(asyncio.to_thread, module.report, "b"),
        ]
        for ask in asks:
            await module.aredis.flushall()
            module.redis.flushall()
            # A connection for each: who has to make one first comes too late.
            await asyncio.gather(*[module.aredis.ping() for _ in range(CALLERS)])
            computing.calls.clear()
            for answer in await crowd(ask):
                assert answer in (None, True, False) or str(answer) == "it is being made"
            if when == "after":
                assert len(computing.calls) == 1
            elif ask is not asks[-1]:  # the fake server's own lock keeps threads apart
                assert len(computing.calls) > 1
            lasts = [await module.aredis.ttl(key) for key in ("sync:running", "lock:a")]
            assert 0 < max(*lasts, module.redis.ttl("report-lock:b")) <= 300


@pytest.mark.parametrize("case", WEAK)
async def test_a_lock_keeps_callers_apart_and_is_gone_afterwards(load: Load, case: str) -> None:
    for when, left in (("before", {"a", "b", "c"}), ("after", set())):
        module = load(case, when)
        asks = {"report": module.__dict__.get("_locks", module.__dict__.get("locks"))}
        if case == WEAK[0]:
            asks |= {"user": module._by_user, "user_too": module._by_user, "row": module.table._rows}
        for function, held in asks.items():
            ask = getattr(module, function, None) or module.table.row
            open_now: Counter[str] = Counter()
            most: Counter[str] = Counter()

            async def compute(key: str, open_now: Counter[str] = open_now, most: Counter[str] = most) -> int:
                open_now[key] += 1
                most[key] = max(most[key], open_now[key])
                await asyncio.sleep(0)
                open_now[key] -= 1
                return 80

            module.compute = compute
            answers = await asyncio.gather(*[ask(key) for key in "abc" * CALLERS])
            assert answers == [80] * 3 * CALLERS
            assert most == {"a": 1, "b": 1, "c": 1}
            collect()
            assert set(held) == left


async def test_who_is_late_frees_nobody_elses_lock(load: Load) -> None:
    """1. A's lock ends while A works. 2. B takes it. 3. A is done. 4. C comes while B still works."""
    for when, stays in (("before", False), ("after", True)):
        module = load(LATE, when)
        for redis, key, enter in (
            (module.aredis, "nightly-lock", module.nightly),
            (module.redis, "hourly-lock", module.hourly),
        ):

            async def work(redis: Any = redis, key: str = key) -> None:
                await _done(redis.set(key, "B"))

            await _done(enter(work if redis is module.aredis else partial(redis.set, key, "B")))
            assert (await _done(redis.get(key)) == b"B") is stays
            await _done(redis.delete(key))
            entered: list[int] = []

            async def count(entered: list[int] = entered) -> None:
                entered.append(1)

            await _done(enter(count if redis is module.aredis else partial(entered.append, 1)))
            assert entered == [1] and await _done(redis.get(key)) is None


async def _done(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


async def test_a_coroutine_that_pauses_lets_others_run_meanwhile(load: Load) -> None:
    for when, wanted in (
        ("before", ["begin", "end"] * CALLERS),
        ("after", ["begin"] * CALLERS + ["end"] * CALLERS),
    ):
        module = load("SG404-unsafe-pauses", when)
        assert await crowd(module.poll) == [80] * CALLERS
        assert module.steps == wanted


async def test_what_waits_for_an_answer_does_so_in_a_thread(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls meet at a barrier: one that holds the loop meanwhile waits for the other in vain."""
    for when, answers in (("before", {threading.BrokenBarrierError}), ("after", {int})):
        module = load("SG404-unsafe-threads", when)
        module.client = Meeting(0.2 if when == "before" else 20.0)
        monkeypatch.setattr("requests.get", module.client.rates)
        for ask in (partial(module.count, "a"), module.alive, partial(module.rates, "http://shop")):
            module.client.barrier.reset()
            assert {type(answer) for answer in await pair(ask)} == answers
    assert await module.all_of([]) == []


class Meeting:
    """A client whose commands answer when two of them are asked for at once."""

    def __init__(self, patience: float) -> None:
        self.barrier = threading.Barrier(2, timeout=patience)

    def get(self, key: str) -> int:
        self.barrier.wait()
        return 80

    def ping(self) -> int:
        return self.get("ping")

    def rates(self, url: str, timeout: float) -> Any:
        answer = self.get(url)
        return SimpleNamespace(json=lambda: answer)


async def pair(ask: Callable[[], Awaitable[Any]]) -> list[Any]:
    async with asyncio.timeout(60):
        return list(
            await asyncio.gather(*[asyncio.ensure_future(ask()) for _ in range(2)], return_exceptions=True)
        )


def test_every_fixed_file_is_run() -> None:
    run = {case for case, *_ in (*HERDS, *ENCLOSED, *MEMOS, *FALSY)} | {*ROUTES, *OTHERS}
    assert run == {name(case) for case in FIXED}
