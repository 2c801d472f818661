"""The judge: what was promised, held against what was seen. Pure, and without a line of the library in it.

| rule | promise |
|---|---|
| `theirs` | a caller gets a value (or a failure) of its own key and of no other |
| `old` | after an invalidation answered "done" no call that begins later gets an older version |
| `own` | the same in the process that invalidated, also after "pending" |
| `pending` | a pending invalidation is applied soon after the store is back |
| `refreshed` | after `refresh()` returned, its process serves nothing older |
| `beside` | no two computations of one key run at once, unless a fault explains it |
| `again` | nothing is computed while a fresh value is there, unless a fault or an invalidation explains it |
| `ended` | every call ends, within the longest time that it may wait |
| `errors` | no call fails otherwise than its source, or by a time-out that a fault explains |

Exempt, as the README says: copies in the process for `tolerates` seconds, and service while the store is away.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.soak.journal import Call, Computation, Event, Fault, Invalidation, Lifetime

__all__ = ["Judge", "Violation", "judge"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` of the table above, and what shows it."""

    rule: str
    text: str
    events: tuple[Event, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.rule}: {self.text}", *(f"    {event}" for event in self.events)])


@dataclass(frozen=True, slots=True)
class Judge:
    """`settle`: seconds after a fault for which it still explains something; `longest`: of a call, in seconds.

    `moment`: seconds by which what two processes wrote down may be apart from what they did.
    """

    settle: float = 3.0
    longest: float = 30.0
    moment: float = 0.1

    def violations(self, events: Iterable[Event]) -> Iterator[Violation]:
        seen = _Seen(events, self)
        yield from seen.theirs()
        yield from seen.old()
        yield from seen.refreshed()
        yield from seen.computations_beside_each_other()
        yield from seen.computed_again()
        yield from seen.calls_that_do_not_end()
        yield from seen.errors()


def judge(events: Iterable[Event], **limits: float) -> list[Violation]:
    return list(Judge(**limits).violations(events))


class _Seen:
    def __init__(self, events: Iterable[Event], limits: Judge) -> None:
        self.limits = limits
        self.calls: list[Call] = []
        self.computations: dict[str, list[Computation]] = defaultdict(list)
        self.invalidations: dict[str, list[tuple[int, Invalidation]]] = defaultdict(list)
        self.faults: list[Fault] = []
        self.killed: dict[str, float] = {}
        for event in events:
            match event:
                case Call():
                    self.calls.append(event)
                case Computation():
                    self.computations[event.key].append(event)
                case Invalidation():
                    for key, version in zip(event.keys, event.versions, strict=True):
                        self.invalidations[key].append((version, event))
                case Fault():
                    self.faults.append(event)
                case Lifetime():
                    if not event.clean:
                        self.killed[event.process] = event.ended
        self.calls.sort(key=lambda call: call.began)
        for computations in self.computations.values():
            computations.sort(key=lambda computation: computation.began)
        self.by_key: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            self.by_key[call.key].append(call)

    # --- faults ------------------------------------------------------------------------------------

    def fault_between(self, began: float, ended: float, *processes: str) -> bool:
        """Whether any fault, with the time in which it settles, touches this time and one of these processes."""
        return self._any(
            self.faults,
            began,
            ended,
            lambda fault: not fault.process or not processes or fault.process in processes,
        )

    def away_between(self, began: float, ended: float) -> bool:
        return self._any(self.faults, began, ended, lambda fault: fault.away)

    def _any(
        self, faults: Sequence[Fault], began: float, ended: float, counts: Callable[[Fault], bool]
    ) -> bool:
        settle = self.limits.settle
        return any(
            fault.began - self.limits.moment <= ended and began <= fault.ended + settle and counts(fault)
            for fault in faults
        )

    # --- what is served ----------------------------------------------------------------------------

    def theirs(self) -> Iterator[Violation]:
        for call in self.calls:
            if call.outcome in ("value", "source failed") and call.found_key != call.key:
                yield Violation("theirs", f"a caller of {call.key} got what is {call.found_key}'s", (call,))

    def old(self) -> Iterator[Violation]:
        for key, invalidations in self.invalidations.items():
            calls = [call for call in self.by_key[key] if call.outcome == "value"]
            starts = [call.began for call in calls]
            for version, invalidation in invalidations:
                if invalidation.answer in ("done", "pending"):
                    first = bisect.bisect_right(starts, invalidation.ended)
                    yield from self._older(version, invalidation, calls[first:])

    def _older(self, version: int, invalidation: Invalidation, calls: Iterable[Call]) -> Iterator[Violation]:
        """The first call that shows it: one violation of an invalidation says it all."""
        for call in calls:
            if call.version >= version:
                continue
            rule = self._broken(invalidation, call)
            if rule:
                text = f"version {call.version} of {call.key} after {version} was invalidated"
                yield Violation(rule, text, (invalidation, call))
                return

    def _broken(self, invalidation: Invalidation, call: Call) -> str:
        """The rule that forbids this call, which began later, its older value; empty if there is none."""
        if call.process == invalidation.process:
            return "own"  # whatever happens to the store
        if self.away_between(call.began, call.ended) or call.began <= invalidation.ended + call.tolerates:
            return ""
        if invalidation.answer == "done":
            return "old"
        return "pending" if self._applied_by(invalidation, call.began) else ""

    def _applied_by(self, invalidation: Invalidation, moment: float) -> bool:
        """Whether a pending invalidation must have been applied: its process lived, and no fault hindered it."""
        ended = self.killed.get(invalidation.process)
        if ended is not None and ended <= moment:
            return False
        return moment > invalidation.ended + self.limits.settle and not self.fault_between(
            moment - self.limits.settle, moment
        )

    def refreshed(self) -> Iterator[Violation]:
        for key, calls in self.by_key.items():
            served = [call for call in calls if call.outcome == "value"]
            for refresh in served:
                if refresh.kind != "refresh" or self.fault_between(refresh.began, refresh.ended):
                    continue
                for call in served:
                    later = call.process == refresh.process and call.began > refresh.ended
                    if later and call.version < refresh.version:
                        if self.fault_between(refresh.began, call.ended):
                            break
                        text = f"version {call.version} of {key} after a refresh returned {refresh.version}"
                        yield Violation("refreshed", text, (refresh, call))
                        break

    # --- what is computed --------------------------------------------------------------------------

    def computations_beside_each_other(self) -> Iterator[Violation]:
        for key, found in self.computations.items():
            running: list[Computation] = []
            for computation in (each for each in found if each.judged):
                running = [other for other in running if self._end_of(other) > computation.began]
                for other in running:
                    if not self.fault_between(
                        other.began, computation.began, other.process, computation.process
                    ):
                        yield Violation("beside", f"two computations of {key} at once", (other, computation))
                running.append(computation)

    def _end_of(self, computation: Computation) -> float:
        return min(computation.ended, self.killed.get(computation.process, computation.ended))

    def computed_again(self) -> Iterator[Violation]:
        for key, found in self.computations.items():
            judged = [each for each in found if each.judged and each.ended < float("inf")]
            for one, other in itertools.pairwise(judged):
                if one.failed or other.began < one.ended:
                    continue
                if other.began > one.ended + one.fresh_for - self.limits.moment:
                    continue
                if not self._explained(key, one, other):
                    yield Violation("again", f"{key} was computed while it was fresh", (one, other))

    def _explained(self, key: str, one: Computation, other: Computation) -> bool:
        if self.fault_between(one.began, other.began, one.process, other.process):
            return True
        asked = any(
            invalidation.ended >= one.began - self.limits.settle and invalidation.began <= other.began
            for _, invalidation in self.invalidations[key]
        )
        return asked or any(
            call.kind == "refresh" and call.began <= other.began and call.ended >= one.began
            for call in self.by_key[key]
        )

    # --- how calls end -----------------------------------------------------------------------------

    def calls_that_do_not_end(self) -> Iterator[Violation]:
        for call in self.calls:
            took = call.ended - call.began
            if took <= self.limits.longest or call.process in self.killed:
                continue
            text = "never ended" if call.outcome == "unfinished" else f"took {took:.1f} s"
            yield Violation("ended", f"a call of {call.key} {text}", (call,))

    def errors(self) -> Iterator[Violation]:
        for call in self.calls:
            if call.outcome == "other error":
                yield Violation("errors", f"a caller of {call.key} got {call.error}", (call,))
            elif call.outcome in ("timed out", "refused") and not self.fault_between(call.began, call.ended):
                yield Violation("errors", f"{call.outcome} for no reason: {call.error}", (call,))
