"""The rules for values that no computation made, each left out: see `tests.core.mutations`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampede_guard.core import flight, scripts
from stampede_guard.core.asks import Found, Publication
from stampede_guard.core.entry import Entry
from stampede_guard.core.events import StoreAnswered
from stampede_guard.core.states import FlightState
from tests.core.steps import Core
from tests.core.world import Setup


def _stamp_that_issues_a_token_twice(entry: Entry, **given: Any) -> Any:
    after, granted = scripts.stamp(entry, **given)
    record = entry.record if entry.record is not None else after.record
    return replace(after, record=record), granted


def _stamp_without_record(entry: Entry, **given: Any) -> Any:
    after, granted = scripts.stamp(entry, **given)
    return (replace(after, record=None) if entry.record is None else after), granted


def _stamp_with_clock_only(entry: Entry, *, now_us: int, **given: Any) -> Any:
    after, granted = scripts.stamp(entry, now_us=now_us, **given)
    return after, replace(granted, token=now_us)


def _stamp_that_takes_the_lease(entry: Entry, **given: Any) -> Any:
    after, granted = scripts.stamp(entry, **given)
    return replace(after, lease=None), granted


def _publish_with_a_token_of_its_own(entry: Entry, publication: Publication, **given: Any) -> Any:
    """A value that takes its token only when it is stored, in one step."""
    if publication.flight == "put" and entry.record is not None:
        publication = replace(publication, token=entry.record.last + 1, epoch=entry.record.epoch)
    return scripts.publish(entry, publication, **given)


def _decide_to_overtake_once(state: FlightState, event: Any, policy: Any) -> Any:
    after, command = flight.decide(state, event, policy)
    found = isinstance(event, StoreAnswered) and isinstance(event.answer, Found)
    return (after._replace(overtakes=False) if found else after), command


PUTS = {
    "a stamp issues a token twice": (
        "was issued after",
        Setup(callers=1, puts=2),
        Core(stamp=_stamp_that_issues_a_token_twice),
    ),
    "a stamp makes no record": (
        "although nothing newer",
        Setup(callers=0, puts=1),
        Core(stamp=_stamp_without_record),
    ),
    "a stamp of the clock alone": (
        "was issued after",
        Setup(callers=1, puts=1),
        Core(stamp=_stamp_with_clock_only),
    ),
    "a stamp takes the lease": (
        "changed more than the record",
        Setup(callers=1, puts=1),
        Core(stamp=_stamp_that_takes_the_lease),
    ),
    "a value takes its token when it is stored": (
        "older than the fence",
        Setup(callers=1, puts=1, invalidations=1),
        Core(publish=_publish_with_a_token_of_its_own),
    ),
    "refresh() takes what was on its way before it": (
        "was served version",
        Setup(callers=1, puts=1, demands=1),
        Core(decide=_decide_to_overtake_once),
    ),
}
