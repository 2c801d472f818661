"""Which worker of a run gets which test, and when. pytest-xdist asks this where there are enough workers.

Three kinds of tests wait for workers. First, those that are alone: one worker runs them one by one. Then the others,
the long ones each for itself, the short ones by files, so that a file's fixtures are made once. Those that only compute
fill what the rest leaves of the machine: workers that give way to all others run them from the first moment, and at the
end everybody does.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from pathlib import Path
from typing import Any

from xdist.remote import Producer
from xdist.scheduler.worksteal import MIN_PENDING, WorkStealingScheduling

from tests.support.computing import fills, only_computes
from tests.support.order import is_long

__all__ = ["Sharing", "tell_alone"]

_ALONE = "alone.json"


def tell_alone(shared: Path, worker: str, nodeids: list[str]) -> None:
    """A worker tells its controller which tests are alone, in the directory of the run: the ids do not say so."""
    told = shared / f"{worker}.json"
    told.write_text(json.dumps(nodeids))
    told.replace(shared / _ALONE)


class Sharing(WorkStealingScheduling):
    """Tests wait here, not at a worker, so none has to be taken back from one. The rest is as pytest-xdist does it."""

    def __init__(self, config: Any, log: Producer, shared: Path) -> None:
        super().__init__(config, log)
        self._shared = shared
        self._steady: deque[list[int]] = deque()
        self._computing: deque[list[int]] = deque()
        self._first: deque[list[int]] = deque()
        self._alone: set[int] = set()

    @property
    def tests_finished(self) -> bool:
        return not self._steady and not self._computing and not self._first and super().tests_finished

    def mark_test_complete(self, node: Any, item_index: int, duration: float | None = None) -> None:
        self._alone.discard(item_index)
        super().mark_test_complete(node, item_index, duration)

    def remove_node(self, node: Any) -> str | None:
        self._alone.difference_update(
            self.node2pending[node]
        )  # those that it has not begun are sorted in again
        return super().remove_node(node)

    def check_schedule(self) -> None:
        if self.pending:
            self._sort_in()
        for node, pending in list(self.node2pending.items()):
            # A worker begins a test when it knows the next one, too.
            while len(pending) < MIN_PENDING and not node.shutting_down:
                if (queue := self._queue(node)) is None:
                    break
                if not queue:
                    node.shutdown()  # it runs what it has
                    break
                self.pending = queue.popleft()
                self._send_tests(node, len(self.pending))

    def _queue(self, node: Any) -> deque[list[int]] | None:
        """What this worker takes from, empty if nothing is left for it. None: it waits for those that are alone."""
        if fills(node.gateway.id, self.numnodes):
            return self._computing
        if self._first:
            return self._first
        if self._alone and not self._alone.intersection(self.node2pending[node]):
            return None
        return self._steady or self._computing

    def _sort_in(self) -> None:
        """Cut into what goes to a worker at once: all that are alone, one long test, or those of a file."""
        assert self.collection is not None
        ids = self.collection
        alone = set(json.loads((self._shared / _ALONE).read_text()))
        of_run = [index for index in self.pending if ids[index] in alone]
        if of_run:
            self._first.append(of_run)
            self._alone.update(of_run)
        rest = (index for index in self.pending if ids[index] not in alone)
        for _, several in itertools.groupby(rest, key=lambda index: _together(ids[index])):
            together = list(several)
            queue = self._computing if only_computes(ids[together[0]]) else self._steady
            queue.append(together)
        self.pending.clear()


def _together(nodeid: str) -> str:
    return nodeid if is_long(nodeid) else nodeid.partition("::")[0]
