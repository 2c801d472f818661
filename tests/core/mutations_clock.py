"""The rules of a server's clock that steps back, each left out: see `tests.core.mutations`.

What has more time left than it was given ends at once. Otherwise it would stay for as long as the clock was set back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampede_guard.core import scripts
from stampede_guard.core.entry import Entry
from tests.core.setups import ONE_AT_A_TIME, UNSTORABLE
from tests.core.steps import Core
from tests.core.world import Setup


def _acquire_that_believes_any_lease(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    if entry.lease is not None:
        entry = replace(entry, lease=replace(entry.lease, total_ms=0))
    after, answer = scripts.acquire(entry, ask, **given)
    if after.lease is not None and not after.lease.total_ms:
        after = replace(after, lease=replace(after.lease, total_ms=ask.lease_ms))
    return after, answer


def _acquire_that_believes_any_failure(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    failure = entry.failure
    if failure is not None:
        entry = replace(entry, failure=replace(failure, total_ms=0))
    after, answer = scripts.acquire(entry, ask, **given)
    return (replace(after, failure=failure) if after.failure is not None else after), answer


def _fallback_that_counts_any_slot(entry: Entry, ask: scripts.FallbackAsk, **given: Any) -> Any:
    lives = {slot.owner: slot.total_ms for slot in entry.slots}
    entry = replace(entry, slots=tuple(replace(slot, total_ms=0) for slot in entry.slots))
    after, answer = scripts.fallback(entry, ask, **given)
    slots = tuple(replace(slot, total_ms=lives.get(slot.owner, slot.total_ms)) for slot in after.slots)
    return replace(after, slots=slots), answer


STEP = frozenset({"clock"})
STEP_AND_CRASH = frozenset({"clock", "crash"})

CLOCK: dict[str, tuple[str, Setup, Core]] = {
    "a dead lease outlives a step of the clock": (
        "waits for ever",
        Setup(faults=2, kinds=STEP_AND_CRASH, listening_known=False),
        Core(acquire=_acquire_that_believes_any_lease),
    ),
    "a failure outlives a step of the clock": (
        "outlived its time",
        Setup(faults=1, kinds=STEP, events=1, event_kinds=frozenset({"fail"})),
        Core(acquire=_acquire_that_believes_any_failure),
    ),
    "a mark outlives a step of the clock": (
        "outlived its time",
        Setup(faults=1, kinds=STEP, events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
        Core(acquire=_acquire_that_believes_any_failure),
    ),
    "a slot outlives a step of the clock": (
        "denied a place",
        Setup(faults=3, kinds=frozenset({"clock", "fallback"})),
        Core(fallback=_fallback_that_counts_any_slot),
    ),
}
