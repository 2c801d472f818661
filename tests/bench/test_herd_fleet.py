"""The metrics of a fleet's workers. No worker runs: their files are the test's."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from bench.herd.fleet import Fleet
from bench.herd.processes import Child


@dataclass
class Worker:
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        return self.returncode or 0


class NoSettings:
    def to_environment(self) -> dict[str, str]:
        return {}


def test_gauges_of_a_worker_that_was_killed_count_no_longer(tmp_path: Path) -> None:
    alive, killed = Worker(71), Worker(72)
    fleet = Fleet(NoSettings(), 2)
    fleet._children = [Child(worker, signal.SIGTERM, None) for worker in (alive, killed)]
    fleet._metrics = tmp_path
    for worker in (alive, killed):
        for kind in ("counter", "gauge_livesum", "gauge_livemax"):
            (tmp_path / f"{kind}_{worker.pid}.db").touch()
    fleet.forget_dead()
    assert len(list(tmp_path.iterdir())) == 6
    killed.returncode = -signal.SIGKILL
    for _ in range(2):
        fleet.forget_dead()
        assert {path.stem for path in tmp_path.iterdir()} == {
            "counter_71", "gauge_livesum_71", "gauge_livemax_71", "counter_72",
        }  # fmt: skip
