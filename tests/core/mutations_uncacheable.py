"""The rules of a key that is not cacheable for now, each left out: see `tests.core.mutations`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampede_guard.core import scripts
from stampede_guard.core.entry import Entry
from stampede_guard.core.scripts import Granted, Held, Publication, Uncacheable
from tests.core.setups import ONE_AT_A_TIME, UNSTORABLE
from tests.core.steps import Core
from tests.core.world import Setup


def _acquire_without_the_mark(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    mark = entry.failure
    if mark is None or not mark.passes:
        return scripts.acquire(entry, ask, **given)
    after, answer = scripts.acquire(replace(entry, failure=None), ask, **given)
    return replace(after, failure=mark), answer


def _acquire_without_a_limit(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    return scripts.acquire(entry, replace(ask, uncacheable_limit=10**6), **given)


def _acquire_that_forgets_who_waits_for_a_slot(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, **given)
    waits_for_slot = isinstance(answer, Held) and entry.failure is not None and entry.failure.passes
    return (replace(after, waiters=entry.waiters) if waits_for_slot else after), answer


def _acquire_with_a_mark_of_any_age(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    mark = entry.failure
    if mark is not None and mark.passes and entry.record is not None:
        entry = replace(entry, failure=replace(mark, token=max(mark.token, entry.record.fence)))
    return scripts.acquire(entry, ask, **given)


def _acquire_without_a_token_of_its_own(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, **given)
    if isinstance(answer, Uncacheable) and entry.record is not None:
        grant: Granted = replace(answer.grant, token=entry.record.last)
        return replace(after, record=entry.record), Uncacheable(grant)
    return after, answer


def _invalidate_that_keeps_the_mark(entry: Entry, **given: Any) -> Any:
    after, fence, messages = scripts.invalidate(entry, **given)
    mark = entry.failure if entry.failure is not None and entry.failure.passes else None
    return replace(after, failure=mark), fence, messages


def _publish_that_keeps_the_slot(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    return replace(after, slots=entry.slots), stored, messages


def _publish_a_mark_silently(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    return after, stored, () if publication.outcome == "pass" else messages


def _release_that_keeps_the_slot(entry: Entry, name: str, **given: Any) -> Any:
    after, released, messages = scripts.release(entry, name, **given)
    return replace(after, slots=entry.slots), released, messages


def _release_of_a_slot_that_wakes_nobody(entry: Entry, name: str, **given: Any) -> Any:
    after, released, messages = scripts.release(entry, name, **given)
    return after, released, messages if entry.lease is not None and entry.lease.owner == name else ()


ONE = Setup(callers=3, processes=3, events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME)
FAILING = Setup(
    callers=3,
    processes=3,
    events=2,
    event_kinds=frozenset({"unstorable", "fail_private"}),
    policy=ONE_AT_A_TIME,
)
TWICE = replace(ONE, events=2)
SMALL = Setup(events=1, invalidations=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME)

UNCACHEABLE: dict[str, tuple[str, Setup, Core]] = {
    "mark not heeded": ("made to wait", ONE, Core(acquire=_acquire_without_the_mark)),
    "limit of those let through ignored": (
        "let through at once",
        ONE,
        Core(acquire=_acquire_without_a_limit),
    ),
    "waiter for a slot not registered": (
        "waits for a timer",
        ONE,
        Core(acquire=_acquire_that_forgets_who_waits_for_a_slot),
    ),
    "mark survives an invalidation": (
        "mark from before an invalidation",
        SMALL,
        Core(acquire=_acquire_with_a_mark_of_any_age, invalidate=_invalidate_that_keeps_the_mark),
    ),
    "let through without a token of its own": (
        "was issued after",
        SMALL,
        Core(acquire=_acquire_without_a_token_of_its_own),
    ),
    "slot kept after the outcome": (
        "waits for a timer",
        TWICE,
        Core(publish=_publish_that_keeps_the_slot),
    ),
    "mark wakes nobody": ("waits for a timer", ONE, Core(publish=_publish_a_mark_silently)),
    "slot kept after a release": ("waits for a timer", FAILING, Core(release=_release_that_keeps_the_slot)),
    "slot given back wakes nobody": (
        "waits for a timer",
        FAILING,
        Core(release=_release_of_a_slot_that_wakes_nobody),
    ),
}
