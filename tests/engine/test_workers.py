"""Several workers run the tests: those that want the machine for themselves have it, and all can be counted."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.alone import Machine
from tests.support.order import dealt
from tests.support.sendable import report_sendable, sendable
from tests.support.titles import titled

PATIENCE = 60.0
WORKERS = 4


def test_who_shares_is_in_the_room_with_others(tmp_path: Path) -> None:
    all_inside = threading.Barrier(WORKERS)

    def worker(_: int) -> None:
        with Machine(tmp_path).taken(alone=False):
            all_inside.wait(PATIENCE)

    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(worker, range(WORKERS)))


def test_who_is_alone_meets_nobody(tmp_path: Path) -> None:
    inside: set[int] = set()
    met: list[int] = []

    def worker(number: int) -> None:
        machine = Machine(tmp_path)
        for turn in range(50):
            alone = (turn + number) % 5 == 0
            with machine.taken(alone=alone):
                inside.add(number)
                time.sleep(0.001)  # another comes in, if he can
                if alone:
                    met.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(worker, range(WORKERS)))
    assert met == [1] * (WORKERS * 10)


def test_a_test_that_is_alone_says_why(request: pytest.FixtureRequest) -> None:
    marks = {item.nodeid: item.get_closest_marker("alone") for item in request.session.items}
    assert [name for name, mark in marks.items() if mark and not mark.kwargs.get("reason")] == []


def test_each_share_begins_with_what_is_alone_and_long_and_no_test_is_lost(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items
    for workers in range(1, 7):
        made = dealt(items, workers)
        assert sorted(map(id, made)) == sorted(map(id, items))
        assert made == dealt(items, workers)


class Given:
    def __init__(self, nodeid: str, *, alone: bool = False) -> None:
        self.nodeid, self.alone = nodeid, alone

    def get_closest_marker(self, name: str) -> object:
        return True if self.alone else None


def test_long_tests_are_dealt_out_one_to_each_worker() -> None:
    short = [Given(f"tests/test_short.py::{number}") for number in range(8)]
    long = [Given("tests/soak/test_soak.py::a"), Given("tests/engine/test_flood.py::b")]
    alone = [Given("tests/test_short.py::c", alone=True), Given("tests/test_short.py::d", alone=True)]
    given: Any = [*short[:5], *long, *short[5:], *alone]
    assert dealt(given, 2) == [alone[0], long[0], *short[:4], alone[1], long[1], *short[4:]]


def test_what_a_test_logs_reaches_the_process_that_counts_also_if_it_is_half_a_character() -> None:
    told = {
        "sections": [("log", "half \ud83d"), ("out", "whole \U0001f600")],
        "when": "call",
        "duration": 0.5,
    }
    sent = sendable(told)
    assert sent["sections"] == [("log", "half \\ud83d"), ("out", "whole \U0001f600")]
    assert str(sent).encode("utf-8") and sent["duration"] == 0.5


def test_a_report_is_sent_without_what_selects_tests_and_anything_else_as_it_is() -> None:
    report = {"nodeid": "a", "keywords": {"a": 1, "b": 1}, "sections": [("out", "said")]}
    assert report_sendable(report) == {**report, "keywords": {}}
    assert report["keywords"], "who runs the test still has them"
    assert report_sendable({"nodeid": "a"}) == {"nodeid": "a"}
    assert report_sendable(None) is None


def test_titles_are_the_same_in_every_worker() -> None:
    assert titled([len, object()]) == "[<built-in function len>, <object object>]"
    assert titled(sendable).startswith("<function sendable")
    assert " 0x" not in titled(sendable)
