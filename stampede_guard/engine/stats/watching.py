"""The counts of this process while a viewer of its fleet is open: one hook of a guard, and no cost without it.

Every process publishes once in each slot of five seconds, at its own moment in it. So the gauges of a slot, summed over
the processes, are those of the fleet: how many processes there are, and for how many of them the store is away.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.stats.counting import MOST_FUNCTIONS, Sums
from stampede_guard.engine.stats.happenings import Happenings, hashed
from stampede_guard.engine.stats.hottest import Hottest
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.events import Event, Hit, Miss, Stale
from stampede_guard.policy import Policy
from stampede_guard.stores.fleet.policies import policy_text
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.sums import FunctionSums, to_fields
from stampede_guard.values.forks import renew_in_children

__all__ = ["HOT", "POLICIES", "POLICY", "PROCESSES", "RUNS", "Watching"]

HOTTEST = 10
"""Entries that one process publishes in a slot."""
POLICIES = 10
"""Functions whose policy one process publishes in a slot. They take turns, from a random one on."""
YOUNG = 600.0
"""Seconds that the figures of the console show."""
HOT = "hot"
RUNS = "runs"
"""A function and the mode in which a process runs it."""
POLICY = "policy"
PROCESSES = "processes"

Gauges = Callable[[], Mapping[str, int]]
Item = TypeVar("Item")
Called = Callable[[], Iterable[tuple[str, str, Policy]]]


class Watching:
    """Of one guard; all its event loops share it. `gauges()` are numbers of this process at this moment.

    `called()`: the title, the mode and the policy of each function that this process has called.
    """

    gauges: Gauges = staticmethod(dict)
    called: Called = staticmethod(tuple)

    series = WATCHED
    reader = "stampede-guard top"

    def __init__(self, hooks: Hooks, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._hooks = hooks
        self._clock = clock
        self._born: float | None = clock()
        """When this process began. None if it has told that."""
        renew_in_children(self, "_born", clock)
        self.on = False
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        self._place = self._any_place()
        # Children of one parent would all publish in the same moment, and each of them what the parent has counted.
        renew_in_children(self, "_place", self._any_place)
        renew_in_children(self, "_hottest", Hottest)
        self._begin(shows_names=False)

    @classmethod
    def _any_place(cls) -> float:
        return random.random() * cls.series.seconds

    def _begin(self, *, shows_names: bool) -> None:
        self.shows_names = shows_names
        self._sums = Sums()
        self._hottest = Hottest()
        self.happenings = Happenings(shows_names=shows_names)
        self._told_slot = 0
        self._turn = self._policy_turn = random.randrange(1 << 20)

    def switch(self, *, on: bool, shows_names: bool = False) -> None:
        """Somebody begins or ends to watch: the numbers begin anew. A further viewer changes only the names."""
        with self._lock:
            if on == self.on:
                self.shows_names = self.happenings.shows_names = shows_names
                return
            self._begin(shows_names=shows_names)
            if on:
                self._tell_birth()
                self._hooks.add(self)
            else:
                self._hooks.remove(self)
            self._hooks.steps = self._step if on else None
            self.on = on

    def _tell_birth(self) -> None:
        """Once, and only if a page that opens now can show it: so a viewer does not make an old fleet tell at once."""
        if self._born is not None and (ago := self._clock() - self._born) < YOUNG:
            self.happenings.began(ago)
        self._born = None

    def __call__(self, event: Event, /) -> None:
        self._sums(event)
        self.happenings(event)
        if isinstance(event, Hit | Stale | Miss):
            with self._lock:
                self._hottest.add(event.function, event.entry)

    def _step(self, kind: str, function: str, entry: str, details: Mapping[str, object]) -> None:
        self.happenings.step(kind, function, entry, details)

    # --- publication ---------------------------------------------------------------------------

    def pause(self, now: float) -> float:
        """Until this process's own moment in the next slot."""
        passed = now % self.series.seconds
        return self.series.seconds - passed + self._place

    def take(self) -> dict[str, FunctionSums]:
        return self._sums.take()

    def put_back(self, rows: Mapping[str, FunctionSums]) -> None:
        self._sums.put_back(rows)

    def numbers(self, rows: Mapping[str, FunctionSums], slot: int) -> Mapping[str, int]:
        """The sums; and once per slot and process the gauges, the hottest entries, modes and policies."""
        found = to_fields(rows)
        with self._lock:
            if slot == self._told_slot:
                return found
            self._told_slot = slot
            hottest, self._hottest = self._hottest, Hottest()
        for function, entry, calls in hottest.top(HOTTEST):
            shown = entry if self.shows_names else hashed(entry)
            found[f"{HOT}:{function}\n{shown}"] = calls
        found |= self._modes_and_policies(rows)
        if self._sums.left_out:
            found |= {"left_out:": self._sums.left_out, "leaving_out:": 1}
        found[f"{PROCESSES}:"] = 1
        found |= {f"{name}:": number for name, number in self.gauges().items() if number}
        return found

    def _modes_and_policies(self, rows: Mapping[str, FunctionSums]) -> dict[str, int]:
        """Modes of functions that were called or do not simply use the store, and some policies in turn.

        Calls in the modes `off` and `shadow` are not counted: only the mode shows such a function.
        """
        functions = list(self.called())
        told = [(title, mode) for title, mode, _ in functions if mode != "on" or title in rows]
        modes, self._turn = _in_turn(told, self._turn, MOST_FUNCTIONS)
        policies, self._policy_turn = _in_turn(functions, self._policy_turn, POLICIES)
        found = {f"{RUNS}:{title}\n{mode}": 1 for title, mode in modes}
        return found | {f"{POLICY}:{title}\n{policy_text(policy)}": 1 for title, _, policy in policies}


def _in_turn(items: Sequence[Item], turn: int, most: int) -> tuple[list[Item], int]:
    """At most so many of the items, in their order, and the turn after them."""
    if len(items) <= most:
        return list(items), turn
    places = sorted((turn + place) % len(items) for place in range(most))
    return [items[place] for place in places], (turn + most) % len(items)
