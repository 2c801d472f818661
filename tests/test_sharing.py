"""Which worker of a run gets which test, and when."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer

from tests.support.sharing import Sharing, tell_alone

ALONE = ["tests/a/test_x.py::alone[1]", "tests/b/test_y.py::alone"]
LONG = ["tests/soak/test_soak.py::long[1]", "tests/soak/test_soak.py::long[2]"]
SHORT = [f"tests/a/test_x.py::short[{number}]" for number in range(5)]
OTHERS = [f"tests/b/test_y.py::other[{number}]" for number in range(3)]
COMPUTING = [f"tests/core/test_z.py::computes[{number}]" for number in range(4)]
ALL = [*ALONE, *LONG, *SHORT, *OTHERS, *COMPUTING]


class Worker:
    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def names(self) -> list[str]:
        return [ALL[index] for index in self.given]


def begun(place: Path, count: int = 6) -> tuple[Sharing, list[Worker]]:
    tell_alone(place, "gw0", ALONE)
    options: Any = SimpleNamespace(
        option=SimpleNamespace(tx=["popen"] * count), getvalue=lambda _: ["popen"] * count
    )
    sharing, workers = (
        Sharing(options, Producer("none", enabled=False), place),
        [Worker(number) for number in range(count)],
    )
    assert sharing.numnodes == count
    for worker in workers:
        sharing.add_node(worker)  # type: ignore[arg-type]  # what it uses of one
    for worker in workers:
        sharing.add_node_collection(worker, ALL)  # type: ignore[arg-type]
    sharing.schedule()
    return sharing, workers


def test_only_one_worker_begins_with_those_that_are_alone_and_only_some_compute_beside_it(
    tmp_path: Path,
) -> None:
    sharing, (first, *others) = begun(tmp_path)
    assert first.names() == ALONE
    assert [worker.names() for worker in others] == [[], [], [], COMPUTING, []]
    assert [worker.shutting_down for worker in others] == [False, False, False, False, True]
    sharing.mark_test_complete(first, 0)  # type: ignore[arg-type]
    assert first.names() == [*ALONE, LONG[0]], "a worker begins the last one when it knows the next"
    assert not any(worker.given for worker in others[:3])
    sharing.mark_test_complete(first, 1)  # type: ignore[arg-type]
    assert first.names() == [*ALONE, *LONG]
    assert [worker.names() for worker in others[:3]] == [SHORT, OTHERS, []]


def test_every_test_is_given_once_and_in_the_end_all_workers_are_told_to_end(tmp_path: Path) -> None:
    sharing, workers = begun(tmp_path, 8)
    while not sharing.tests_finished:
        for worker in workers:
            if pending := sharing.node2pending[worker]:  # type: ignore[index]
                sharing.mark_test_complete(worker, pending[0])  # type: ignore[arg-type]
    assert sorted(name for worker in workers for name in worker.names()) == sorted(ALL)
    assert all(worker.shutting_down for worker in workers)


def test_what_a_worker_leaves_that_ends_is_given_to_others_and_nobody_waits_for_it(tmp_path: Path) -> None:
    sharing, (first, second, *_) = begun(tmp_path)
    assert sharing.remove_node(first) == ALONE[0]  # type: ignore[arg-type]
    assert second.names() == [ALONE[1], LONG[0]]
    sharing.mark_test_complete(second, 1)  # type: ignore[arg-type]
    assert second.names() == [ALONE[1], *LONG]
