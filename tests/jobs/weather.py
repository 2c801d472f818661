"""What may happen to workers and their back end, drawn by a seed: lost requests, lost answers, crashes, clocks."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.run import Run
from tests.jobs.fleet import EPOCH, Fleet, Worker

__all__ = ["DEPLOYED", "LASTS", "STEP", "Network", "bad_weather", "judge", "judge_deploys"]

STEP = 10
DEPLOYED = (10, 15)
"""Seconds from slot to slot of two deployments."""
LASTS = 600
CALM = 200
"""Seconds without faults at the end, in which everything has to come right."""


class Network:
    """One worker's way to the runs' back end: `cut`, or losing a share of its questions and of their answers."""

    def __init__(self, runs: Any, chance: Random) -> None:
        self._runs = runs
        self._chance = chance
        self.cut = False
        self.loss = 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._runs, name)
        if name == "aclose":
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(self._chance.uniform(0, 0.2))
            if self.cut or self._chance.random() < self.loss:
                raise StoreUnavailable("lost on the way there")
            answer = await method(*args, **kwargs)
            await asyncio.sleep(self._chance.uniform(0, 0.2))
            if self.cut or self._chance.random() < self.loss:
                raise StoreUnavailable("lost on the way back")
            return answer

        return call


def _start(
    fleet: Fleet, calls: Counter[tuple[int, int]], *, step: int, retry: bool
) -> tuple[Worker, Network]:
    network = Network(runs_beside(fleet.rows), fleet.chance)
    worker = fleet.worker(runs=lambda: network, drain_timeout=fleet.chance.choice([1.0, 30.0]))
    takes = fleet.chance.choice([0.005, 1.0, 12.0])

    @worker.jobs.every(step, name="tick", lease_ttl=6, misfire_grace=25, retry_abandoned=retry)
    async def tick(run: Run) -> None:
        calls[round(run.slot.timestamp() - EPOCH), run.attempt] += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # On the worker's own timers, so that a killed one never goes on.
        cancel = worker.world.later(takes, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            cancel()

    worker.start()
    return worker, network


async def bad_weather(
    fleet: Fleet, *, retry: bool, steps: tuple[int, ...] = (STEP,)
) -> Counter[tuple[int, int]]:
    """Workers come and go, and so does the network; calls of the function by (slot, attempt). Each worker has one of
    the schedules `steps`."""
    chance = fleet.chance
    calls: Counter[tuple[int, int]] = Counter()

    def start() -> tuple[Worker, Network]:
        return _start(fleet, calls, step=steps[0] if len(steps) == 1 else chance.choice(steps), retry=retry)

    there = [start() for _ in range(chance.randint(1, 4))]
    while fleet.loop.time() - fleet.begun < LASTS - CALM:
        await asyncio.sleep(chance.uniform(1, 30))
        worker, network = chance.choice(there)
        match chance.randrange(7):
            case 0:
                worker.kill()
                there.remove((worker, network))
            case 1:
                await worker.stop()
                fleet.workers.remove(worker)
                there.remove((worker, network))
            case 2:
                network.cut = not network.cut
            case 3:
                network.loss = chance.choice([0.0, 0.1, 0.5])
            case 4:
                fleet.step += chance.uniform(-8, 8)
            case _:
                pass
        if not there or chance.random() < 0.3:
            there.append(start())
    if len(steps) > 1 and chance.random() < 0.5:
        # Else one of the deployments has often gone by now.
        there.extend(_start(fleet, calls, step=step, retry=retry) for step in steps)
    for _, network in there:
        network.cut, network.loss = False, 0.0
    await asyncio.sleep(CALM)
    return calls


async def judge_deploys(fleet: Fleet, calls: Counter[tuple[int, int]], *, retry: bool) -> None:
    """What holds though workers of both schedules came and went."""
    assert set(calls.values()) <= {1}, "an attempt was called twice"
    attempts = Counter(slot for slot, _ in calls)
    assert max(attempts.values()) <= (3 if retry else 1)
    view = await runs_beside(fleet.rows).view("shop:tick")
    assert view is not None
    there = [worker.jobs._followers["tick"][0] for worker in fleet.workers]
    steps = {follower.job.schedule.text for follower in there}
    assert view.schedule in steps, "the schedule that counts is nobody's"
    assert view.at - view.seen_at <= 6, "nobody says that he follows it"
    # Who was left over had half of the calm to notice that the others have gone; after that nobody changes anything.
    assert view.at - view.scheduled_at > CALM / 2, "two deployments take the schedule from each other"
    for follower in there:
        mine = follower.job.schedule.text == view.schedule
        assert follower.outdated == ("" if mine else view.schedule)
    step, now = round(view.rhythm), round(fleet.time() - EPOCH)
    history = await fleet.history()
    due = range((now - 60) // step * step, now - 2 * step, step)
    assert {history[slot].outcome for slot in due} <= {"completed", "skipped"}, "a slot that was not run"
    others = [slot for slot in history if slot >= due.start and slot % step]
    assert not others or retry, "slots of the schedule that does not count"


async def judge(fleet: Fleet, calls: Counter[tuple[int, int]], *, retry: bool) -> None:
    """What holds whatever happened."""
    history = await fleet.history()
    slots = sorted(history)
    # Each slot from the first one on has a row; the last one may be on its way.
    assert slots == list(range(slots[0], slots[-1] + 1, STEP)), "a slot without an outcome"
    assert slots[-1] >= fleet.time() - EPOCH - 2 * STEP - 1, "nobody follows the schedule any more"
    assert set(calls.values()) <= {1}, "an attempt was called twice"
    attempts = Counter(slot for slot, _ in calls)
    assert max(attempts.values()) <= (3 if retry else 1)
    for slot, run in history.items():
        if run.outcome == "completed":
            assert (slot, run.attempt) in calls, "completed, and never called"
        if run.outcome in ("missed", "skipped") and run.attempt <= 1:
            assert slot not in attempts, f"{run.outcome}, and called"
        if run.outcome == "running":
            assert slot >= slots[-1] - 2 * STEP, "a vanished worker's run is taken for a running one"
        if retry and slot < slots[-1] - 60:
            assert run.outcome != "abandoned" or run.attempt == 3, "abandoned, and nobody tries again"
    calm = [history[slot].outcome for slot in slots if slot > slots[-1] - 50 and slot < slots[-1] - STEP]
    assert set(calm) <= {"completed", "skipped"}, (
        "in calm weather every slot is run, or skipped for one that runs"
    )
