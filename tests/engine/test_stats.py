"""Sums of one process: nothing counted twice, nothing lost that can be kept, memory bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import pytest

from stampede_guard.engine.stats.counting import MOST_FUNCTIONS, OTHERS, Sums
from stampede_guard.engine.stats.publisher import MinuteSums, Publisher
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.events import Computed, Hit, Miss, Stale
from stampede_guard.stores.fleet.series import MINUTES, Series
from stampede_guard.stores.fleet.sums import FunctionSums, from_fields, to_fields


class Server:
    """Adds sums as the script does, with a clock of its own."""

    def __init__(self) -> None:
        self.minute = 1000
        self.added: list[tuple[int, dict[str, int]]] = []
        self.error: Exception | None = None
        self.away = False
        self.was_asked = asyncio.Event()

    async def add(self, series: Series, minute: int, numbers: Mapping[str, int]) -> int:
        assert series is MINUTES
        self.was_asked.set()
        if self.error is not None:
            raise self.error
        if abs(self.minute - minute) <= 1:
            self.added.append((minute, dict(numbers)))
        return self.minute

    def publisher(self, sums: Sums, **others: Any) -> Publisher[Any]:
        return Publisher(MinuteSums(sums), self.add, lambda: self.away, clock=lambda: 1000 * 60.0, **others)


def counted(sums: Sums, hits: int) -> None:
    for _ in range(hits):
        sums(Hit("shop.quality", "shop:quality:7"))


def test_calls_and_computations_are_counted_by_function() -> None:
    sums = Sums()
    counted(sums, 2)
    sums(Stale("shop.quality", "entry"))
    sums(Miss("shop.report", "entry"))
    sums(Computed("shop.report", "entry", 0.25, "flight"))
    sums(Computed("shop.report", "entry", 0.5, "flight", error="LookupError"))
    rows = sums.take()
    assert rows == {
        "shop.quality": FunctionSums(hits=2, stale=1),
        "shop.report": FunctionSums(
            misses=1, computations=2, failed=1, micros=750_000, took=[0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
        ),
    }
    assert sums.take() == {}
    stored = {name.encode(): b"%d" % number for name, number in to_fields(rows).items()}
    assert from_fields([stored, {b"hits:shop.quality": b"1", b"other": b"x", b"hits:bad": b"-"}]) == {
        "shop.quality": FunctionSums(hits=3, stale=1),
        "shop.report": rows["shop.report"],
    }


def test_memory_does_not_grow_with_names() -> None:
    sums = Sums()
    for number in range(3 * MOST_FUNCTIONS):
        sums(Hit(f"report of {number}", "entry"))
    rows = sums.take()
    assert len(rows) == MOST_FUNCTIONS + 1
    assert rows[OTHERS].hits == 2 * MOST_FUNCTIONS


async def test_the_servers_clock_decides_the_minute() -> None:
    sums, server = Sums(), Server()
    server.minute = 2000
    publisher = server.publisher(sums)
    counted(sums, 3)
    await publisher.send()
    counted(sums, 4)
    await publisher.send()
    assert server.added == [(2000, {"hits:shop.quality": 3}), (2000, {"hits:shop.quality": 4})]


@pytest.mark.parametrize(
    ("error", "kept"),
    [(StoreRefused("NOPERM"), 5), (StoreUnavailable("a time-out"), 2), (RuntimeError("a user's store"), 2)],
)
async def test_only_what_was_certainly_not_added_is_sent_again(error: Exception, kept: int) -> None:
    sums, server = Sums(), Server()
    publisher = server.publisher(sums)
    counted(sums, 3)
    server.error = error
    await publisher.send()
    counted(sums, 2)
    server.error = None
    await publisher.send()
    assert server.added == [(1000, {"hits:shop.quality": kept})]


async def test_an_answer_that_is_lost_after_the_clock_was_corrected_adds_nothing_twice() -> None:
    sums, server = Sums(), Server()
    server.minute = 2000
    answers: list[Exception | None] = [None, StoreUnavailable("a time-out")]

    async def add(series: Series, minute: int, numbers: Mapping[str, int]) -> int:
        there = await server.add(series, minute, numbers)
        if answers and (error := answers.pop(0)) is not None:
            raise error  # the server has added them
        return there

    publisher = Publisher(MinuteSums(sums), add, lambda: False, clock=lambda: 1000 * 60.0)
    counted(sums, 3)
    await publisher.send()
    counted(sums, 4)
    await publisher.send()
    assert answers == []
    assert server.added == [(2000, {"hits:shop.quality": 3}), (2000, {"hits:shop.quality": 4})]


async def test_while_the_store_is_away_the_numbers_stay() -> None:
    sums, server = Sums(), Server()
    publisher = server.publisher(sums)
    counted(sums, 3)
    server.away = True
    await publisher.send()
    assert not server.was_asked.is_set()
    server.away = False
    await publisher.send()
    assert server.added == [(1000, {"hits:shop.quality": 3})]


async def test_it_sends_after_each_pause_and_once_more_at_the_end() -> None:
    sums, server = Sums(), Server()
    pauses: asyncio.Queue[float] = asyncio.Queue()
    go_on = asyncio.Semaphore(0)

    async def pause(seconds: float) -> None:
        pauses.put_nowait(seconds)
        await go_on.acquire()

    publisher = server.publisher(sums, pause=pause)
    publisher.start()
    publisher.start()
    counted(sums, 1)
    assert 8 <= await pauses.get() <= 12
    go_on.release()
    await pauses.get()
    assert server.added == [(1000, {"hits:shop.quality": 1})]
    counted(sums, 2)
    await publisher.aclose()
    assert server.added[1:] == [(1000, {"hits:shop.quality": 2})]
    assert pauses.empty()


def test_a_forked_child_does_not_send_what_its_parent_counted() -> None:
    sums = Sums()
    counted(sums, 3)
    child = os.fork()
    if child == 0:
        counted(sums, 1)
        os._exit(sums.take()["shop.quality"].hits)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert sums.take()["shop.quality"].hits == 3
