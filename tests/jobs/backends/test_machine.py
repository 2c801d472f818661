"""Redis and PostgreSQL at once against the pure rules, which memory runs: slots and runs, in whatever order.

Time passes in multiples of 5 s, and every deadline and slot lies 2.5 s beside them, so that the milliseconds that a
step really takes decide nothing. A failure is shown as it was found: to make it short takes minutes on servers, and is
done on request, with `STAMPEDE_SHRINK=1`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from stampede_guard.jobs.messages import Claim, Ending, Registration
from tests.jobs.backends.conftest import Worlds
from tests.support.leases import LONG, owner

PHASES = [phase for phase in Phase if phase is not Phase.shrink or os.environ.get("STAMPEDE_SHRINK")]
SLACK = 2.0
NUMBERS = itertools.count()
SLOTS = st.integers(-2, 2)
RUNS = st.sampled_from(["a", "b", "c"])
PRINTS = st.sampled_from(["f", "f", "f", "g"])
VERSIONS = st.sampled_from([0, 0, 1])
ALIVE = st.sampled_from([12.5, 32.5])
SEEN = st.sampled_from([0.0, 12.5, 12.5, 32.5])


class Long(str):
    def __repr__(self) -> str:
        return "LONG"


LONGEST = Long("x" * 3000)
ERRORS = st.sampled_from(["", "ValueError: nö", LONGEST])
ENDED = st.sampled_from(["completed", "failed", "missed", "skipped", "abandoned"])


class Machine(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, worlds: Worlds) -> None:
        super().__init__()
        self.runner = runner
        self.worlds = worlds
        self.job = ""
        self.base = 0
        self.claimed = (0, "a")
        self.began = time.monotonic()

    @initialize(registered=st.booleans())
    def begin(self, registered: bool) -> None:
        self.job = f"runs:{uuid.uuid4().hex}:{next(NUMBERS)}"
        self.base = round(self.worlds.now() * 1000)
        self.began = time.monotonic()
        if registered:
            self.registers("f", 0, 60.0, 12.5)

    # --- steps ------------------------------------------------------------------------------------

    @rule(fingerprint=PRINTS, version=VERSIONS, rhythm=st.sampled_from([0.0, 60.0, 0.1]), seen_for=SEEN)
    def registers(self, fingerprint: str, version: int, rhythm: float, seen_for: float) -> None:
        given = self.registration(fingerprint, version, rhythm, seen_for)
        self.alike(lambda backend: backend.register(given, timeout=LONG))

    @rule(fingerprint=PRINTS, version=VERSIONS, seen_for=SEEN)
    def follows(self, fingerprint: str, version: int, seen_for: float) -> None:
        given = self.registration(fingerprint, version, 30.0, seen_for)
        self.alike(lambda backend: backend.follow(given, timeout=LONG))

    @rule(fingerprint=PRINTS, version=VERSIONS, seen_for=SEEN, seconds=st.sampled_from([0, 10, 40]))
    def takes_over(self, fingerprint: str, version: int, seen_for: float, seconds: int) -> None:
        self.time_passes(seconds)
        given = self.registration(fingerprint, version, 20.0, seen_for)
        self.alike(lambda backend: backend.take_over(given, timeout=LONG))

    def registration(self, fingerprint: str, version: int, rhythm: float, seen_for: float) -> Registration:
        return Registration(
            job=self.job,
            schedule=f"every {fingerprint}",
            fingerprint=fingerprint,
            rhythm=rhythm,
            version=version,
            seen_for=seen_for,
        )

    @rule(
        slot=SLOTS,
        run=RUNS,
        fingerprint=PRINTS,
        alive_for=ALIVE,
        attempts=st.integers(1, 3),
        by_hand=st.booleans(),
    )
    def claims(
        self, slot: int, run: str, fingerprint: str, alive_for: float, attempts: int, by_hand: bool
    ) -> None:
        claim = Claim(
            job=self.job,
            slot=self.slot(slot),
            run=run,
            owner=owner(run),
            fingerprint=fingerprint,
            alive_for=alive_for,
            attempts=attempts,
            by_hand=by_hand,
        )
        self.alike(lambda backend: backend.claim(claim, timeout=LONG))
        self.claimed = slot, run

    @rule(another=RUNS, seconds=st.sampled_from([0, 0, 40]), attempts=st.integers(1, 3))
    def another_claims_the_same(self, another: str, seconds: int, attempts: int) -> None:
        self.time_passes(seconds)
        self.claims(self.claimed[0], another, "f", 12.5, attempts, False)

    @rule(outcome=ENDED)
    def who_claimed_last_finishes(self, outcome: Any) -> None:
        self.finishes(*self.claimed, outcome, "", 1)

    @rule(slot=SLOTS, run=RUNS, alive_for=ALIVE, token=st.integers(0, 3))
    def beats(self, slot: int, run: str, alive_for: float, token: int) -> None:
        self.alike(
            lambda backend: backend.beat(
                self.job, slot=self.slot(slot), run=run, alive_for=alive_for, token=token, timeout=LONG
            )
        )

    @rule(slot=SLOTS, run=RUNS, outcome=ENDED, error=ERRORS, token=st.integers(0, 3))
    def finishes(self, slot: int, run: str, outcome: Any, error: str, token: int) -> None:
        ending = Ending(outcome=outcome, error=error, token=token, counters={"files": 12, "share": 0.5})
        self.alike(
            lambda backend: backend.finish(
                self.job, slot=self.slot(slot), run=run, ending=ending, timeout=LONG
            )
        )

    @rule(slots=st.lists(SLOTS, max_size=4), outcome=st.sampled_from(["missed", "skipped"]), error=ERRORS)
    def records(self, slots: list[int], outcome: Any, error: str) -> None:
        wanted = [self.slot(slot) for slot in slots]
        self.alike(
            lambda backend: backend.record(self.job, slots=wanted, outcome=outcome, error=error, timeout=LONG)
        )

    @rule(by=st.sampled_from(["Ada", LONGEST]))
    def pauses(self, by: str) -> None:
        self.alike(lambda backend: backend.pause(self.job, by=by, timeout=LONG))

    @rule()
    def resumes(self) -> None:
        self.alike(lambda backend: backend.resume(self.job, timeout=LONG))

    @rule()
    def sweeps(self) -> None:
        def in_order(views: Any) -> Any:
            return sorted(views, key=lambda view: view.slot)

        self.alike(lambda backend: backend.sweep(self.job, timeout=LONG), shape=in_order)

    @rule(attempts=st.integers(1, 3), limit=st.integers(1, 3))
    def looks_for_what_is_to_be_tried_again(self, attempts: int, limit: int) -> None:
        self.alike(lambda backend: backend.retriable(self.job, attempts=attempts, limit=limit, timeout=LONG))

    @rule(keep=st.integers(0, 3), older_than=st.sampled_from([0.0, 20.0]))
    def prunes(self, keep: int, older_than: float) -> None:
        self.alike(lambda backend: backend.prune(self.job, keep=keep, older_than=older_than, timeout=LONG))

    @rule(before=st.none() | SLOTS, outcomes=st.lists(ENDED, max_size=2), limit=st.integers(1, 3))
    def looks_back(self, before: int | None, outcomes: list[Any], limit: int) -> None:
        earliest = None if before is None else self.slot(before)
        self.alike(
            lambda backend: backend.history(
                self.job, limit=limit, before=earliest, outcomes=outcomes, timeout=LONG
            )
        )

    @rule(really=st.integers(0, 4))
    def forgets(self, really: int) -> None:
        if not really:
            self.alike(lambda backend: backend.forget(self.job, timeout=LONG))

    @rule(seconds=st.sampled_from([5, 10, 20, 40]))
    def time_passes(self, seconds: int) -> None:
        self.runner.run(self.worlds.advance(seconds))

    # --- what must be so --------------------------------------------------------------------------

    @invariant()
    def it_looks_alike(self) -> None:
        if self.job:
            self.alike(lambda backend: backend.view(self.job, timeout=LONG))
            self.alike(lambda backend: backend.history(self.job, limit=99, timeout=LONG))

    def slot(self, number: int) -> int:
        return self.base + number * 10_000 + 2_500

    def alike(self, call: Callable[[Any], Any], *, shape: Callable[[Any], Any] = lambda found: found) -> None:
        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*[call(backend) for backend in self.worlds.backends.values()])

        answers = dict(zip(self.worlds.backends, self.runner.run(all_of_them()), strict=True))
        if time.monotonic() - self.began > SLACK:
            # On a busy machine. Each back end reads its clock at another moment, and what is due lies 2.5 s apart.
            return
        expected = shape(answers["memory"])
        for title, answer in answers.items():
            assert same(expected, shape(answer)), (title, answer, expected)


def same(one: Any, other: Any) -> bool:
    """Equal, but for moments, which may be a little apart."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return abs(one - other) < SLACK
    return bool(one == other)


def test_back_ends_and_pure_rules_cannot_be_told_apart(
    worlds_of_the_run: tuple[asyncio.Runner, Worlds],
) -> None:
    run_state_machine_as_test(
        lambda: Machine(*worlds_of_the_run),
        settings=settings(max_examples=50, stateful_step_count=25, phases=PHASES),
    )
