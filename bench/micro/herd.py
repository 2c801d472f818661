"""A cold herd of eight processes with fifty callers each: how soon all have the value, with how many commands."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import redis

from bench.micro.commands import CommandCount
from bench.micro.crew import Crew
from bench.micro.row import Row
from bench.micro.value import VALUE_AS_JSON
from bench.micro.worker import CHANNEL

__all__ = ["HerdSizes", "measure_herd"]

RUN_UP = 0.2
"""Seconds from the word to the start, so that every process has heard it."""


class HerdSizes:
    """`seconds` is how long the computation takes."""

    def __init__(
        self,
        *,
        processes: int = 8,
        callers: int = 50,
        seconds: float = 0.45,
        rounds: int = 9,
        counted: int = 3,
    ) -> None:
        self.processes = processes
        self.callers = callers
        self.seconds = seconds
        self.rounds = rounds
        self.counted = counted


def measure_herd(url: str, sizes: HerdSizes, *, step: Callable[[], None]) -> list[Row]:
    """`step` is called after each round."""
    with Crew(url, "micro-herd", sizes.processes) as crew, redis.Redis.from_url(url) as client:
        crew.warm()
        delays: list[list[float]] = []
        floors: list[list[float]] = []
        for number in range(sizes.rounds):
            floors.append(_floor(crew, client, sizes))
            delays.append(_delays(_herd(crew, sizes, f"timed:{number}")))
            step()
        counts: list[CommandCount] = []
        for number in range(sizes.counted):
            with CommandCount(url) as count:
                _herd(crew, sizes, f"counted:{number}")
            counts.append(count)
            step()
    work = f"{sizes.processes} processes x {sizes.callers} callers"
    return [
        _wake_up("median", work, delays, floors, statistics.median),
        _wake_up("p99", work, delays, floors, _p99),
        _commands(work, sizes, counts),
    ]


def _herd(crew: Crew, sizes: HerdSizes, key: str) -> list[dict[str, Any]]:
    crew.tell_all(
        do="herd", key=key, seconds=sizes.seconds, callers=sizes.callers, at=time.monotonic() + RUN_UP
    )
    heard = crew.hear_all()
    computed = sum(len(answer["made"]) for answer in heard)
    if computed != 1:
        raise RuntimeError(f"{computed} computations of one key; there must be exactly one")
    return heard


def _delays(heard: list[dict[str, Any]]) -> list[float]:
    """Seconds from the moment that the computation returned, for callers of the processes that waited for it."""
    made = next(answer["made"][0] for answer in heard if answer["made"])
    return [got - made for answer in heard if not answer["made"] for got in answer["got"]]


def _floor(crew: Crew, client: redis.Redis, sizes: HerdSizes) -> list[float]:
    crew.tell_all(do="floor", callers=sizes.callers)
    crew.hear_all()
    # As long as the herd waits: what has slept is out of the processor's caches, and wakes up more slowly.
    time.sleep(sizes.seconds)
    published = time.monotonic()
    client.publish(CHANNEL, VALUE_AS_JSON)
    return [got - published for answer in crew.hear_all() for got in answer["got"]]


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * len(values))]


def _wake_up(
    name: str,
    work: str,
    delays: list[list[float]],
    floors: list[list[float]],
    figure: Callable[[list[float]], float],
) -> Row:
    ours = [1000 * figure(round_) for round_ in delays]
    floor = [1000 * figure(round_) for round_ in floors]
    return Row(
        name=f"wake_up_{name}",
        work=f"wake-up, {name}; {work}",
        ours=statistics.median(ours),
        baseline=statistics.median(floor),
        unit="ms",
        figure=statistics.median(mine / bare for mine, bare in zip(ours, floor, strict=True)),
        target=2,
        better="less",
        samples=len(ours),
        details={"ours_by_round": ours, "floor_by_round": floor},
    )


def _commands(work: str, sizes: HerdSizes, counts: list[CommandCount]) -> Row:
    totals = [count.total for count in counts]
    return Row(
        name="commands",
        work=f"Redis commands of a cold herd, {1000 * sizes.seconds:g} ms; {work}",
        ours=statistics.median(totals),
        baseline=None,
        unit="",
        figure=max(totals),
        target=60,
        better="less",
        samples=len(totals),
        details={"totals": totals, "by_command": [dict(count.counts) for count in counts]},
    )
