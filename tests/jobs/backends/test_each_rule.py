"""Each rule by itself, on each back end: what the state machine finds by chance, and takes long to find, is told here.

Time passes in whole seconds, and what is decided by it lies half a second or more beside them.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobView,
    Outdated,
    Paused,
    Registration,
    RunView,
    Taken,
)
from stampede_guard.jobs.rules import LONGEST_ERROR, VANISHED
from tests.jobs.backends.conftest import Worlds
from tests.support.leases import LONG, owner

SOON = pytest.approx
"""Moments of servers are a little later than those before the question."""


class Steps:
    """One job on one back end. Slots are seconds after the beginning, which is half a second before now."""

    def __init__(self, worlds: Worlds, title: str) -> None:
        self.backend = worlds.backends[title]
        self.pass_time = worlds.advance
        self.job = f"steps:{uuid.uuid4().hex}"
        self.base = worlds.now() - 0.5

    def slot(self, number: float) -> int:
        return round((self.base + number) * 1000)

    def number(self, slot: int) -> float:
        return round(slot / 1000 - self.base, 3) if slot else -1

    def registration(self, fingerprint: str = "f", **changed: Any) -> Registration:
        given: dict[str, Any] = {"schedule": f"every {fingerprint}", "rhythm": 60.0} | changed
        return Registration(job=self.job, fingerprint=fingerprint, **given)

    async def register(self, fingerprint: str = "f", **changed: Any) -> JobView:
        return await self.backend.register(self.registration(fingerprint, **changed), timeout=LONG)

    async def follow(self, fingerprint: str = "f", **changed: Any) -> JobView:
        view = await self.backend.follow(self.registration(fingerprint, **changed), timeout=LONG)
        assert view is not None
        return view

    async def take_over(self, fingerprint: str, **changed: Any) -> bool:
        return await self.backend.take_over(self.registration(fingerprint, **changed), timeout=LONG)

    async def claim(self, number: float, run: str = "a", **changed: Any) -> ClaimAnswer:
        given: dict[str, Any] = {"fingerprint": "f", "alive_for": 100.0} | changed
        claim = Claim(job=self.job, slot=self.slot(number), run=run, owner=owner(run), **given)
        return await self.backend.claim(claim, timeout=LONG)

    async def claimed(self, number: float, run: str = "a", **changed: Any) -> Claimed:
        answer = await self.claim(number, run, **changed)
        assert isinstance(answer, Claimed), answer
        return answer

    async def beat(self, number: float, run: str = "a", *, alive_for: float = 100.0, token: int = 0) -> bool:
        return await self.backend.beat(
            self.job, slot=self.slot(number), run=run, alive_for=alive_for, token=token, timeout=LONG
        )

    async def finish(
        self, number: float, outcome: Any, run: str = "a", *, error: str = "", token: int = 0
    ) -> bool:
        ending = Ending(outcome=outcome, error=error, token=token)
        slot = self.slot(number)
        return await self.backend.finish(self.job, slot=slot, run=run, ending=ending, timeout=LONG)

    async def record(self, *numbers: float, outcome: Any = "missed") -> int:
        slots = [self.slot(number) for number in numbers]
        return await self.backend.record(self.job, slots=slots, outcome=outcome, error="why", timeout=LONG)

    async def sweep(self) -> list[float]:
        return [self.number(run.slot) for run in await self.backend.sweep(self.job, timeout=LONG)]

    async def prune(self, keep: int, older_than: float = 0.0) -> int:
        return await self.backend.prune(self.job, keep=keep, older_than=older_than, timeout=LONG)

    async def pause(self, by: str = "ops") -> JobView | None:
        return await self.backend.pause(self.job, by=by, timeout=LONG)

    async def resume(self) -> JobView | None:
        return await self.backend.resume(self.job, timeout=LONG)

    async def view(self) -> JobView:
        view = await self.backend.view(self.job, timeout=LONG)
        assert view is not None
        return view

    async def run(self, number: float) -> RunView:
        (found,) = [run for run in await self.runs() if run.slot == self.slot(number)]
        return found

    async def runs(self, **changed: Any) -> list[RunView]:
        given: dict[str, Any] = {"limit": 99} | changed
        return await self.backend.history(self.job, timeout=LONG, **given)

    async def outcomes(self) -> dict[float, str]:
        return {self.number(run.slot): run.outcome for run in reversed(await self.runs())}


@pytest.fixture(params=["memory", "postgres", "valkey"])
def steps(request: pytest.FixtureRequest, worlds: Worlds) -> Steps:
    return Steps(worlds, request.param)


class TestSchedules:
    async def test_registered_again_it_is_the_same_schedule_since_when_it_was_with_new_words(
        self, steps: Steps
    ) -> None:
        first = await steps.register(rhythm=60.0)
        await steps.pass_time(10)
        again = await steps.register(rhythm=30.0, schedule="each f", version=1)
        assert (again.scheduled_at, again.registered_at) == (first.scheduled_at, first.registered_at)
        assert (again.rhythm, again.schedule, again.version) == (30.0, "each f", 1)

    async def test_of_equal_versions_the_last_counts_from_then_on(self, steps: Steps) -> None:
        first = await steps.register("f", version=1)
        await steps.pass_time(10)
        last = await steps.register("g", version=1)
        assert (last.fingerprint, last.registered_at) == ("g", first.registered_at)
        assert last.scheduled_at - first.scheduled_at == SOON(10, abs=2)

    async def test_a_smaller_version_changes_nothing(self, steps: Steps) -> None:
        first = await steps.register("f", version=2, seen_for=90.0)
        await steps.pass_time(10)
        for view in (
            await steps.register("g", version=1, seen_for=500.0),
            await steps.follow("g", version=1, seen_for=500.0),
        ):
            assert (view.fingerprint, view.version, view.schedule) == ("f", 2, "every f")
            assert (view.scheduled_at, view.seen_at, view.seen_for) == (
                first.scheduled_at,
                first.seen_at,
                90.0,
            )

    async def test_who_follows_says_only_that_he_is_there(self, steps: Steps) -> None:
        first = await steps.register(rhythm=60.0, seen_for=50.0)
        await steps.pass_time(10)
        view = await steps.follow(rhythm=5.0, schedule="another text", seen_for=50.0)
        assert (view.rhythm, view.schedule, view.scheduled_at) == (60.0, "every f", first.scheduled_at)
        assert view.seen_at - first.seen_at == SOON(10, abs=2)
        assert view.at - view.seen_at < 2

    async def test_a_longer_word_is_good_until_it_is_over_and_no_longer(self, steps: Steps) -> None:
        await steps.register(seen_for=100.0)
        await steps.pass_time(40)
        assert (await steps.follow(seen_for=10.0)).seen_for == SOON(60, abs=2)
        await steps.pass_time(40)
        assert (await steps.register(seen_for=10.0)).seen_for == SOON(20, abs=2)
        await steps.pass_time(40)
        assert (await steps.follow(seen_for=10.0)).seen_for == 10.0
        assert (await steps.follow(seen_for=30.0)).seen_for == 30.0

    async def test_a_clock_that_was_set_back_makes_no_word_longer(self, steps: Steps) -> None:
        await steps.register(seen_for=100.0)
        await steps.pass_time(-1_000)
        view = await steps.follow(seen_for=10.0)
        assert view.seen_for == 100.0
        assert abs(view.at - view.seen_at) < 2

    async def test_another_schedule_begins_with_a_word_of_its_own(self, steps: Steps) -> None:
        await steps.register("f", seen_for=900.0)
        assert (await steps.register("g", seen_for=9.0)).seen_for == 9.0
        assert (await steps.follow("h", seen_for=5.0, version=1)).seen_for == 5.0

    async def test_a_schedule_is_taken_over_when_its_last_sign_is_no_longer_good(self, steps: Steps) -> None:
        await steps.register("f", version=3, seen_for=20.5)
        await steps.pass_time(10)
        sign = (await steps.follow("f", version=3, seen_for=20.5)).seen_at
        await steps.pass_time(19)
        assert not await steps.take_over("g")
        await steps.pass_time(3)
        assert not await steps.take_over("f"), "it is the one that counts"
        assert await steps.take_over("g", version=1, rhythm=5.0, seen_for=30.0)
        view = await steps.view()
        assert (view.fingerprint, view.schedule, view.rhythm, view.version) == ("g", "every g", 5.0, 1)
        assert (view.scheduled_at, view.seen_for) == (sign, 30.0)
        assert view.at - view.seen_at < 2
        assert not await steps.take_over("f", version=3)

    async def test_a_schedule_that_nobody_gives_signs_of_is_not_taken_over(self, steps: Steps) -> None:
        await steps.register("f", seen_for=0.0)
        await steps.pass_time(10_000)
        assert not await steps.take_over("g")
        assert (await steps.view()).fingerprint == "f"


class TestClaims:
    async def test_of_nothing_or_of_another_schedule_nothing_is_claimed(self, steps: Steps) -> None:
        assert await steps.claim(0) == Outdated("")
        await steps.register()
        assert await steps.claim(0, fingerprint="g") == Outdated("every f")
        assert await steps.runs() == []

    async def test_a_slot_to_come_is_early_and_nothing_is_changed(self, steps: Steps) -> None:
        await steps.register()
        answer = await steps.claim(10)
        assert isinstance(answer, Early) and answer.remaining == SOON(9.5, abs=2)
        assert (await steps.runs(), (await steps.view()).last_slot) == ([], 0)
        assert await steps.record(10) == 0

    async def test_asked_again_with_its_name_it_is_the_same_claim_and_lives_longer(
        self, steps: Steps
    ) -> None:
        await steps.register()
        await steps.claimed(0, alive_for=12.5)
        await steps.pass_time(10)
        assert (await steps.claimed(0, alive_for=12.5)).attempt == 1
        await steps.pass_time(10)
        assert await steps.sweep() == []
        await steps.claimed(0, alive_for=1.0)
        assert await steps.claim(0, "b") == Taken("running")
        await steps.pass_time(5)
        assert await steps.sweep() == [0]

    async def test_a_run_that_ended_is_not_claimed_again_by_its_name(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0)
        assert await steps.finish(0, "failed")
        assert await steps.claim(0) == Taken("failed")
        assert await steps.claim(0, attempts=3) == Taken("failed")

    async def test_only_what_was_abandoned_is_run_again(self, steps: Steps) -> None:
        await steps.register()
        for number, outcome in enumerate(("completed", "failed", "missed", "skipped")):
            await steps.claimed(-number, attempts=3)
            assert await steps.finish(-number, outcome)
            assert await steps.claim(-number, "b", attempts=3) == Taken(outcome)  # type: ignore[arg-type]
        await steps.claimed(-9, attempts=3)
        assert await steps.claim(-9, "b", attempts=3) == Taken("running")

    async def test_a_slot_is_run_once_more_with_nothing_of_the_run_before(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, "a", attempts=3, alive_for=5.5)
        await steps.beat(0, "a", alive_for=5.5, token=7)
        begun = (await steps.run(0)).started_at
        await steps.pass_time(10)
        assert (await steps.claimed(0, "b", attempts=2)).attempt == 2
        run = await steps.run(0)
        assert (run.run, run.outcome, run.attempt, run.attempts) == ("b", "running", 2, 2)
        assert (run.token, run.finished_at, run.error, run.owner) == (0, 0.0, "", owner("b"))
        assert run.started_at - begun == SOON(10, abs=2)
        assert not await steps.beat(0, "a")
        assert not await steps.finish(0, "completed", "a")

    async def test_who_finds_a_vanished_worker_and_may_not_try_again_says_so(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, alive_for=5.5)
        await steps.pass_time(10)
        assert await steps.claim(0, "b", attempts=3) == Taken("abandoned")
        view, run = await steps.view(), await steps.run(0)
        assert (run.outcome, run.error, view.last_error, view.running) == (
            "abandoned",
            VANISHED,
            VANISHED,
            (),
        )
        assert view.at - view.last_failure_at < 2 and view.at - run.finished_at < 2

    async def test_who_takes_it_over_says_so_too(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, alive_for=5.5, attempts=2)
        await steps.pass_time(10)
        await steps.claimed(0, "b", attempts=2)
        view = await steps.view()
        assert view.last_error == VANISHED and view.at - view.last_failure_at < 2

    async def test_the_latest_slot_stays_the_latest_and_is_never_one_by_hand(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(-10)
        await steps.claimed(-20)
        await steps.claimed(-5, by_hand=True)
        assert steps.number((await steps.view()).last_slot) == -10
        assert await steps.record(-30) == 1
        assert steps.number((await steps.view()).last_slot) == -10
        assert await steps.record(-4) == 1
        assert steps.number((await steps.view()).last_slot) == -4

    async def test_a_claim_knows_when_the_latest_run_that_completed_had_begun(self, steps: Steps) -> None:
        await steps.register()
        assert (await steps.claimed(-40)).last_success_began == 0.0
        await steps.finish(-40, "failed")
        await steps.claimed(-30)
        await steps.claimed(-20)
        await steps.finish(-20, "completed")
        history = {
            steps.number(run.slot): run
            for run in await steps.backend.history(steps.job, limit=9, timeout=LONG)
        }
        began = (await steps.claimed(-10)).last_success_began
        assert began == history[-20].started_at > 0
        # It began before that one and ends after it: it takes nothing back.
        await steps.finish(-30, "completed")
        assert (await steps.claimed(-10)).last_success_began == began
        assert (await steps.view()).last_success_at >= began

    async def test_a_claim_knows_when_the_job_last_succeeded(self, steps: Steps) -> None:
        await steps.register()
        assert (await steps.claimed(-20)).last_success_at == 0.0
        await steps.finish(-20, "completed")
        done = (await steps.view()).last_success_at
        assert done > 0
        assert (await steps.claimed(-10)).last_success_at == done
        assert (await steps.claimed(-10)).last_success_at == done
        assert (await steps.claimed(-5)).late == SOON(5.5, abs=2)


class TestRuns:
    async def test_a_beat_never_shortens_and_the_greater_token_stays(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, alive_for=30.5)
        assert await steps.beat(0, alive_for=5.5, token=7)
        await steps.pass_time(20)
        assert await steps.sweep() == []
        assert await steps.beat(0, alive_for=30.5, token=3)
        assert (await steps.run(0)).token == 7
        await steps.pass_time(20)
        assert await steps.sweep() == []
        await steps.pass_time(20)
        assert await steps.sweep() == [0]
        assert not await steps.beat(0), "it was marked"

    async def test_a_run_that_lapsed_and_that_nobody_marked_comes_back_to_life(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, alive_for=5.5)
        await steps.pass_time(10)
        assert await steps.beat(0, alive_for=5.5)
        assert await steps.sweep() == []

    async def test_only_its_own_run_is_ended_and_once(self, steps: Steps) -> None:
        await steps.register()
        assert not await steps.finish(0, "completed")
        await steps.claimed(0)
        assert not await steps.finish(0, "completed", "b")
        await steps.beat(0, token=7)
        assert await steps.finish(0, "completed", token=3)
        assert not await steps.finish(0, "failed")
        assert not await steps.beat(0)
        run = await steps.run(0)
        assert (run.outcome, run.token) == ("completed", 7)

    @pytest.mark.parametrize("outcome", ["completed", "failed", "missed", "skipped", "abandoned"])
    async def test_an_ending_is_noted_with_the_job_as_what_it_was(self, steps: Steps, outcome: str) -> None:
        await steps.register()
        await steps.claimed(0)
        assert await steps.finish(0, outcome, error="x" * (LONGEST_ERROR + 1), token=5)
        view, run = await steps.view(), await steps.run(0)
        assert (run.outcome, run.error, run.token) == (outcome, "x" * LONGEST_ERROR, 5)
        assert view.at - run.finished_at < 2
        assert bool(view.last_success_at) == (outcome == "completed")
        failed = outcome in ("failed", "abandoned")
        assert (bool(view.last_failure_at), view.last_error) == (failed, run.error if failed else "")

    async def test_what_has_an_outcome_gets_no_other(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(-1)
        assert await steps.record(-1, -2, -2, -3) == 2
        assert await steps.record(-2, -3, -4, outcome="skipped") == 1
        assert await steps.outcomes() == {-4: "skipped", -3: "missed", -2: "missed", -1: "running"}
        assert await steps.claim(-2) == Taken("missed")
        run = await steps.run(-2)
        assert (run.run, run.attempt, run.attempts, run.started_at, run.owner) == ("", 0, 0, 0.0, None)
        assert run.error == "why" and run.finished_at > 0

    async def test_a_sweep_marks_those_that_lapsed_and_no_others(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(-3, alive_for=5.5)
        await steps.claimed(-2, alive_for=50.5)
        await steps.claimed(-1, alive_for=5.5)
        await steps.claimed(-4, alive_for=5.5)
        await steps.finish(-4, "completed")
        assert (await steps.view()).running == tuple(map(steps.slot, (-3, -2, -1)))
        await steps.pass_time(10)
        assert await steps.sweep() == [-3, -1]
        assert await steps.sweep() == []
        view, run = await steps.view(), await steps.run(-3)
        assert (run.outcome, run.error, view.last_error) == ("abandoned", VANISHED, VANISHED)
        assert view.at - view.last_failure_at < 2 and view.at - run.finished_at < 2
        assert view.running == (steps.slot(-2),)
        assert (await steps.outcomes())[-4] == "completed"


class TestHistory:
    async def test_what_was_pruned_hides_nothing_that_is_to_be_tried_again(self, steps: Steps) -> None:
        await steps.register()
        for number in (-30, -20, -10):
            await steps.claimed(number, attempts=2)
            await steps.finish(number, "abandoned")
        assert await steps.prune(1) == 2
        found = await steps.backend.retriable(steps.job, attempts=2, limit=9, timeout=LONG)
        assert [run.slot for run in found] == [steps.slot(-10)]

    async def test_the_newest_are_kept_and_the_young_and_what_runs(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(-50)
        assert await steps.record(-60, -40, -30, -20, -10) == 5
        assert await steps.prune(3, older_than=5.0) == 2
        assert list(await steps.outcomes()) == [-50, -30, -20, -10]
        assert await steps.prune(0, older_than=25.0) == 1
        assert list(await steps.outcomes()) == [-50, -20, -10]
        assert await steps.prune(2) == 0

    async def test_a_slot_that_was_pruned_has_had_its_outcome(self, steps: Steps) -> None:
        await steps.register()
        await steps.record(-30, -10)
        assert await steps.prune(1) == 1
        for number in (-30, -31):
            assert await steps.claim(number) == Taken("missed")
            assert await steps.record(number) == 0
        assert await steps.record(-29) == 1
        await steps.claimed(-28)
        assert await steps.prune(0) == 2
        assert await steps.claim(-29, "b") == Taken("missed")

    async def test_nothing_is_left_of_a_job_that_was_forgotten(self, steps: Steps) -> None:
        await steps.register()
        for number in (-30, -20):
            await steps.claimed(number, attempts=2)
        await steps.finish(-30, "abandoned")
        assert await steps.backend.forget(steps.job, timeout=LONG)
        assert not await steps.backend.forget(steps.job, timeout=LONG)
        assert await steps.backend.view(steps.job, timeout=LONG) is None
        view = await steps.register()
        assert (view.last_slot, view.running, view.last_error) == (0, (), "")
        assert await steps.runs() == []
        await steps.claimed(-10, attempts=2)
        await steps.finish(-10, "abandoned")
        found = await steps.backend.retriable(steps.job, attempts=2, limit=9, timeout=LONG)
        assert [run.slot for run in found] == [steps.slot(-10)]

    async def test_it_is_read_newest_first_before_a_slot_and_by_outcome(self, steps: Steps) -> None:
        await steps.register()
        await steps.record(-40, -20)
        await steps.record(-30, -10, outcome="skipped")

        async def read(**given: Any) -> list[float]:
            return [steps.number(run.slot) for run in await steps.runs(**given)]

        assert await read() == [-10, -20, -30, -40]
        assert await read(limit=2) == [-10, -20]
        assert await read(before=steps.slot(-20)) == [-30, -40]
        assert await read(outcomes=["missed"], limit=1) == [-20]
        assert await read(outcomes=["missed", "skipped"], before=steps.slot(-30)) == [-40]


class TestPauses:
    async def test_of_a_paused_job_nothing_is_claimed_until_it_is_resumed(self, steps: Steps) -> None:
        await steps.register()
        await steps.pause("Ada")
        assert await steps.claim(0) == Paused("Ada")
        assert await steps.outcomes() == {}
        await steps.resume()
        await steps.claimed(0)

    async def test_a_run_goes_on_and_its_repeated_claim_is_still_the_same(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0)
        await steps.pause()
        assert (await steps.claimed(0)).attempt == 1
        assert await steps.beat(0)
        assert await steps.finish(0, "completed")

    async def test_by_hand_it_runs(self, steps: Steps) -> None:
        await steps.register()
        await steps.pause()
        await steps.claimed(0, by_hand=True)

    async def test_an_abandoned_run_is_tried_again_after_the_resume_only(self, steps: Steps) -> None:
        await steps.register()
        await steps.claimed(0, attempts=2, alive_for=10.0)
        await steps.pause()
        await steps.pass_time(11)
        assert await steps.claim(0, "b", attempts=2) == Taken("abandoned")
        await steps.resume()
        assert (await steps.claimed(0, "b", attempts=2)).attempt == 2

    async def test_slots_of_a_paused_job_can_be_recorded_as_missed(self, steps: Steps) -> None:
        await steps.register()
        await steps.pause()
        assert await steps.record(0) == 1
        assert await steps.claim(0) == Taken("missed")

    async def test_the_first_pause_counts(self, steps: Steps) -> None:
        await steps.register()
        first = await steps.pause("x" * 300)
        assert first is not None
        await steps.pass_time(5)
        second = await steps.pause("another")
        assert second is not None
        assert (second.paused_at, second.paused_by) == (first.paused_at, "x" * 200)

    async def test_it_survives_another_schedule_and_not_the_job(self, steps: Steps) -> None:
        await steps.register()
        await steps.pause()
        assert (await steps.register("g")).paused_by == "ops"
        assert await steps.claim(0, fingerprint="g") == Paused("ops")
        await steps.backend.forget(steps.job, timeout=LONG)
        assert not (await steps.register()).paused_at

    async def test_a_resume_is_noted_once(self, steps: Steps) -> None:
        await steps.register()
        before = await steps.resume()
        assert before is not None and not before.resumed_at
        await steps.pause()
        after = await steps.resume()
        assert after is not None and (after.paused_at, after.paused_by) == (0.0, "")
        assert after.resumed_at == SOON(after.at, abs=1)
        await steps.pass_time(5)
        again = await steps.resume()
        assert again is not None and again.resumed_at == after.resumed_at

    async def test_an_unknown_job_cannot_be_paused(self, steps: Steps) -> None:
        assert await steps.pause() is None
        assert await steps.resume() is None
