"""The soak on a store in memory: one process, two guards on one `FaultyStore`, and each guard in several event loops.

A guard is what the judge calls a process. `python -m tests.soak --store memory`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stampede_guard import StampedeGuard
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.soak.functions import LIMITS, POLICY, Functions
from tests.soak.journal import Event, Fault, Journal, now, read
from tests.soak.judge import Judge, Violation
from tests.soak.source import Source
from tests.soak.worker import Worker

__all__ = ["soak_in_memory"]

GUARDS, LOOPS = 2, 3
PATIENCE = 60.0


class _LoopOf(Worker):
    """One event loop of a guard. The cached functions are the guard's."""

    def __init__(self, functions: Functions, folder: Path, label: str, number: int, seed: int) -> None:
        self._label = label
        self._journal = Journal(folder / f"{label}-{number}.jsonl")
        self._source = Source(folder / "source")
        self._draw = random.Random(seed)
        self._functions = functions
        self._numbers = itertools.count(number * 10**9)
        self._guard = functions.guard


def _faults(store: FaultyStore, draw: random.Random) -> dict[str, Callable[[], bool]]:
    """Each begins a fault; True: the store cannot be read meanwhile."""

    def away(begin: Callable[[], None]) -> Callable[[], bool]:
        def carry_out() -> bool:
            begin()
            return True

        return carry_out

    def refuse_writes() -> bool:
        store.refuse_writes()
        return False

    return {
        "fail": away(store.fail),
        "answer too late": away(lambda: store.slow(store.deadline)),
        "answer slowly": away(lambda: store.slow(draw.uniform(0.01, 0.4))),
        "lose answers": away(lambda: store.lose_replies(draw.randint(1, 20))),
        "refuse everything": away(store.refuse),
        "refuse writes": refuse_writes,
    }


def soak_in_memory(folder: Path, *, seconds: float, seed: int) -> tuple[list[Violation], list[Event]]:
    """Raises `RuntimeError` when an event loop does not end or ends by a fault."""
    draw, store, failed = random.Random(seed), FaultyStore(), list[BaseException]()
    journal, ends = Journal(folder / "faults.jsonl"), now() + seconds
    workers = []
    for each in range(GUARDS):
        guard, label = StampedeGuard(store, namespace="soak", policy=POLICY, limits=LIMITS), f"guard{each}"
        made = Functions(guard, Source(folder / "source"), Journal(folder / f"{label}.jsonl"), label, seed)
        workers += [
            _LoopOf(made, folder, label, number, draw.randrange(2**32)) for number in range(1, LOOPS + 1)
        ]

    def run(worker: Worker) -> None:
        try:
            asyncio.run(worker.run(seconds))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    while now() < ends - 4.0:
        time.sleep(draw.uniform(1.0, 4.0))
        kind, carry_out = draw.choice(list(_faults(store, draw).items()))
        began, away = now(), carry_out()
        time.sleep(draw.uniform(0.1, 1.5))
        store.recover()
        journal.write(Fault(kind, began, now(), away=away))
    for thread in threads:
        thread.join(PATIENCE)
    if failed or any(thread.is_alive() for thread in threads):
        raise RuntimeError(f"an event loop did not end, or not well: {failed}")
    events = read(folder)
    return list(Judge(settle=3.0, longest=30.0).violations(events)), events
