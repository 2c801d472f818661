"""What is explored: QUICK in every run of the tests, DEEP (hours and gigabytes) with STAMPEDE_SEARCH=deep."""

from __future__ import annotations

from stampede_guard.policy import Policy
from tests.core.world import Setup

QUICK = (
    Setup(callers=4),
    Setup(callers=3, processes=3),
    Setup(faults=2),
    Setup(callers=3, faults=1),
    Setup(faults=1, invalidations=1),
    Setup(callers=3, invalidations=1),
    Setup(callers=4, placement=(0, 1, 1, 0), invalidations=1),
    Setup(invalidations=2),
    Setup(callers=3, pending=1),
    Setup(pending=1, timed=True),
    Setup(demands=1),
    Setup(callers=1, demands=1, invalidations=1),
    Setup(callers=2, patients=1, stale_at_start=True),
    Setup(callers=1, demands=2),
    Setup(callers=3, bypassed=True),
    Setup(faults=1, kinds=frozenset({"lose"}), timed=True),
    Setup(pending=1, invalidations=1),
    Setup(pending=1, refreshes=1),
    Setup(pending=1, draws=1),
    Setup(pending=1, events=1),
    Setup(callers=3, subscribed=False),
    Setup(subscribed=False, renewals=True, invalidations=1),
    Setup(subscribed=False, renewals=True, faults=1, kinds=frozenset({"crash", "gap", "restart"})),
    Setup(callers=3, events=1),
    Setup(events=2, invalidations=1),
    Setup(faults=1, events=1),
    Setup(events=1, invalidations=1, policy=Policy(ttl=1000.0, error_ttl=0.0, inline_bytes=0)),
    Setup(refreshes=1, invalidations=1),
    Setup(callers=3, placement=(0, 1, 1), refreshes=2),
    Setup(draws=2),
    Setup(callers=1, draws=3),
    Setup(callers=1, draws=2, invalidations=1),
    Setup(draws=1, faults=1, kinds=frozenset({"crash", "lapse", "evict_value", "lose"})),
    Setup(draws=2, events=1, event_kinds=frozenset({"fail", "fail_private", "unstorable"})),
    Setup(stale_at_start=True, faults=1),
    Setup(stale_at_start=True, invalidations=1, refreshes=1),
    Setup(listening_known=False, faults=1),
    Setup(faults=1, kinds=frozenset({"clock"}), invalidations=1),
    Setup(faults=2, kinds=frozenset({"clock", "crash"}), listening_known=False),
    Setup(faults=1, kinds=frozenset({"clock"}), events=1),
    Setup(placement=(0, 1), faults=1, kinds=frozenset({"restart"}), invalidations=1, clock_goes_on=False),
)

ONE_AT_A_TIME = Policy(ttl=1000.0, error_ttl=1000.0, uncacheable_limit=1)
UNSTORABLE = frozenset({"unstorable"})
NOT_CACHEABLE = (
    Setup(callers=3, processes=3, events=1, event_kinds=UNSTORABLE),
    Setup(callers=3, processes=3, events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
    Setup(callers=3, events=2, event_kinds=frozenset({"unstorable", "fail_private"}), policy=ONE_AT_A_TIME),
    Setup(events=2, invalidations=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
    Setup(
        events=1,
        event_kinds=UNSTORABLE,
        faults=1,
        kinds=frozenset({"crash", "lose", "lapse", "restart", "evict_record"}),
        policy=ONE_AT_A_TIME,
    ),
    Setup(stale_at_start=True, refreshes=1, events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
    Setup(
        events=1,
        event_kinds=UNSTORABLE,
        faults=2,
        kinds=frozenset({"crash", "clock"}),
        policy=ONE_AT_A_TIME,
    ),
)
QUICK += NOT_CACHEABLE

DEEP = (
    Setup(draws=2, invalidations=1),
    Setup(draws=2, faults=1),
    Setup(processes=3, draws=3),
    Setup(callers=4, events=2, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
    Setup(callers=3, events=1, event_kinds=UNSTORABLE, faults=1, policy=ONE_AT_A_TIME),
    Setup(callers=3, events=2, event_kinds=UNSTORABLE, invalidations=1, policy=ONE_AT_A_TIME),
    Setup(faults=1, refreshes=1),
    Setup(callers=3, subscribed=False, invalidations=1),
    Setup(callers=3, invalidations=1, refreshes=1),
    Setup(callers=3, processes=3, faults=1),
    Setup(callers=4, invalidations=1),
    Setup(callers=4, faults=1),
    Setup(callers=3, faults=1, renewals=True),
    Setup(callers=3, faults=1, invalidations=1),
    Setup(faults=2, kinds=frozenset({"clock", "lapse"}), invalidations=1),
    Setup(faults=2, events=1),
    Setup(faults=2, invalidations=1),
    Setup(callers=3, faults=2),
)
