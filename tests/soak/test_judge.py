"""The judge on journals made by hand: each rule, what breaks it, and what explains it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.journal import Call, Computation, Event, Fault, Invalidation, Journal, Lifetime, read
from tests.soak.judge import judge

A, B = "quality/ann/1", "quality/bob/1"
INF = float("inf")


def call(began: float, version: int, *, process: str = "p", **given: object) -> Call:
    made = Call(process, 1, A, began, ended=began + 0.1, outcome="value", found_key=A, version=version)
    return replace(made, **given)  # type: ignore[arg-type]


def computed(began: float, ended: float, *, process: str = "p", id: int = 1, **given: object) -> Computation:
    return replace(Computation(process, id, A, began, 1, 10.0, ended=ended), **given)  # type: ignore[arg-type]


def invalidated(began: float, ended: float, answer: str = "done", *, process: str = "q") -> Invalidation:
    return Invalidation(process, (A,), (2,), began, ended, answer)  # type: ignore[arg-type]


AWAY = Fault("freeze the server", 100.0, 101.0, away=True)
KILLED = Lifetime("p", 0.0, 105.0, clean=False)

CASES: list[tuple[str, list[Event], list[str]]] = [
    ("a value of its own", [call(1, 1)], []),
    ("another one's value", [call(1, 1, found_key=B)], ["theirs"]),
    ("another one's failure", [call(1, -1, outcome="source failed", found_key=B)], ["theirs"]),
    ("an older value after done", [invalidated(1, 2), call(3, 1)], ["old"]),
    ("the new value after done", [invalidated(1, 2), call(3, 2)], []),
    ("a call from before", [invalidated(1, 2), call(1.9, 1)], []),
    ("copies in the process, for a while", [invalidated(1, 2), call(2.4, 1, tolerates=0.5)], []),
    ("copies in the process, for too long", [invalidated(1, 2), call(2.6, 1, tolerates=0.5)], ["old"]),
    ("the store is away", [invalidated(99, 99.5), AWAY, call(100.5, 1)], []),
    (
        "the store refuses writes, which is not away",
        [invalidated(99, 99.5), replace(AWAY, away=False), call(100.5, 1)],
        ["old"],
    ),
    ("the store was away long ago", [invalidated(99, 99.5), AWAY, call(110, 1)], ["old"]),
    (
        "its own invalidation, the store away",
        [invalidated(100, 100.1, "pending", process="p"), AWAY, call(100.5, 1)],
        ["own"],
    ),
    (
        "its own invalidation, in time of copies",
        [invalidated(1, 2, process="p"), call(2.1, 1, tolerates=0.5)],
        ["own"],
    ),
    ("pending elsewhere, the store away", [invalidated(100, 100.1, "pending"), AWAY, call(100.5, 1)], []),
    ("pending elsewhere, long after", [invalidated(100, 100.1, "pending"), AWAY, call(120, 1)], ["pending"]),
    (
        "pending in a process that was killed",
        [invalidated(100, 100.1, "pending", process="p"), AWAY, KILLED, call(120, 1, process="r")],
        [],
    ),
    ("refused: nothing was promised", [invalidated(1, 2, "refused"), call(3, 1)], []),
    ("older after a refresh", [call(1, 5, kind="refresh"), call(2, 4)], ["refreshed"]),
    ("older after a refresh elsewhere", [call(1, 5, kind="refresh"), call(2, 4, process="q")], []),
    ("older after a refresh and a fault", [call(99, 5, kind="refresh"), AWAY, call(102, 4)], []),
    ("two at once", [computed(1, 2), computed(1.5, 2.5, process="q")], ["beside"]),
    ("two at once in one process", [computed(1, 2), computed(1.5, 2.5, id=2)], ["beside"]),
    ("two at once, bypassed", [computed(1, 2), computed(1.5, 2.5, process="q", judged=False)], []),
    ("two at once after a fault", [computed(99.5, 102), AWAY, computed(101.5, 102.5, process="q")], []),
    (
        "two at once after a fault of somebody else",
        [computed(99.5, 102), replace(AWAY, process="r"), computed(101.5, 102.5, process="q")],
        ["beside"],
    ),
    ("the killed one's replacement", [computed(104, INF), KILLED, computed(105.5, 106, process="q")], []),
    ("one after the other, in time", [computed(1, 2), computed(12.5, 13, process="q")], []),
    ("once more while fresh", [computed(1, 2), computed(5, 6, process="q")], ["again"]),
    ("once more after a failure", [computed(1, 2, failed=True), computed(5, 6, process="q")], []),
    (
        "once more after an invalidation",
        [computed(1, 2), invalidated(3, 3.1), computed(5, 6, process="q")],
        [],
    ),
    (
        "once more for a refresh",
        [computed(1, 2), call(4, 1, kind="refresh", ended=6.1), computed(5, 6, process="q")],
        [],
    ),
    ("once more after a fault", [computed(99, 99.5), AWAY, computed(102, 103, process="q")], []),
    ("a call that takes too long", [call(1, 1, ended=40)], ["ended"]),
    ("a call that never ends", [call(1, -1, outcome="unfinished", ended=INF)], ["ended"]),
    ("a call of a killed process", [call(104, -1, outcome="unfinished", ended=INF), KILLED], []),
    ("an error that nobody expects", [call(1, -1, outcome="other error", error="KeyError")], ["errors"]),
    ("a time-out for no reason", [call(1, -1, outcome="timed out")], ["errors"]),
    ("a time-out in a fault", [call(100.5, -1, outcome="timed out"), AWAY], []),
    ("a cancelled call", [call(1, -1, outcome="cancelled")], []),
]


@pytest.mark.parametrize(("events", "broken"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_judge_finds_what_breaks_a_rule_and_nothing_else(events: list[Event], broken: list[str]) -> None:
    found = judge(events, settle=3.0, longest=30.0)
    assert [violation.rule for violation in found] == broken
    assert judge(reversed(events), settle=3.0, longest=30.0) == found


def test_a_journal_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "p.jsonl")
    begun = call(1, -1, outcome="unfinished", ended=INF)
    events: list[Event] = [call(1, 1), computed(1, 2), invalidated(1, 2), AWAY, KILLED]
    for event in (begun, *events):
        journal.write(event)
    with journal.path.open("a") as file:
        file.write('{"event": "Call", "proc')  # killed while it wrote
    assert read(tmp_path) == events
