"""Somebody watches the fleet: what a process counts then, what it sends, and that it costs nothing without a viewer."""

from __future__ import annotations

import asyncio
import collections
import functools
import json
import math
import os
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import StampedeGuard
from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.stats.counting import MOST_FUNCTIONS, MOST_LEFT_OUT
from stampede_guard.engine.stats.happenings import (
    MOST_ALIKE,
    MOST_HERD_LINES,
    MOST_WAITING,
    RARE,
    SAMPLED,
    Happenings,
    hashed,
)
from stampede_guard.engine.stats.hottest import Hottest
from stampede_guard.engine.stats.watching import HOTTEST, POLICIES, YOUNG, Watching
from stampede_guard.events import (
    BreakerOpened,
    Computed,
    Fallback,
    Hit,
    HoldLost,
    LeaseWon,
    Started,
    TakenOver,
)
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.fleet.snapshot import HotEntry, snapshot
from stampede_guard.ops.fleet.viewer import Viewer
from stampede_guard.policy import Mode, Policy
from stampede_guard.stores.console.console import Console
from stampede_guard.stores.fleet.histogram import BOUNDS, bucket_of, quantile
from stampede_guard.stores.fleet.policies import LONGEST_POLICY, policy_of, policy_text
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import NAMES_SECRET, PROCESS_BEGAN, from_stream
from stampede_guard.stores.fleet.telling import tell_operator
from tests.support.gate import Gate, until
from tests.support.guards import Guards
from tests.support.sessions import patient

# --- the sketch and the histogram ----------------------------------------------------------------


@given(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=400), st.integers(1, 12))
def test_the_hottest_entries_are_found_within_the_stated_error(calls: list[str], size: int) -> None:
    sketch, truth = Hottest(size), collections.Counter(calls)
    for entry in calls:
        sketch.add("f", entry)
    found = {entry: count for _, entry, count in sketch.top(size)}
    assert len(found) <= size
    assert sketch.error <= len(calls) / size
    for entry, count in found.items():
        assert truth[entry] <= count <= truth[entry] + len(calls) / size
    for entry, count in truth.items():
        assert entry in found or count <= len(calls) / size


@given(st.lists(st.floats(0.0004, 29.0), min_size=1, max_size=60), st.sampled_from((0.5, 0.9, 0.99, 1.0)))
def test_a_quantile_is_in_the_bucket_of_the_true_one(seconds: list[float], share: float) -> None:
    counts = [0] * (len(BOUNDS) + 1)
    for one in seconds:
        counts[bucket_of(one)] += 1
    ordered = sorted(seconds)
    true = ordered[math.ceil(share * len(ordered)) - 1]
    estimate = quantile(counts, share)
    assert estimate is not None and bucket_of(estimate) in (bucket_of(true), bucket_of(true) - 1)


def test_a_quantile_needs_observations_and_ends_at_the_last_bound() -> None:
    assert quantile([0] * 11, 0.5) is None
    assert quantile([0] * 10 + [3], 0.5) == BOUNDS[-1]


# --- what happened -------------------------------------------------------------------------------


def told(happenings: Happenings) -> list[dict[str, Any]]:
    """In the order of their times, as readers see them."""
    lines = sorted(happenings.take() + happenings.take_steps(), key=lambda line: -line[0])
    return [json.loads(line) for _, line in lines]


def test_a_lease_is_told_with_its_token_and_its_hashed_name() -> None:
    happenings = Happenings()
    happenings(LeaseWon("nightly", "shop:nightly", 7, 0.5))
    (one,) = told(happenings)
    assert (one["kind"], one["key"], one["token"]) == ("lease won", hashed("shop:nightly"), 7)


def test_a_fault_names_its_process_and_hides_its_entry() -> None:
    now = [100.0]
    happenings = Happenings(clock=lambda: now[0])
    happenings(TakenOver("shop.quality", "shop:quality:secret"))
    happenings(Hit("shop.quality", "shop:quality:secret"))
    now[0] = 101.5
    ((ago, line),) = happenings.take()
    one = json.loads(line)
    assert ago == 1500 and "secret" not in line
    assert (one["kind"], one["function"], one["key"]) == (
        "taken over",
        "shop.quality",
        hashed("shop:quality:secret"),
    )
    assert one["process"].endswith(f"/{os.getpid()}")
    assert happenings.take() == []


def test_a_viewer_with_the_right_sees_names() -> None:
    happenings = Happenings(shows_names=True)
    happenings(Started("f", "shop:quality:7", "flight"))
    assert [one["key"] for one in told(happenings)] == ["shop:quality:7"]


def test_the_longest_line_is_read_whatever_its_letters_are() -> None:
    happenings = Happenings(shows_names=True)
    happenings(Fallback("\U0001f600" * 300, "\U0001f600" * 300, "denied"))
    ((ago, line),) = happenings.take()
    (one,) = from_stream([{b"at": b"%d" % ago, b"what": line.encode()}])
    assert one.function == one.key == "\U0001f600" * 200


def test_storms_of_herds_leave_places_for_faults_and_say_what_is_missing() -> None:
    happenings = Happenings()
    for number in range(20 * MOST_WAITING):
        happenings(Started("f", f"entry {number}", "flight"))
    for _ in range(2 * MOST_WAITING):
        happenings(TakenOver("f", "entry"))
    happenings(HoldLost("nightly", "shop:nightly", 7, 0.5, "lapsed"))
    rare = [json.loads(line)["kind"] for _, line in happenings.take()]
    assert rare == ["taken over"] * MOST_ALIKE + ["lease lost"]
    found = [json.loads(line) for _, line in happenings.take_steps()]
    assert sum(one["kind"] == "began" for one in found) == MOST_HERD_LINES
    assert sum(one["kind"] == "taken over" for one in found) == MOST_WAITING - MOST_HERD_LINES
    assert found[-1]["kind"] == "left out" and found[-1]["lines"] > MOST_WAITING
    happenings(Started("f", "other", "flight"))
    assert [one["kind"] for one in told(happenings)] == ["began"]


def test_all_processes_choose_the_same_entries_for_the_sample() -> None:
    chosen = []
    for _ in range(2):
        happenings = Happenings()
        for number in range(RARE):
            happenings(Started("f", f"rare {number}", "flight"))
        for number in range(600):
            happenings(Started("f", f"entry {number}", "flight"))
        chosen.append({one["key"] for one in told(happenings)})
    assert chosen[0] == chosen[1] and RARE < len(chosen[0]) < RARE + 100


def test_a_fault_outside_the_sample_brings_the_story_of_its_entry() -> None:
    happenings = Happenings()
    for number in range(RARE):
        happenings.step("asked", "f", f"rare {number}", {})
    outside = next(name for number in range(99) if int(hashed(name := f"entry {number}")[1:], 16) % SAMPLED)
    happenings.step("asked", "f", outside, {"flight": "1"})
    happenings.step("waits", "f", outside, {"flight": "1"})
    happenings.step("asked", "f", f"{outside} of others", {"flight": "2"})
    happenings(TakenOver("f", outside))
    happenings.step("landed", "f", outside, {"flight": "1"})
    (fault,) = happenings.take()
    steps = [json.loads(line) for _, line in happenings.take_steps()]
    assert json.loads(fault[1])["kind"] == "taken over"
    assert [one["kind"] for one in steps if one["key"] == hashed(outside)] == ["asked", "waits", "landed"]


def test_what_other_programs_wrote_into_the_stream_is_ignored() -> None:
    good = {b"at": b"1000", b"what": b'{"kind": "away", "process": "p", "part": "x"}'}
    bad: list[dict[bytes, bytes]] = [
        {},
        {b"at": b"x", b"what": b"{}"},
        {b"at": b"1", b"what": b"[1]"},
        {b"at": b"1", b"what": b"["},
        {b"at": b"1", b"what": b'{"kind": 3}'},
        {b"at": b"1", b"what": b'{"kind": "' + b"x" * 30_000 + b'"}'},
        {b"at": b"9" * 15, b"what": b'{"kind": "of no calendar"}'},
    ]
    (one,) = from_stream([*bad, good])
    assert (one.at, one.kind, one.detail) == (1.0, "away", {"part": "x"})


# --- the hook ------------------------------------------------------------------------------------


def test_without_a_viewer_there_is_no_hook() -> None:
    hooks = Hooks()
    watching = Watching(hooks)
    assert not hooks.any
    watching.switch(on=True)
    watching.switch(on=True)
    hooks.tell(Hit("f", "entry"))
    assert hooks.any and watching.take()["f"].hits == 1
    assert hooks.steps is not None
    watching.switch(on=False)
    assert not hooks.any and hooks.steps is None
    hooks.tell(Hit("f", "entry"))
    assert watching.take() == {}


def test_a_new_process_tells_once_when_it_began() -> None:
    now = [100.0]
    watching = Watching(Hooks(), clock=lambda: now[0])
    now[0] += 42
    watching.switch(on=True)
    ((ago, line),) = watching.happenings.take()
    assert json.loads(line)["kind"] == "process began" and 42_000 <= ago < 43_000
    watching.switch(on=False)
    watching.switch(on=True)
    assert watching.happenings.take() == []


def test_a_second_viewer_who_may_see_names_throws_no_counts_away() -> None:
    watching = Watching(Hooks())
    watching.switch(on=True)
    watching.happenings.take()
    watching(Hit("f", "entry"))
    watching(TakenOver("f", "entry"))
    watching.numbers({}, 6)
    watching(Hit("f", "entry"))
    for shows_names, key in ((True, "entry"), (False, hashed("entry")), (True, "entry")):
        watching.switch(on=True, shows_names=shows_names)
        watching(Started("f", "entry", "flight"))
        assert [one["key"] for one in told(watching.happenings)][-1] == key
    assert watching.numbers(watching.take(), 7) == {
        "hits:f": 2,
        "takeovers:f": 1,
        "hot:f\nentry": 1,
        "processes:": 1,
    }


def test_a_line_that_waits_when_the_viewer_with_names_leaves_tells_none() -> None:
    watching = Watching(Hooks())
    watching.switch(on=True, shows_names=True)
    watching.happenings.take()
    watching(TakenOver("f", "entry"))
    watching.switch(on=True)
    assert [one["key"] for one in told(watching.happenings)] == [hashed("entry")]


def test_an_old_process_does_not_tell_when_it_began() -> None:
    """Else the processes of an old fleet would all tell it at once, to the first viewer."""
    now = [100.0]
    watching = Watching(Hooks(), clock=lambda: now[0])
    now[0] += YOUNG
    watching.switch(on=True)
    assert watching.happenings.take() == []


def test_another_hook_of_the_guard_stays() -> None:
    seen: list[object] = []
    hooks = Hooks([seen.append])
    watching = Watching(hooks)
    watching.switch(on=True)
    watching.switch(on=False)
    hooks.tell(BreakerOpened())
    assert hooks.any and seen == [BreakerOpened()]


def test_gauges_and_hot_entries_are_told_once_in_a_slot() -> None:
    watching = Watching(Hooks())
    watching.gauges = lambda: {"flights": 3, "away": 0}
    watching.switch(on=True)
    for number in range(3 * HOTTEST):
        for _ in range(number + 1):
            watching(Hit("f", f"entry {number}"))
    first = watching.numbers(watching.take(), 7)
    assert first["hits:f"] == sum(range(3 * HOTTEST + 1))
    assert first["processes:"] == 1 and first["flights:"] == 3 and "away:" not in first
    assert sum(name.startswith("hot:") for name in first) == HOTTEST
    assert first[f"hot:f\n{hashed('entry 29')}"] == 30
    watching(Hit("f", "entry"))
    assert watching.numbers(watching.take(), 7) == {"hits:f": 1}
    assert watching.numbers(watching.take(), 8)["processes:"] == 1


def test_each_process_publishes_once_in_a_slot_at_its_own_moment() -> None:
    for _ in range(20):
        watching = Watching(Hooks())
        now = 1000.0
        slots = []
        for _ in range(10):
            now += watching.pause(now)
            slots.append(int(now // WATCHED.seconds))
        assert slots == list(range(slots[0], slots[0] + 10))


def test_a_forked_child_does_not_tell_what_its_parent_counted_and_has_its_own_moment() -> None:
    watching = Watching(Hooks())
    watching.switch(on=True)
    watching(Hit("f", "entry"))
    moment = watching.pause(0.0)
    child = os.fork()
    if child == 0:
        told = [name for name in watching.numbers(watching.take(), 7) if name != "processes:"]
        os._exit(len(told) + 10 * (watching.pause(0.0) == moment))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert watching.numbers(watching.take(), 7)["hits:f"] == 1


# --- a real server -------------------------------------------------------------------------------


@pytest.fixture
async def console(valkey_url: str) -> AsyncIterator[Console]:
    async with console_at(valkey_url) as opened:
        yield opened


async def computed(project: int) -> int:
    return project


async def test_a_fleet_publishes_while_somebody_watches(
    valkey_url: str, namespace: str, console: Console
) -> None:
    async with Guards(patient(valkey_url), namespace) as guards, session_at(valkey_url) as session:
        fleet: list[StampedeGuard] = [guards.guard() for _ in range(3)]
        functions = [guard.locked_cache(ttl=300, name="shop.quality")(computed) for guard in fleet]
        for function in functions:
            await function(7)
        assert not any(guard.engine.hooks.any for guard in fleet)
        async with Viewer(console, session, namespace) as watch:
            await until(lambda: all(guard.engine.hooks.any for guard in fleet))
            for function in functions:
                await function(7)
            await functions[0](8)
            fleet[1].engine.hooks.tell(TakenOver("shop.quality", "shop:quality:7"))
            fleet[2].engine.hooks.tell(Computed("shop.quality", "entry", 0.25, "flight", error="LookupError"))
            slot = int(await console.now() // WATCHED.seconds)
            for guard in fleet:
                await guard.engine.runtime().publishers.aclose()
            found = await console.slots_of(namespace, WATCHED, range(slot - 1, slot + 3))
            happened = await watch.happened()
        seen = snapshot({slot: fields for slot, fields in found.items() if fields})
        row = seen.functions["shop.quality"]
        assert (row.hits, row.misses, row.takeovers, row.failed) == (3, 1, 1, 1)
        hot = {one.key: one.calls for one in seen.hottest}
        assert sorted(hot.values()) == [1, 3] and all(key.startswith("#") for key in hot)
        assert seen.troubles == [
            "1 holder disappeared and was replaced",
            "shop.quality: 1 of 2 computations failed",
        ]
        assert "taken over" in [one.kind for one in happened]
        assert isinstance(seen.hottest[0], HotEntry)
        keys = [key async for key in keys_of(console, namespace)]
        assert {key.rpartition(b":")[2] for key, _ in keys} >= {b"happened}", b"herds}"}
        assert all(0 < ttl <= WATCHED.kept_ms * 2 for _, ttl in keys)

        await session.switch(namespace, "*watched", None)
        await until(lambda: not any(guard.engine.hooks.any for guard in fleet))


async def test_a_computation_that_begins_is_told_at_once_because_its_process_may_die(
    valkey_url: str, namespace: str, console: Console
) -> None:
    gate = Gate()

    async def compute() -> int:
        await gate.hold()
        return 7

    async with Guards(patient(valkey_url), namespace) as guards, session_at(valkey_url) as session:
        guard = guards.guard()
        await guard.get_or_compute("warm", functools.partial(computed, 7))
        async with Viewer(console, session, namespace) as watch:
            await until(lambda: guard.engine.hooks.any)
            caller = asyncio.create_task(guard.get_or_compute("quality", compute))
            await gate.arrival()
            kinds: list[str] = []
            while "began" not in kinds:
                kinds = [one.kind for one in await watch.herd_lines()]
            assert kinds == [PROCESS_BEGAN, "asked", "granted", "began"]
            gate.open()
            await caller


async def test_steps_of_herds_do_not_push_out_what_an_operator_did_nor_a_lost_lease(
    valkey_url: str, namespace: str, console: Console
) -> None:
    async with Guards(patient(valkey_url), namespace) as guards, session_at(valkey_url) as session:
        guard = guards.guard()
        await guard.get_or_compute("warm", functools.partial(computed, 7))
        async with Viewer(console, session, namespace) as watch:
            await until(lambda: guard.engine.hooks.any)
            await tell_operator(session, namespace, what="mode", function="*", user="ada", said="off")
            guard.engine.hooks.tell(HoldLost("nightly", "shop:nightly", 7, 0.5, "lapsed"))
            for number in range(3):
                for entry in range(MOST_HERD_LINES * SAMPLED):
                    guard.engine.hooks.tell(Started("f", f"{number} {entry}", "flight"))
                await guard.engine.runtime().publishers.aclose()
            kinds = [one.kind for one in await watch.happened()]
            herds = [one.kind for one in await watch.herd_lines()]
    assert sorted(kinds) == ["lease lost", "operator", PROCESS_BEGAN]
    assert herds.count("began") > 190 and "lease lost" in herds


async def keys_of(console: Console, namespace: str) -> AsyncIterator[tuple[bytes, int]]:
    machine = console.masters[0]
    _, found = await machine.ask("SCAN", 0, "MATCH", f"{{{namespace}:*}}", "COUNT", 100_000)
    for key in found:
        if b":watched:" in key or key.endswith((b":happened}", b":herds}")):
            yield key, await machine.ask("PTTL", key)


async def test_a_key_of_another_type_and_a_crowded_slot_harm_nobody(
    valkey_url: str, namespace: str, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.stores.scripted.MOST_FIELDS", 5)
    async with session_at(valkey_url) as session:
        now = await console.now()
        slot = int(now // WATCHED.seconds)
        machine = console.masters[0]
        await machine.ask("SET", f"{{{namespace}:happened}}", "x")
        await machine.ask("SET", f"{{{WATCHED.name(namespace, slot)}}}", "x")
        await session.tell(namespace, [(1000, '{"kind": "away"}')])
        (one,) = await console.happened(namespace)
        assert one.kind == "away" and abs(one.at - now) < 600
        numbers = {f"hits:{number}": 2 for number in range(1200)}
        assert abs(await session.count(namespace, WATCHED, slot, numbers) - slot) <= 1
        assert abs(await session.count(namespace, WATCHED, slot, numbers) - slot) <= 1
        found = await console.slots_of(namespace, WATCHED, [slot])
        assert len(found[slot]) == 5 and set(found[slot].values()) == {b"4"}


# --- modes and policies --------------------------------------------------------------------------


def called(*functions: tuple[str, str, Policy]) -> Watching:
    watching = Watching(Hooks())
    watching.called = lambda: functions
    watching.switch(on=True)
    return watching


def test_a_called_function_and_one_that_does_not_use_the_store_tell_their_modes() -> None:
    plain = Policy()
    watching = called(("busy", "on:0.1", plain), ("idle", "on", plain), ("silent", "off", plain))
    watching(Hit("busy", "entry"))
    told = watching.numbers(watching.take(), 7)
    assert [name for name in told if name.startswith("runs:")] == ["runs:busy\non:0.1", "runs:silent\noff"]
    assert not any(name.startswith("runs:") for name in watching.numbers(watching.take(), 7))


def test_modes_of_a_slot_have_a_bound_and_the_next_slot_goes_on_with_the_others() -> None:
    watching = called(*((f"f{number}", "off", Policy()) for number in range(2 * MOST_FUNCTIONS)))
    seen: collections.Counter[str] = collections.Counter()
    for slot in range(2):
        names = [name for name in watching.numbers({}, slot + 1) if name.startswith("runs:")]
        assert len(names) == MOST_FUNCTIONS
        seen.update(names)
    assert set(seen.values()) == {1}


def test_policies_take_turns_and_contain_only_what_differs_from_the_default() -> None:
    many = 2 * POLICIES + 1
    watching = called(*((f"f{number}", "on", Policy(ttl=77 + number)) for number in range(many)))
    seen: dict[str, dict[str, Any]] = {}
    for slot in range(3):
        told = [name for name in watching.numbers({}, slot + 1) if name.startswith("policy:")]
        assert len(told) == POLICIES
        for name in told:
            title, _, text = name.removeprefix("policy:").partition("\n")
            seen[title] = json.loads(text)
    assert seen == {f"f{number}": {"ttl": 77.0 + number} for number in range(many)}


@given(
    st.builds(
        Policy,
        ttl=st.floats(0.001, 1e8),
        stale_ttl=st.floats(0, 1e8),
        mode=st.sampled_from(get_args(Mode)),
        sample=st.floats(0, 1),
        share=st.booleans(),
        compression=st.sampled_from(("zstd", None)),
        max_value_bytes=st.integers(2**20, 2**60),
    )
)
def test_a_policy_is_read_as_it_was_told(policy: Policy) -> None:
    text = policy_text(policy)
    assert text.isascii() and len(text) <= LONGEST_POLICY
    assert policy_of(text) == policy


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "[" * 1000,
            '{"ttl": NaN}',
            '{"ttl": -1}',
            '{"ttl": "<b>"}',
            '{"mode": "fly"}',
            '{"ttl": []}',
        ),
        *('{"ttl": 1' + zeros + "}" for zeros in ("0" * 2000, "0" * 700)),
        *('{"share": 1}', '{"ttl": ' + "9" * 5000),
    ],
)
def test_what_is_no_policy_is_ignored(text: str) -> None:
    assert policy_of(text) is None


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert policy_of('{"ttl": 7, "colour": "red"}') == Policy(ttl=7)


def test_how_many_functions_are_summed_as_others_is_told() -> None:
    watching = called()
    for number in range(MOST_FUNCTIONS + 30):
        for _ in range(2):
            watching(Hit(f"f{number}", "entry"))
    rows = watching.take()
    told = watching.numbers(rows, 7)
    assert (told["left_out:"], told["leaving_out:"]) == (30, 1)
    watching.put_back(rows)
    assert "left_out:" not in watching.numbers(watching.take(), 8), (
        "sums that come again are no new functions"
    )
    for number in range(MOST_FUNCTIONS + 2 * MOST_LEFT_OUT):
        watching(Hit(f"f{number}", "entry"))
    assert watching.numbers(watching.take(), 9)["left_out:"] == MOST_LEFT_OUT
    fields = {b"left_out:": b"31", b"leaving_out:": b"2", b"processes:": b"5"}
    assert snapshot({7: fields}).left_out == 16 and snapshot({7: {b"left_out:": b"5"}}).left_out == 0


# --- hashes of names -----------------------------------------------------------------------------


def test_with_a_secret_nobody_else_can_compute_the_hash_of_a_guessed_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = hashed("shop:quality:user=7")
    found = {without}
    for secret in ("one secret", "another one", "x" * 1000, "\udcff"):
        monkeypatch.setenv(NAMES_SECRET, secret)
        found.add(hashed("shop:quality:user=7"))
        assert hashed("shop:quality:user=7") == hashed("shop:quality:user=7")
    assert len(found) == 5 and all(len(one) == len(without) for one in found)
    monkeypatch.setenv(NAMES_SECRET, "")
    assert hashed("shop:quality:user=7") == without
