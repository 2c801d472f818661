"""The Lua scripts do what the pure functions in `core/scripts.py` do: the same replies, state and messages.

Random sequences of steps, from beginnings that lead to where things happen, run against both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.wire import changes_channel
from tests.support.backends import PARTS
from tests.support.twins import DEAD, INLINE, LIVE, LIVES, SCRIPTS, Worlds

FLIGHTS = st.sampled_from(["f1", "f2", "f3"])
INBOXES = st.sampled_from([*LIVE, DEAD, ""])
OUTCOMES = st.sampled_from(["value", "failure", "pass"])
PICK = st.integers(0, 5)
"""A token by its age: 0 is the latest."""
SIZES = st.integers(INLINE - 1, INLINE + 1)
STEPS = st.one_of(
    st.tuples(st.just("read")),
    st.tuples(st.just("acquire"), FLIGHTS, INBOXES, PICK),
    st.tuples(st.just("acquire"), FLIGHTS, INBOXES, st.none()),
    st.tuples(st.just("acquire"), FLIGHTS, INBOXES, st.none()),
    st.tuples(st.just("renew"), FLIGHTS, PICK, INBOXES),
    st.tuples(st.just("renew_own"), FLIGHTS, INBOXES),
    st.tuples(st.just("publish"), FLIGHTS, PICK, OUTCOMES, SIZES),
    st.tuples(st.just("publish_own"), FLIGHTS, OUTCOMES, SIZES),
    st.tuples(st.just("publish_own"), FLIGHTS, st.just("value"), SIZES),
    st.tuples(st.just("invalidate")),
    st.tuples(st.just("release"), FLIGHTS),
    st.tuples(st.just("admits"), PICK),
    st.tuples(st.just("stamp"), FLIGHTS),
    st.tuples(st.just("fallback"), FLIGHTS, st.integers(0, 2), st.none() | PICK, st.sampled_from(LIVES)),
    st.tuples(st.just("older_slot"), FLIGHTS),
    st.tuples(st.just("tag"), st.sampled_from([500_000, 2_000_000])),
    st.tuples(st.just("drop_tag")),
    st.tuples(st.just("age"), st.sampled_from([110, 350, 650, 1_000, 4_000])),
    st.tuples(st.sampled_from(["evict", "spoil"]), st.sampled_from(PARTS)),
    st.tuples(st.sampled_from(["stretch", "stretch_rest", "die", "revive", "step_back"])),
)
_HELD = [("acquire", "f1", "inbox-a", None), ("acquire", "f2", LIVE[1], None)]
_STORED = [("acquire", "f1", "inbox-a", None), ("publish_own", "f1", "value", INLINE)]
_PASSED = [*_HELD, ("publish_own", "f1", "pass", INLINE)]
BEGINNINGS = st.sampled_from(
    [
        [],
        _HELD,
        [*_HELD, ("die",)],
        [*_HELD, ("die",), ("acquire", "f2", LIVE[1], None)],
        [*_HELD, ("die",), ("acquire", "f2", LIVE[1], None), ("revive",)],
        [*_HELD, ("spoil", "waiters")],
        [*_HELD, ("fallback", "f2", 2)],
        [*_HELD, ("fallback", "f2", 2), ("publish_own", "f2", "value", INLINE), ("evict", "record")],
        [*_HELD, ("publish_own", "f1", "failure", INLINE)],
        _PASSED,
        [*_PASSED, ("acquire", "f2", LIVE[1], None)],
        [*_PASSED, ("acquire", "f2", LIVE[1], None), ("acquire", "f3", "", None)],
        [*_PASSED, ("evict", "record"), ("acquire", "f2", LIVE[1], None)],
        [*_HELD, ("publish_own", "f1", "failure", INLINE), ("evict", "record"), ("fallback", "f2", 2)],
        [*_HELD, ("stretch_rest",)],
        [*_HELD, ("publish_own", "f1", "failure", INLINE), ("stretch_rest",)],
        [*_PASSED, ("acquire", "f2", LIVE[1], None), ("stretch_rest",)],
        [*_HELD, ("fallback", "f2", 1), ("stretch_rest",), ("fallback", "f3", 1)],
        [
            *_HELD,
            ("fallback", "f2", 1, None, LIVES[1]),
            ("fallback", "f3", 1),
            ("fallback", "f2", 1),
            ("age", 1_000),
        ],
        [*_HELD, ("older_slot", "f2"), ("fallback", "f3", 1), ("fallback", "f2", 1), ("release", "f2")],
        [*_HELD, ("stamp", "f3")],
        [*_HELD, ("publish_own", "f1", "failure", INLINE), ("evict", "record"), ("stamp", "f3")],
        [*_HELD, ("stamp", "f3"), ("invalidate",), ("publish_own", "f3", "value", INLINE)],
        [("tag", 500_000)],
        [("tag", 500_000), ("stretch",)],
        _STORED,
        [*_STORED, ("stretch",)],
        [*_STORED, ("age", 1_000)],
        [*_STORED, ("age", 1_000), ("step_back",)],
        [*_STORED, ("age", 1_000), *_HELD],
    ]
)
"""Where the interesting things happen; random steps alone would rarely come here."""


@pytest.fixture(scope="module")
def worlds(valkey_url: str) -> Iterator[Any]:
    client = redis.Redis.from_url(valkey_url, protocol=2, socket_timeout=20)
    pubsub = client.pubsub()
    pubsub.subscribe(*LIVE, changes_channel("twins:"))
    for _ in range(len(LIVE) + 1):
        pubsub.parse_response()
    texts = {name: client.register_script(Script(name, prelude=name != "read").text) for name in SCRIPTS}
    numbers = itertools.count()
    yield lambda: Worlds(client, pubsub, texts, f"twins:{id(texts)}-{next(numbers)}")
    pubsub.close()
    client.close()


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(beginning=BEGINNINGS, steps=st.lists(STEPS, min_size=3, max_size=20))
def test_scripts_and_pure_functions_cannot_be_told_apart(
    worlds: Any, beginning: list[tuple[Any, ...]], steps: list[tuple[Any, ...]]
) -> None:
    both = worlds()
    for step in [*beginning, *steps]:
        note(f"{step}: {both.entry}")
        both.run(step)


def test_a_slot_whose_time_is_over_is_given_back_too(worlds: Any) -> None:
    """Otherwise a step of the clock would bring it back, although nobody computes."""
    both = worlds()
    for step in (
        ("fallback", "f1", 2, None, LIVES[0]),
        ("fallback", "f2", 2, None, LIVES[1]),
        ("age", LIVES[0] // 1000 + 100),
        ("release", "f1"),
    ):
        both.run(step)
    assert set(both._slots()) == {f"f2 {LIVES[1]}"}
