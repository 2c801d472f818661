"""The laws about computations: how many there are at once, with whose permission, and what they may store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.engine.fuzz.case import Case
from tests.engine.fuzz.journal import Computation, Journal
from tests.engine.fuzz.network import DEADLINE

__all__ = ["Computations"]


class Computations:
    """A part of the judge."""

    def __init__(self, case: Case, journal: Journal) -> None:
        self.case = case
        self.journal = journal
        weather = case.weather
        way = max(weather.usual, weather.slow if weather.slowness else 0.0) + weather.grid
        self.kind = {key: weather.is_kind(nodes) for key, nodes in journal.nodes.items()}
        """Whether each command about this key is answered in time."""
        self.trips = {key: min(2 * way, DEADLINE) if kind else DEADLINE for key, kind in self.kind.items()}
        """The longest time of a command about this key."""
        self.message = way

    def beside_each_other(self) -> Iterator[str]:
        """One with the lease, and beside it at most as many as the limits allow: at every moment."""
        case = self.case
        if self.journal.closings:
            return
        for name, key in case.keys.items():
            if not self.kind[name] or self.trips[name] > case.least_of("lease_ttl", name) / 3:
                continue
            timed = key.fields["compute_timeout"] < 60.0
            if key.many and (timed or key.uncacheable or case.most_of("fallback_limit", name)):
                # A batch computes on for its other ids when the place of one has ended.
                continue
            most = 1 + case.most_of("fallback_limit", name)
            if key.uncacheable:
                most = 1 + max(most - 1, case.most_of("uncacheable_limit", name))
            running: list[Computation] = []
            for made in self.with_the_store(name):
                running = [each for each in running if each.ended > made.began]
                running.append(made)
                if len(running) > most:
                    numbers = [each.number for each in running]
                    yield f"{len(running)} computations of {name} at once, and {most} may: {numbers}"
                    return

    def bypassed(self) -> Iterator[str]:
        """In mode `bypass`, one computation of a key at a time in each event loop."""
        for name, key in self.case.keys.items():
            if key.uncacheable or key.many:
                continue
            made = [
                ((each.guard, self.case.actions[each.call].loop), each)
                for each in self.journal.computations.values()
                if each.key == name and each.kind == "bypass" and not self.was_closed(each.guard)
            ]
            # A block goes on when its time is over.
            longest = self.case.least_of("compute_timeout", name)
            for (here, one), (there, other) in itertools.combinations(made, 2):
                ends = min(one.ended.time, one.began.time + longest)
                if here == there and one.began < other.began and other.began.time < ends - 1e-6:
                    yield f"{one.guard} computes #{one.number} and #{other.number} of {name} at once in mode bypass"
                    return

    def was_closed(self, guard: str) -> bool:
        return any(label == guard for _, _, label in self.journal.closings)

    def with_the_store(self, key: str) -> list[Computation]:
        beside = ("set", "bypass", "plain", "single")
        found = [
            each for each in self.journal.computations.values() if each.key == key and each.kind not in beside
        ]
        return sorted(found, key=lambda each: each.began)

    def granted(self) -> Iterator[str]:
        """While the store is there, nobody computes without a grant. What is handed over has that of its flight."""
        if not self.case.calm:
            return
        for name in filter(self.kind.get, self.case.keys):
            made = [each for each in self.with_the_store(name) if each.outcome not in ("exit", "cancelled")]
            entry = self.journal.entries[name]
            grants = {token for _, of, token in self.journal.grants if of == entry}
            if len(made) > len(grants):
                yield f"{len(made)} computations of {name} and {len(grants)} grants"

    def late_writes(self) -> Iterator[str]:
        """What began before an invalidation is not stored after it, whoever has lost the lease meanwhile."""
        for moment, entry, _, number in self.journal.publications:
            made = self.journal.computations[number]
            if entry != self.journal.entries[made.key]:
                continue
            for change in self.journal.changes:
                if (
                    change.kind == "invalidate"
                    and change.answer == "done"
                    and change.key == made.key
                    and change.ended < moment
                    and made.version < change.version
                    and not (made.kind == "set" and made.ended > change.began)
                ):
                    yield f"#{number} of version {made.version} is stored after the invalidation of {change.version}"
                    return

    def bound_computations(self) -> Iterator[str]:
        """The objects of a request serve one computation at a time, and none after the request."""
        for call in self.journal.calls:
            if not call.bound or call.kind == "single":
                continue
            mine = sorted(
                (each for each in self.journal.computations.values() if each.call == call.index),
                key=lambda each: each.began,
            )
            for one, other in itertools.pairwise(mine):
                if other.began < one.ended:
                    yield f"the request of call {call.index} serves #{one.number} and #{other.number} at once"
            for each in mine:
                if each.ended > call.ended:
                    yield f"the request of call {call.index} serves #{each.number} after its end"
