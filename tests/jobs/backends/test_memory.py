"""Runs in memory: what is there beside the rules themselves."""

from __future__ import annotations

import asyncio
import threading

from stampede_guard.jobs.backends.memory import MemoryRuns
from stampede_guard.jobs.messages import Claim, ClaimAnswer, Claimed, Registration
from tests.support.leases import owner


def test_event_loops_of_one_process_do_not_come_between_each_others_steps() -> None:
    other_answered = threading.Event()
    first = threading.current_thread()
    answers: dict[str, ClaimAnswer] = {}
    other: threading.Thread | None = None

    def clock() -> float:
        # In the middle of the first one's step.
        if threading.current_thread() is first and other is not None and not other.is_alive():
            other.start()
            other_answered.wait(1)
        return 2_000_000_000.0

    runs = MemoryRuns(clock=clock)

    async def claims(run: str) -> None:
        claim = Claim(job="j", slot=7, run=run, owner=owner(run), fingerprint="f", alive_for=60)
        answers[run] = await runs.claim(claim)

    def elsewhere() -> None:
        asyncio.run(claims("b"))
        other_answered.set()

    asyncio.run(runs.register(Registration(job="j", schedule="s", fingerprint="f", rhythm=0)))
    other = threading.Thread(target=elsewhere)
    asyncio.run(claims("a"))
    other.join(60)
    assert [isinstance(answer, Claimed) for answer in answers.values()].count(True) == 1
