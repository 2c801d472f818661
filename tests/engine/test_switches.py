"""The fleet's switches: set in the store, heard by every process, above what the program says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import PolicyError, StampedeGuard
from stampede_guard.engine.modes.modes import Modes, modes_from_environment
from stampede_guard.engine.modes.switches import Switches
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.policy import Mode, Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.switch import MOST_SWITCHES, WATCH_TITLE, Switch
from stampede_guard.values.codec import codec_for
from tests.support.gate import soon, until
from tests.support.guards import Guards
from tests.support.inside import switches_of, watch_of
from tests.support.sessions import LONG
from tests.support.source import Counted


async def switch(guards: Guards, title: str, text: str | None, left: float | None = None) -> int:
    """As the command line does: with a session of its own."""
    session = guards.guard().engine.runtime().session
    given = None if text is None else Switch.parse(text, left=left)
    return await session.switch(guards.namespace, title, given)


async def watching(guard: StampedeGuard, key: str = "k") -> None:
    """Has been asked something, and has read the switches for the first time."""
    await guard.get_or_compute(key, Counted())
    read = asyncio.Event()
    switches, look = watch_of(guard.engine.runtime()), watch_of(guard.engine.runtime())._look

    async def looked() -> None:
        await look()
        read.set()

    switches._look = looked  # type: ignore[method-assign]
    switches.look()
    await soon(read.wait())


async def in_mode(guard: StampedeGuard, mode: Mode | None) -> None:
    await until(lambda: guard.mode == mode)


# --- a fleet ----------------------------------------------------------------------------------------------


async def test_a_switch_reaches_every_process_by_a_message(guards: Guards) -> None:
    """The next look at intervals would be seconds later, and this test gives none of them a chance."""
    fleet = [guards.guard() for _ in range(3)]
    for guard in fleet:
        watch_of(guard.engine.runtime())._pause = never
        await watching(guard)
    assert await switch(guards, "*", "bypass") >= 3
    for guard in fleet:
        await in_mode(guard, "bypass")
    await switch(guards, "*", None)
    for guard in fleet:
        await in_mode(guard, None)


async def never(seconds: float) -> None:
    await asyncio.Event().wait()


async def test_a_switch_for_one_function_leaves_the_others_alone(guards: Guards) -> None:
    guard, one, other = guards.guard(), Counted(), Counted()

    @guard.locked_cache(name="shop.one")
    async def first() -> int:
        return await one()

    @guard.locked_cache(name="shop.other")
    async def second() -> int:
        return await other()

    assert [await first(), await second()] == [1, 1]
    await switch(guards, "shop.one", "off")
    await until(lambda: switches_of(guard))
    assert [await first(), await first(), await second()] == [2, 3, 1]
    await switch(guards, "shop.one", None)
    await until(lambda: not switches_of(guard))
    assert [await first(), await second()] == [1, 1]


async def test_a_process_that_starts_later_reads_what_was_switched_before(guards: Guards) -> None:
    await switch(guards, "*", "shadow")
    guard = guards.guard()
    await guard.get_or_compute("k", Counted())
    await in_mode(guard, "shadow")


async def test_a_switch_that_was_given_back_while_a_guard_was_closed_holds_no_longer(guards: Guards) -> None:
    guard = guards.guard()
    await watching(guard)
    await switch(guards, "*", "off")
    await in_mode(guard, "off")
    await guard.aclose()
    await switch(guards, "*", None)
    guard.engine.runtime()
    await in_mode(guard, None)


async def test_a_switch_with_an_end_ends(guards: Guards) -> None:
    if guards.memory is None:
        async with redis.asyncio.Redis.from_url(guards.url) as client:
            key = f"{{{guards.namespace}:modes}}"
            await client.hset(key, mapping={"*": "1000000 bypass", "shop.old": "1 off", "shop.bad": "x"})
            session = guards.guard().engine.runtime().session
            assert await session.switches(guards.namespace) == {}
            await switch(guards, "shop.one", "bypass", left=60)
            left = (await session.switches(guards.namespace))["shop.one"].left
            assert left is not None and 50 < left <= 60
            assert await client.hkeys(key) == [b"shop.one"], "what has ended goes with the next change"
        return
    await switch(guards, "*", "bypass", left=60)
    session = guards.guard().engine.runtime().session
    assert await session.switches(guards.namespace) == {"*": Switch("bypass", left=60)}
    guards.clock.advance(59)
    assert list(await session.switches(guards.namespace)) == ["*"]
    guards.clock.advance(2)
    assert await session.switches(guards.namespace) == {}


async def test_the_kill_switch_keeps_one_flight_per_key(guards: Guards) -> None:
    guard, runs = guards.guard(), 0
    await watching(guard)
    await switch(guards, "*", "bypass")
    await in_mode(guard, "bypass")

    async def compute() -> int:
        nonlocal runs
        await asyncio.sleep(0)
        runs += 1
        return runs

    assert await asyncio.gather(*[guard.get_or_compute("k", compute) for _ in range(20)]) == [1] * 20


async def test_another_namespace_is_switched_by_nobody_here(guards: Guards) -> None:
    guard = guards.guard()
    await watching(guard)
    session = guards.guard().engine.runtime().session
    await session.switch(guards.namespace + "-other", "*", Switch("bypass"))
    await session.switch(guards.namespace, "shop.one", Switch("off"))
    await until(lambda: switches_of(guard))
    assert guard.mode is None
    assert await session.switches(guards.namespace) == {"shop.one": Switch("off")}
    await session.switch(guards.namespace + "-other", "*", None)


async def test_switches_are_bounded_and_one_that_is_there_can_be_changed(guards: Guards) -> None:
    session = guards.guard().engine.runtime().session
    for number in range(MOST_SWITCHES):
        await session.switch(guards.namespace, f"shop.f{number}", Switch("off"))
    with pytest.raises(StoreRefused, match="256 switches already"):
        await session.switch(guards.namespace, "shop.more", Switch("off"))
    await session.switch(guards.namespace, "shop.f0", Switch("on", 0.25))
    assert (await session.switches(guards.namespace))["shop.f0"] == Switch("on", 0.25)
    for number in range(MOST_SWITCHES):
        await session.switch(guards.namespace, f"shop.f{number}", None)
    assert await session.switches(guards.namespace) == {}


async def test_a_viewer_takes_no_place_of_a_switch_and_needs_none(guards: Guards) -> None:
    session = guards.guard().engine.runtime().session
    watch = Switch("on", 1.0, 60.0)
    await session.switch(guards.namespace, WATCH_TITLE, watch)
    for number in range(MOST_SWITCHES):
        await session.switch(guards.namespace, f"shop.f{number}", Switch("off"))
    with pytest.raises(StoreRefused, match="256 switches already"):
        await session.switch(guards.namespace, "shop.more", Switch("off"))
    await session.switch(guards.namespace, WATCH_TITLE, None)
    await session.switch(guards.namespace, WATCH_TITLE, watch)
    assert len(await session.switches(guards.namespace)) == MOST_SWITCHES + 1
    for title in await session.switches(guards.namespace):
        await session.switch(guards.namespace, title, None)


async def test_a_gradual_start_can_be_switched_live(guards: Guards) -> None:
    guard, count = guards.guard(mode="off"), Counted()
    keys = [f"k{number}" for number in range(40)]
    guard.mode = "on"
    await watching(guard)
    await switch(guards, "*", "on:0.5")
    await until(lambda: switches_of(guard))
    for _ in range(2):
        for key in keys:
            await guard.get_or_compute(key, count)
    assert 40 < count.runs < 80


async def test_a_process_that_is_told_to_leave_the_store_alone_does_not_ask_for_switches(
    guards: Guards,
) -> None:
    guard = guards.guard(mode="bypass")
    await guard.get_or_compute("k", Counted())
    assert watch_of(guard.engine.runtime())._task is None
    guard.mode = "on"
    await guard.get_or_compute("k", Counted())
    await until(lambda: watch_of(guard.engine.runtime())._task is not None)


async def test_in_a_cluster_a_switch_reaches_processes_that_use_other_masters(
    valkey_cluster: Any, namespace: str
) -> None:
    async with Guards(valkey_cluster.url, namespace, deadline=LONG) as fleet:
        guard = fleet.guard()
        watch_of(guard.engine.runtime())._pause = never
        for key in ("a", "b", "c"):
            await watching(guard, key)
        await switch(fleet, "*", "bypass")
        await in_mode(guard, "bypass")
        await switch(fleet, "*", None)
        await in_mode(guard, None)


async def test_the_kill_switch_goes_through_when_the_server_is_out_of_memory(
    own_valkey: ValkeyServer,
) -> None:
    async with Guards(own_valkey.url, "shop", deadline=LONG) as fleet:
        guard = fleet.guard()
        await watching(guard)
        async with redis.asyncio.Redis.from_url(own_valkey.url) as client:
            await client.set("filler", b"x" * 3_000_000)
            await client.config_set("maxmemory", "1mb")
            await switch(fleet, "*", "bypass")
            await in_mode(guard, "bypass")
            await client.config_set("maxmemory", "0")


# --- the watch ----------------------------------------------------------------------------------------------


class Watched:
    """A store whose answer a test gives, and pauses that end when the test says so."""

    def __init__(self) -> None:
        self.answer: Mapping[str, Switch] | Exception = {}
        self.told: list[dict[str, str]] = []
        self.known: Mapping[str, Switch] = {}
        self.reads = 0
        self.pauses: list[float] = []
        self.over = asyncio.Event()
        self.switches = Switches(self.read, self.changed, lambda: self.known, pause=self.pause)

    async def read(self) -> Mapping[str, Switch]:
        self.reads += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def changed(self, fleet: Mapping[str, Switch]) -> None:
        self.known = fleet
        self.told.append({title: str(switch) for title, switch in fleet.items()})

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.over.wait()
        self.over.clear()

    async def next_look(self) -> None:
        reads = self.reads
        self.over.set()
        await until(lambda: self.reads > reads and len(self.pauses) > self.reads - 1)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    made = Watched()
    made.switches.start()
    await until(lambda: made.pauses)
    yield made
    await made.switches.aclose()


async def test_a_lost_message_is_made_up_for_by_the_next_look(watched: Watched) -> None:
    watched.answer = {"*": Switch("bypass")}
    await watched.next_look()
    assert watched.told == [{"*": "bypass"}]
    assert all(4 <= seconds <= 6 for seconds in watched.pauses)


async def test_a_message_makes_it_look_at_once(watched: Watched) -> None:
    watched.answer = {"*": Switch("bypass")}
    watched.switches.look()
    await until(lambda: watched.told)
    assert not watched.over.is_set()


async def test_an_unchanged_answer_tells_nobody_anything(watched: Watched) -> None:
    watched.answer = {"*": Switch("bypass", left=9.0)}
    await watched.next_look()
    watched.answer = {"*": Switch("bypass", left=4.0)}
    await watched.next_look()
    assert len(watched.told) == 1


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("away"), StoreRefused("no permission"), AttributeError("a store without switches")],
)
async def test_what_was_known_last_holds_while_the_store_cannot_be_asked(
    watched: Watched, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    watched.answer = {"*": Switch("bypass")}
    await watched.next_look()
    caplog.clear()
    watched.answer = error
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        await watched.next_look()
        await watched.next_look()
    assert watched.told == [{"*": "bypass"}]
    assert len(caplog.records) == (0 if isinstance(error, StoreUnavailable) else 1), "said once"
    watched.answer = {}
    await watched.next_look()
    assert watched.told[-1] == {}


# --- who is heard first ---------------------------------------------------------------------------------------


def plan(**fields: Any) -> Plan:
    return Plan(title="shop.one", policy=Policy(**fields), codec=codec_for(int))


def test_the_operator_comes_before_the_program_and_one_function_before_all() -> None:
    says: list[tuple[str, Mode]] = [
        ("policy", "off"), ("guard", "on"), ("function", "shadow"), ("environment *", "bypass"),
        ("environment", "off"), ("fleet *", "on"), ("fleet", "bypass"),
    ]  # fmt: skip
    for count in range(1, len(says) + 1):
        said = dict(says[:count])
        of_one = plan(mode=said["policy"])
        of_one.mode = said.get("function")
        modes = Modes(
            fleet={t: Switch(said[w]) for w, t in (("fleet", "shop.one"), ("fleet *", "*")) if w in said},
            environment={
                t: Switch(said[w])
                for w, t in (("environment", "shop.one"), ("environment *", "*"))
                if w in said
            },
            program=said.get("guard"),
        )
        assert modes.settle(of_one).mode == says[count - 1][1], says[count - 1]


def test_a_switch_without_a_sample_leaves_the_functions_own() -> None:
    assert Modes(fleet={"*": Switch("on")}).settle(plan(sample=0.1)).sample == 0.1
    assert Modes(fleet={"*": Switch("on", 1.0)}).settle(plan(sample=0.1)).sample == 1.0


@pytest.mark.parametrize(
    ("mode", "sample", "shortest"), [("on", 1.0, True), ("on", 0.5, False), ("shadow", 1.0, False)]
)
def test_only_what_is_wholly_on_may_take_the_shortest_way(mode: Mode, sample: float, shortest: bool) -> None:
    assert Modes().settle(plan(mode=mode, sample=sample)).shortest is shortest


def test_the_environment_speaks_of_functions_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_MODES", " shop.one=bypass, shop.two=on:0.1,")
    monkeypatch.setenv("STAMPEDE_GUARD_MODE", "shadow")
    said = modes_from_environment().environment
    assert said == {"shop.one": Switch("bypass"), "shop.two": Switch("on", 0.1), "*": Switch("shadow")}
    monkeypatch.setenv("STAMPEDE_GUARD_MODES", "*=off")
    assert modes_from_environment().of_all == "off"


def test_an_environment_above_the_program_is_what_the_guard_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_MODE", "bypass")
    guard = StampedeGuard(MemoryStore())
    guard.mode = "on"
    assert guard.mode == "bypass"


@pytest.mark.parametrize(
    "text", ["bypass", "shop.one=sometimes", "=on", "shop.one=on:2", "shop.one", "f" * 201 + "=on"]
)
def test_an_environment_that_cannot_be_read_is_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_MODES", text)
    with pytest.raises(PolicyError, match=r"\$STAMPEDE_GUARD_MODES=.*FUNCTION=MODE"):
        StampedeGuard(MemoryStore())
