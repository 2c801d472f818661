"""The conductor starts a store and workers, hurts them in a rhythm, replaces the killed ones, and asks the judge."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.herd.processes import Child
from tests.soak.faults import STORES, Faults
from tests.soak.journal import Call, Computation, Event, Journal, Lifetime, now, read
from tests.soak.judge import Judge, Violation
from tests.support import forked

__all__ = ["Report", "soak"]

WORKERS = 3
QUIET = (2.0, 6.0)
"""Seconds between two faults: in some pauses what a fault explains has ended, and everything is judged."""
PATIENCE = 60.0


@dataclass(slots=True)
class Report:
    seed: int
    violations: list[Violation]
    faults: dict[str, int]
    calls: int
    computations: int
    outcomes: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        head = f"seed {self.seed}: {self.calls} calls ({told}), {self.computations} computations; faults: {faults}"
        return "\n".join([head, *map(str, self.violations)])


@dataclass(slots=True)
class _Crew:
    """The workers, by label. A killed one is followed by another under a new label."""

    url: str
    folder: Path
    ends: float
    draw: random.Random
    mutant: str
    running: dict[str, Child] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    started: int = 0

    def start(self) -> None:
        self.started += 1
        label = f"worker{self.started}"
        seconds = max(1.0, self.ends - now())
        given = [f"{seconds:.3f}", str(self.draw.randrange(2**32)), *([self.mutant] if self.mutant else [])]
        self.running[label] = forked.start(
            "tests.soak.worker", self.url, str(self.folder), label, *given, log=self.folder / f"{label}.log"
        )
        self.began[label] = now()

    def pids(self) -> dict[str, int]:
        return {label: child.pid for label, child in self.running.items() if child.running}

    def kill(self, label: str) -> None:
        self.running.pop(label).kill()
        killed = Lifetime(label, self.began[label], now(), clean=False)
        Journal(self.folder / f"{label}-end.jsonl").write(killed)
        if self.ends - now() > 2.0:
            self.start()

    def wait(self) -> list[str]:
        """The last words of workers that did not end well."""
        failed = []
        for label, child in self.running.items():
            try:
                code = child.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                code = -1
            child.kill()
            if code != 0:
                failed.append(
                    f"{label} ended with {code}: {(self.folder / f'{label}.log').read_text()[-2000:]}"
                )
        return failed


async def soak(
    folder: Path,
    *,
    store: str,
    seconds: float,
    seed: int,
    mutant: str = "",
    only: tuple[str, ...] | None = None,
    quiet: tuple[float, float] = QUIET,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run and judge. The same seed draws the same faults and calls; how they meet is up to the machine.

    `only`: these kinds of faults, None = all, () = none. `quiet`: the shortest and longest pause between
    two, in seconds.

    Raises `RuntimeError` when a worker fails by itself.
    """
    draw = random.Random(seed)
    faults: Faults | None = None
    with STORES[store]() as started:
        servers = getattr(started, "servers", None) or [started]
        await asyncio.to_thread(forked.prepare)
        crew = _Crew(started.url, folder, now() + seconds, draw, mutant)
        journal = Journal(folder / "faults.jsonl")
        for _ in range(WORKERS):
            crew.start()
        faults = Faults(servers, crew, draw, journal.write, only or ())
        while only != () and now() < crew.ends - 1.0:
            pause = min(draw.uniform(*quiet), crew.ends - now())
            await asyncio.sleep(max(0.0, pause))
            if now() < crew.ends - 3.0:
                say(f"{crew.ends - now():6.0f} s left: {await faults.next()}")
        failed = await asyncio.to_thread(crew.wait)
    if failed:
        raise RuntimeError("\n".join(failed))
    return _report(seed, read(folder), faults)


def _report(seed: int, events: list[Event], faults: Faults) -> Report:
    judge = Judge(settle=3.0, longest=30.0)
    calls = [event for event in events if isinstance(event, Call)]
    outcomes: dict[str, int] = {}
    for call in calls:
        outcomes[call.outcome] = outcomes.get(call.outcome, 0) + 1
    computations = sum(isinstance(event, Computation) for event in events)
    return Report(seed, list(judge.violations(events)), faults.counts, len(calls), computations, outcomes)
