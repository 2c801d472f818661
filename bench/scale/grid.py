"""Every process calls every key once, cold and then warm: computations, and what a call costs both sides."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import redis

from bench.micro.crew import Crew

__all__ = ["Cell", "Walk", "measure_cell", "measure_grid"]


CALLS_A_CELL = 2_000
MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """`calls` of all processes together. Microseconds of processor time per call, ours and the server's; `seconds`
    from the first call to the last answer."""

    calls: int
    computations: int
    ours: float
    server: float
    seconds: float

    @property
    def rate(self) -> float:
        """Calls per second, all processes together."""
        return self.calls / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`cold`: every first call of a key is a miss, the others join. `warm`: every call is a hit."""

    processes: int
    keys: int
    rounds: int
    cold: Walk
    warm: Walk

    @property
    def as_promised(self) -> bool:
        """One computation for a key, for any number of callers. None if the value is stored."""
        return self.cold.computations == self.keys * self.rounds and self.warm.computations == 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"as_promised": self.as_promised}


def measure_grid(
    url: str, processes: Sequence[int], keys: Sequence[int], *, step: Callable[[], None]
) -> list[Cell]:
    """Calls `step` once a cell. Raises `RuntimeError` when a worker dies."""
    cells = []
    for count in processes:
        with Crew(url, f"scale-{uuid.uuid4().hex[:8]}", count, module="bench.scale.worker") as crew:
            _walk(crew, url, "warm-up", 64, count)
            for number in keys:
                cells.append(measure_cell(crew, url, processes=count, keys=number))
                step()
    return cells


def measure_cell(crew: Crew, url: str, *, processes: int, keys: int) -> Cell:
    """A cell of few keys is measured several times over, with keys of its own each time, and is the mean of that."""
    rounds = min(MOST_ROUNDS, max(1, CALLS_A_CELL // keys))
    cold, warm = [], []
    for _ in range(rounds):
        cell = uuid.uuid4().hex[:8]
        cold.append(_walk(crew, url, cell, keys, processes))
        warm.append(_walk(crew, url, cell, keys, processes))
    return Cell(processes=processes, keys=keys, rounds=rounds, cold=_together(cold), warm=_together(warm))


def _together(walks: Sequence[Walk]) -> Walk:
    calls = sum(walk.calls for walk in walks)
    return Walk(
        calls=calls,
        computations=sum(walk.computations for walk in walks),
        ours=sum(walk.ours * walk.calls for walk in walks) / calls,
        server=sum(walk.server * walk.calls for walk in walks) / calls,
        seconds=sum(walk.seconds for walk in walks),
    )


def _walk(crew: Crew, url: str, cell: str, keys: int, processes: int) -> Walk:
    with redis.Redis.from_url(url) as client:
        before = _cpu(client)
        crew.tell_all(do="walk", cell=cell, keys=keys, at=time.monotonic() + 0.05)
        answers = crew.hear_all()
        spent = _cpu(client) - before
    calls = keys * processes
    return Walk(
        calls=calls,
        computations=sum(answer["computations"] for answer in answers),
        ours=sum(answer["cpu"] for answer in answers) / calls * 1e6,
        server=spent / calls * 1e6,
        seconds=max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers),
    )


def _cpu(client: redis.Redis) -> float:
    cpu: dict[str, Any] = client.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])
