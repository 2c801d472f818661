"""The laws that every fuzzed fleet keeps. Each takes what happened, and yields what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from stampede_guard.errors import ComputeFailed, ComputeTimeout, Overloaded, WaitTimeout
from tests.engine.fuzz.computations import Computations
from tests.engine.fuzz.journal import Call, Change, Computation
from tests.engine.fuzz.network import DEADLINE

__all__ = ["Judge"]


class Judge(Computations):
    def violations(self) -> Iterator[str]:
        yield from self.journal.problems
        for call in self.journal.calls:
            if call.kind in ("plain", "nothing"):
                yield from self.plain_calls(call)
                continue
            yield from self.own_errors(call)
            yield from self.useless_time_outs(call)
            yield from self.old_values(call)
            yield from self.old_errors(call)
            yield from self.long_waits(call)
            yield from self.idle_waits(call)
            if call.kind in ("refresh", "write and refresh"):
                yield from self.refreshed(call)
        yield from self.denials()
        yield from self.beside_each_other()
        yield from self.granted()
        yield from self.bypassed()
        yield from self.late_writes()
        yield from self.bound_computations()

    def plain_calls(self, call: Call) -> Iterator[str]:
        """In a mode without the store, each caller gets what its own call has made."""
        made = self.journal.computations.get(call.made)
        if call.kind == "nothing":
            if made is not None:
                yield f"call {call.index} gets #{call.made} in a mode that does not serve stored values"
        elif made is not None and not call.group and made.call != call.index:
            yield f"call {call.index} gets #{call.made} of call {made.call} in a mode without the store"
        elif made is None and not isinstance(call.error, asyncio.CancelledError) and not call.absent:
            yield f"call {call.index} gets {call.error!r} in a mode without the store"

    # --- what callers get --------------------------------------------------------------------------

    def own_errors(self, call: Call) -> Iterator[str]:
        error, waited = call.error, call.ended.time - call.began.time
        closing = any(
            label == call.guard and began <= call.ended and call.began <= ended
            for began, ended, label in self.journal.closings
        )
        match error:
            case None:
                return
            case asyncio.CancelledError() if (
                call.cancelled and self.case.actions[call.index].after is not None
            ):
                return
            case asyncio.CancelledError() if self.case.actions[call.index].outcome == "cancelled":
                return  # `single` cancels its own block
            case Overloaded():
                if (
                    not closing
                    and self.case.least_of("max_passengers", call.key) > 2
                    and not self.waited_for_a_turn(call)
                ):
                    yield f"call {call.index} is refused: {error}"
            case WaitTimeout():
                if not closing and waited < call.policy.wait_timeout - 1e-6:
                    yield f"call {call.index} times out after {waited:.3f} s: {error}"
                yield from self.unexplained(call, closing)
            case ComputeTimeout() if call.group and not self.kind[call.key]:
                return  # a batch that waits for its turn without the store has no more time
            case ComputeTimeout():
                # A batch waits a moment for other ids before it begins, and its ids time out together.
                gathers = 0.1 if call.group else 0.0
                if not any(
                    (each.key == call.key or call.group)
                    and each.ended.time - each.began.time
                    >= self.case.least_of("compute_timeout", call.key) - gathers - 1e-3
                    for each in self.journal.computations.values()
                ):
                    yield f"call {call.index}: {error}, and no computation took so long"
            case ComputeFailed(type_name="Abandoned"):
                if not any(other.bound and other.key == call.key for other in self.journal.calls):
                    yield f"call {call.index}: {error!r}"
            case ComputeFailed(type_name="CancelledError"):
                if not any(each.outcome == "cancelled" for each in self.journal.computations.values()):
                    yield f"call {call.index}: {error!r}"
            case ComputeFailed(type_name="SystemExit") | SystemExit():
                if not any(each.outcome == "exit" for each in self.journal.computations.values()):
                    yield f"call {call.index}: {error!r}"
            case _ if call.made:
                return
            case _:
                yield f"call {call.index} gets {error!r}"

    def waited_for_a_turn(self, call: Call) -> bool:
        """Its flight waits as long as the policy says, for all who join it."""
        return any(
            other.key == call.key
            and other.guard == call.guard
            and other.began <= call.began
            and call.ended.time - other.began.time >= other.policy.wait_timeout - 1e-6
            for other in self.journal.calls
        )

    def unexplained(self, call: Call, closing: bool) -> Iterator[str]:
        """A time-out needs a reason: no fallback is allowed, or one was denied, failed or unanswered."""
        journal = self.journal
        if (
            closing
            or not call.policy.fallback_limit
            or call.kind in ("bypass", "plain")
            or not self.case.hooks
        ):
            return
        began, ended = call.began.time, call.ended.time
        if journal.failed_between(call.guard, call.key, began - 5.0, ended) or journal.was_away(
            call.guard, call.key, call.began, call.ended
        ):
            return
        if any(label == call.guard and began <= moment.time <= ended for moment, label, _ in journal.denials):
            return
        if call.error is not None and "the fallback" in str(call.error):
            return
        if call.kind in ("refresh", "write and refresh") and "no fallback gave one" in str(call.error):
            return  # it waits for the flight before
        others = [
            each
            for each in journal.computations.values()
            if each.key == call.key
            and each.guard == call.guard
            and each.ended.time >= began + call.policy.wait_timeout
        ]
        if len(others) < 1:
            yield f"call {call.index} gives up without a fallback: {call.error}"

    def useless_time_outs(self, call: Call) -> Iterator[str]:
        """Nobody times out while a fresh value that came after it is in the store."""
        if not self.kind[call.key] or call.kind != "get" or not isinstance(call.error, WaitTimeout):
            return
        if isinstance(call.error, Overloaded) or not self.case.calm or len(call.group) > 1:
            return
        for moment, name, _, number in self.journal.publications:
            made, ended = self.journal.computations[number], call.ended.time
            if (
                name != self.journal.entries[call.key]
                or moment < call.began
                or moment.time > ended - 3 * self.trips[call.key] - 0.01
            ):
                continue
            if moment.time + self.case.least_of("ttl", call.key) < ended + 0.01:
                continue
            if not any(
                change.key == call.key and change.ended > made.began and change.began < call.ended
                for change in self.journal.changes
            ):
                yield f"call {call.index} times out after #{number} was stored: {call.error}"
                return

    def old_values(self, call: Call) -> Iterator[str]:
        made = self.journal.computations.get(call.made)
        if made is None or (call.error is not None and len(call.group) > 1):
            return  # of a batch that failed it is not known for which id
        if made.key != call.key:
            yield f"call {call.index} of {call.key} gets a value of {made.key}"
        away = self.journal.was_away(call.guard, call.key, call.began, call.ended)
        bypass = call.kind in ("bypass", "plain")
        for change in self.journal.changes:
            if change.key != call.key or change.ended > call.began or made.version >= change.version:
                continue
            if made.kind == "set" and change.began < made.ended and made.began < change.ended:
                continue  # They overlap, and the store decides which of them is newer.
            if change.kind == "invalidate_tag" and call.error is not None:
                continue  # An error is remembered for `error_ttl`.
            if call.error is not None and self.journal.was_away(made.guard, made.key, made.began, made.ended):
                continue  # An error of what was computed without the store goes to all who wait for it.
            if self.counts(change, call, away=away or bypass):
                yield (
                    f"call {call.index} of {call.guard} gets version {made.version} (#{made.number}) after "
                    f"{change.kind} of {change.version} by {change.guard}: {change.answer}"
                )
                return
        if away or bypass or call.error is not None:
            return
        token = self.journal.tokens.get(call.made)
        for moment, name, newer, number in self.journal.publications:
            if name != self.journal.entries[call.key] or token is None or newer <= token:
                continue
            if (
                moment.time
                + (self.case.most_of("l1_ttl", call.key) + self.message if call.policy.l1_ttl else 0.0)
                < call.began.time
            ):
                yield f"call {call.index} gets #{call.made} (token {token}) after #{number} ({newer}) was stored"
                return

    def counts(self, change: Change, call: Call, *, away: bool) -> bool:
        if not change.answer:
            return False
        if change.guard == call.guard:
            closed = any(
                label == call.guard and change.began <= ended and began <= call.ended
                for began, ended, label in self.journal.closings
            )
            return not closed or (change.answer != "pending" and not away)
        if change.answer == "pending" or away:
            return False
        keeps = self.case.most_of("l1_ttl", call.key) + self.message if call.policy.l1_ttl else 0.0
        return call.began.time > change.ended.time + keeps or not keeps

    def refreshed(self, call: Call) -> Iterator[str]:
        made = self.journal.computations.get(call.made)
        if made is None or call.error is not None:
            return
        if any(other.began >= call.began for other in self.journal.unchanged.get(made.number, ())):
            return
        if (made.ended if made.kind == "set" else made.began) < call.began:
            yield f"refresh {call.index} gets #{made.number}, whose computation began before it"

    # --- how long they wait ------------------------------------------------------------------------

    def long_waits(self, call: Call) -> Iterator[str]:
        policy, waited = call.policy, call.ended.time - call.began.time
        most = (
            policy.wait_timeout
            + 2 * self.case.most_of("fallback_timeout", call.key)
            + self.case.most_of("compute_timeout", call.key)
            + 3.0
            + 12 * self.trips[call.key]
        )
        if waited > most and call.kind != "single":
            yield f"call {call.index} waits for {waited:.2f} s, and may for {most:.2f} s"

    def idle_waits(self, call: Call) -> Iterator[str]:
        """Nobody waits while nobody computes; but for a message, a poll, or a few answers of the store."""
        if self.case.keys[call.key].uncacheable and any(
            each.key == call.key and self.has_failed(each) for each in self.journal.computations.values()
        ):
            return  # a fallback that failed, or whose value was refused, keeps its place for a time
        most = (
            self.case.most_of("poll_interval", call.key) + 8 * self.trips[call.key] + 2 * self.message + 0.1
        )
        if not self.kind[call.key]:
            most += 2 * self.case.most_of("lease_ttl", call.key) + 4.0
        if not self.case.calm:
            most += self.case.most_of("lease_ttl", call.key) + 2.0
        at = call.began.time
        for made in sorted(self.journal.computations.values(), key=lambda each: each.began):
            if made.key not in (call.group or (call.key,)) or made.kind == "set":
                continue
            if made.ended.time < at:
                continue
            if made.began.time > call.ended.time:
                break
            if made.began.time - at > most:
                yield f"call {call.index} waits from {at - 1_000:.3f} to {made.began.time - 1_000:.3f} for nothing"
                return
            at = made.ended.time
        if call.ended.time - at > most:
            yield f"call {call.index} waits from {at - 1_000:.3f} to {call.ended.time - 1_000:.3f} for nothing"

    def has_failed(self, made: Computation) -> bool:
        """Also by its time, or because its value came too late. Not if only its caller has left."""
        if made.number in self.journal.refusals:
            return True
        if made.outcome != "cancelled":
            return made.outcome != "value"
        seconds = made.ended.time - made.began.time + 1e-3
        shortest = min(self.case.least_of(each, made.key) for each in ("fallback_timeout", "compute_timeout"))
        return seconds >= shortest or self.case.actions[made.call].outcome == "cancelled"

    def denials(self) -> Iterator[str]:
        """Whoever is denied a fallback was denied it by the store, or another one runs in the process."""
        journal = self.journal
        keys = {entry: key for key, entry in journal.entries.items()}
        for moment, guard, name in journal.fallbacks:
            key, near = keys[name], moment.time - 2 * self.trips[keys[name]]
            if any(label == guard and near <= when.time <= moment.time for when, label, _ in journal.denials):
                continue
            if journal.failed_between(guard, key, near - DEADLINE, moment.time):
                continue
            if journal.was_away(guard, key, moment, moment) or any(
                label == guard for _, _, label in journal.closings
            ):
                continue
            yield f"{guard} is denied a fallback of {name} by nobody at {moment.time - 1_000:.3f}"

    def old_errors(self, call: Call) -> Iterator[str]:
        """An error is remembered for `error_ttl`, and not longer."""
        made = self.journal.computations.get(call.made)
        if made is None or call.error is None:
            return
        most = self.case.most_of("error_ttl", call.key) + 2 * self.trips[call.key] + self.message + 0.1
        if made.ended.time + most < call.began.time:
            yield f"call {call.index} gets the error of #{made.number}, which is too old: {call.error!r}"
