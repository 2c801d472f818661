"""The core with one rule left out: what the search must find fault with, and where it is looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stampede_guard.core import flight, scripts
from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import FailedRecently, Granted, Held, Publication, Renewal
from stampede_guard.core.commands import AskStore, Deliver, Keep, Land
from stampede_guard.core.entry import Entry, Lease, Record
from stampede_guard.core.events import (
    ComputationEnded,
    Delivered,
    Heard,
    LookAgain,
    PublishAnswered,
    StoreAnswered,
    StoreFailed,
)
from stampede_guard.core.states import FlightState, Landed, Waiting
from tests.core.mutations_clock import CLOCK
from tests.core.mutations_flight import FLIGHT
from tests.core.mutations_puts import PUTS
from tests.core.mutations_uncacheable import UNCACHEABLE
from tests.core.steps import Core
from tests.core.world import Setup

ENDLESS = 10**18
WANTED = Aboard(1, 1, waits=True)


@dataclass(frozen=True)
class Mutation:
    """`finds` is a part of the promise that is broken."""

    core: Core
    setup: Setup
    finds: str


# --- records, epochs, tokens ----------------------------------------------------------------------


def _publish_without_epoch(entry: Entry, publication: Publication, **given: Any) -> Any:
    if entry.record is not None:
        publication = replace(publication, epoch=entry.record.epoch)
    return scripts.publish(entry, publication, **given)


def _acquire_without_record(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, **given)
    return (replace(after, record=None) if entry.record is None else after), answer


def _publish_with_late_record(entry: Entry, publication: Publication, **given: Any) -> Any:
    if entry.record is None:
        entry = replace(entry, record=Record(publication.epoch, publication.token, 0, ENDLESS))
    return scripts.publish(entry, publication, **given)


def _acquire_with_clock_only(entry: Entry, ask: scripts.Ask, *, now_us: int, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, now_us=now_us, **given)
    if isinstance(answer, Granted) and after.lease is not None and after.lease != entry.lease:
        answer = replace(answer, token=now_us)
        after = replace(after, lease=replace(after.lease, token=now_us))
    return after, answer


def _invalidate_with_clock_only(entry: Entry, *, now_us: int, **given: Any) -> Any:
    after, _, messages = scripts.invalidate(entry, now_us=now_us, **given)
    assert after.record is not None
    return replace(after, record=replace(after.record, last=now_us, fence=now_us)), now_us, messages


def _invalidate_without_step(entry: Entry, *, now_us: int, **given: Any) -> Any:
    after, fence, messages = scripts.invalidate(entry, now_us=now_us, **given)
    assert after.record is not None
    fence = max(entry.highest_token, now_us)
    return replace(after, record=replace(after.record, last=fence, fence=fence)), fence, messages


def _publish_without_fence(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    if after.record is not None and entry.record is not None:
        after = replace(after, record=replace(after.record, fence=entry.record.fence))
    return after, stored, messages


def _acquire_with_another_token(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    if entry.lease is not None and entry.lease.owner == ask.flight:
        entry = replace(entry, lease=None)
    return scripts.acquire(entry, ask, **given)


# --- leases ---------------------------------------------------------------------------------------


def _acquire_that_believes_the_asker(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, **given)
    if after.lease is not None and after.lease.owner == ask.flight and isinstance(answer, Granted):
        after = replace(after, lease=replace(after.lease, inbox=ask.inbox))
    return after, answer


def _release_by_anybody(entry: Entry, name: str, **given: Any) -> Any:
    return scripts.release(entry, name if entry.lease is None else entry.lease.owner, **given)


def _renew_that_creates(entry: Entry, renewal: Renewal, **given: Any) -> Any:
    if entry.lease is None and entry.record is not None:
        epoch = entry.record.epoch
        lease = Lease(renewal.flight, renewal.token, epoch, renewal.inbox, ENDLESS)
        return replace(entry, lease=lease), True
    return scripts.renew(entry, renewal, **given)


def _publish_that_keeps_a_refused_lease(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    return (after if stored else replace(after, lease=entry.lease)), stored, messages


def _publish_that_keeps_the_lease_of_any(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    return replace(after, lease=None), stored, messages


def _invalidate_that_takes_the_lease(entry: Entry, **given: Any) -> Any:
    after, fence, messages = scripts.invalidate(entry, **given)
    return replace(after, lease=None), fence, messages


# --- waiting and waking ---------------------------------------------------------------------------


def _publish_that_wakes_nobody_when_refused(entry: Entry, publication: Publication, **given: Any) -> Any:
    after, stored, messages = scripts.publish(entry, publication, **given)
    return after, stored, messages if stored else ()


def _acquire_that_forgets_the_waiter(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    after, answer = scripts.acquire(entry, ask, **given)
    return (replace(after, waiters=entry.waiters) if isinstance(answer, Held) else after), answer


def _acquire_without_reading_again(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    return scripts.acquire(entry, replace(ask, newer_than=ENDLESS), **given)


def _decide_without_asking_again(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, Heard) and event.message.kind == "again":
        return state, Keep()
    return flight.decide(state, event, policy)


def _decide_without_a_poll(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, LookAgain):
        return state, Keep()
    return flight.decide(state, event, policy)


def _decide_without_the_fence(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(state.phase, Waiting) and isinstance(event, Heard):
        state = state._replace(phase=replace(state.phase, fence=0))
    return flight.decide(state, event, policy)


# --- handing out ----------------------------------------------------------------------------------


def _decide_to_hand_out_what_was_refused(state: FlightState, event: Any, policy: Any) -> Any:
    after, command = flight.decide(state, event, policy)
    if isinstance(event, PublishAnswered) and isinstance(command, Deliver):
        command = command._replace(to="covered")
    return after, command


def _unfenced(state: FlightState) -> FlightState:
    return state._replace(phase=replace(state.phase, fenced=False))  # type: ignore[call-arg]


def _decide_to_believe_the_store_alone(state: FlightState, event: Any, policy: Any) -> Any:
    state = _unfenced(state) if isinstance(event, PublishAnswered) else state
    return flight.decide(state, event, policy)


def _decide_to_serve_everyone_without_the_store(state: FlightState, event: Any, policy: Any) -> Any:
    state = _unfenced(state) if isinstance(event, ComputationEnded) else state
    return flight.decide(state, event, policy)


def _decide_to_forget_who_is_left(state: FlightState, event: Any, policy: Any) -> Any:
    after, command = flight.decide(state, event, policy)
    if isinstance(event, Delivered) and isinstance(command, AskStore):
        return after._replace(phase=Landed()), Land()
    return after, command


def _decide_to_hear_what_it_replaces(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, Heard):
        after, command = flight.decide(state._replace(newer_than=0), event, policy)
        return after._replace(newer_than=state.newer_than), command
    return flight.decide(state, event, policy)


def _invalidate_that_keeps_the_failure(entry: Entry, **given: Any) -> Any:
    after, fence, messages = scripts.invalidate(entry, **given)
    return replace(after, failure=entry.failure), fence, messages


def _acquire_with_any_failure(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    if entry.failure is not None and entry.value is None:
        return entry, FailedRecently(entry.failure.body, entry.failure.token)
    return scripts.acquire(entry, ask, **given)


# --- early refreshes ------------------------------------------------------------------------------


def _decide_to_wait_unwanted(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, StoreAnswered) and isinstance(event.answer, Held):
        event = event._replace(aboard=WANTED)
    return flight.decide(state, event, policy)


def _decide_to_compute_unwanted(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, StoreFailed):
        event = event._replace(aboard=WANTED)
    return flight.decide(state, event, policy)


def _acquire_that_takes_nothing_for_newer(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    return scripts.acquire(entry, replace(ask, newer_than=ENDLESS if ask.newer_than else 0), **given)


def _acquire_that_takes_any_value(entry: Entry, ask: scripts.Ask, **given: Any) -> Any:
    return scripts.acquire(entry, replace(ask, newer_than=0), **given)


def _only(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


def _mutation(finds: str, setup: Setup, **core: Callable[..., Any] | bool) -> Mutation:
    return Mutation(Core(**core), setup, finds)  # type: ignore[arg-type]


ONE_INVALIDATION = Setup(invalidations=1)

MUTATIONS = {
    "no epoch check": _mutation(
        "before an invalidation",
        Setup(placement=(0, 1), faults=1, kinds=_only("restart"), invalidations=1, clock_goes_on=False),
        publish=_publish_without_epoch,
    ),
    "record created late": _mutation(
        "before an invalidation",
        Setup(faults=1, kinds=_only("evict_record"), invalidations=1),
        acquire=_acquire_without_record,
        publish=_publish_with_late_record,
    ),
    "no last: the clock alone": _mutation(
        "was issued",
        ONE_INVALIDATION,
        acquire=_acquire_with_clock_only,
        invalidate=_invalidate_with_clock_only,
    ),
    "invalidation without + 1": _mutation(
        "was issued before", ONE_INVALIDATION, invalidate=_invalidate_without_step
    ),
    "fence not raised by publish": _mutation(
        "stored token", Setup(faults=2, kinds=_only("lapse", "evict_value")), publish=_publish_without_fence
    ),
    "another token for the same flight": _mutation(
        "another token", Setup(faults=1, kinds=_only("lose")), acquire=_acquire_with_another_token
    ),
    "unconfirmed inbox named": _mutation(
        "too many",
        Setup(subscribed=False),
        acquire=_acquire_that_believes_the_asker,
        names_unconfirmed_inbox=True,
    ),
    "the script believes the asker": _mutation(
        "too many",
        Setup(callers=3, faults=1, kinds=_only("restart")),
        acquire=_acquire_that_believes_the_asker,
    ),
    "release by anybody": _mutation(
        "too many",
        Setup(
            callers=3,
            placement=(0, 1, 0),
            faults=1,
            kinds=_only("lose"),
            events=1,
            event_kinds=_only("cancel"),
        ),
        release=_release_by_anybody,
    ),
    "renewal that creates": _mutation(
        "leave a lease behind", Setup(invalidations=1, renewals=True), renew=_renew_that_creates
    ),
    "refused publish keeps the lease": _mutation(
        "leave a lease behind", ONE_INVALIDATION, publish=_publish_that_keeps_a_refused_lease
    ),
    "publish takes anybody's lease": _mutation(
        "somebody else's lease",
        Setup(faults=1, kinds=_only("lapse")),
        publish=_publish_that_keeps_the_lease_of_any,
    ),
    "invalidation takes the lease": _mutation(
        "took away a lease", ONE_INVALIDATION, invalidate=_invalidate_that_takes_the_lease
    ),
    "refused publish wakes nobody": _mutation(
        "waits for a timer", ONE_INVALIDATION, publish=_publish_that_wakes_nobody_when_refused
    ),
    "waiter not registered": _mutation(
        "waits for a timer", Setup(), acquire=_acquire_that_forgets_the_waiter
    ),
    "re-read removed": _mutation("too many", Setup(), acquire=_acquire_without_reading_again),
    "waiter does not ask again": _mutation(
        "waits for a timer", ONE_INVALIDATION, decide=_decide_without_asking_again
    ),
    "lost wake-up and no poll": _mutation(
        "waits for ever", Setup(faults=1, kinds=_only("evict_waiters")), decide=_decide_without_a_poll
    ),
    "message not held against the fence": _mutation(
        "was served version",
        Setup(callers=4, placement=(0, 1, 1, 0), invalidations=1),
        decide=_decide_without_the_fence,
    ),
    "flight not closed on send": _mutation("was served version", ONE_INVALIDATION, everyone_is_covered=True),
    "refused value handed to all covered": _mutation(
        "was served version", ONE_INVALIDATION, decide=_decide_to_hand_out_what_was_refused
    ),
    "stored value handed to late passengers although an invalidation is pending": _mutation(
        "was served version", Setup(pending=1), decide=_decide_to_believe_the_store_alone
    ),
    "value computed without the store handed to late passengers": _mutation(
        "was served version",
        Setup(pending=1),
        decide=_decide_to_serve_everyone_without_the_store,
        pending_counts_as_away=True,
    ),
    "an entry whose invalidation is pending counts as away": _mutation(
        "was served version", Setup(pending=1, invalidations=1), pending_counts_as_away=True
    ),
    "late passengers forgotten": _mutation(
        "left passengers behind", Setup(), decide=_decide_to_forget_who_is_left
    ),
    "refresh hears what it is to replace": _mutation(
        "was to replace",
        Setup(callers=3, placement=(0, 1, 1), refreshes=2),
        decide=_decide_to_hear_what_it_replaces,
    ),
    "early refresh waits for the holder": _mutation(
        "waits for a holder", Setup(draws=2), decide=_decide_to_wait_unwanted
    ),
    "early refresh ignores what it is to replace": _mutation(
        "was to replace", Setup(draws=2), acquire=_acquire_that_takes_any_value
    ),
    "early refresh takes nothing that is there": _mutation(
        "too many", Setup(draws=2), acquire=_acquire_that_takes_nothing_for_newer
    ),
    "early refresh computes without a lease": _mutation(
        "without a lease",
        Setup(callers=1, draws=1, faults=2, kinds=_only("lose")),
        decide=_decide_to_compute_unwanted,
    ),
    "invalidation keeps the failure": _mutation(
        "was served version",
        Setup(events=1, event_kinds=_only("fail"), invalidations=1),
        acquire=_acquire_with_any_failure,
        invalidate=_invalidate_that_keeps_the_failure,
    ),
}
MUTATIONS |= {
    name: Mutation(core, setup, finds)
    for name, (finds, setup, core) in (UNCACHEABLE | CLOCK | FLIGHT | PUTS).items()
}
