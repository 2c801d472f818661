"""The functions that this process has called, for viewers of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan

__all__ = ["MOST_CALLED", "CalledPlans"]

MOST_CALLED = 1000
"""Plans that are noted, by title. The ones noted longest ago are forgotten, and those whose function is gone."""


class CalledPlans:
    """A plan is noted when its mode is looked up: at its first call, and after each change of the settings."""

    def __init__(self) -> None:
        self._plans: WeakValueDictionary[str, Plan] = WeakValueDictionary()
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)

    def note(self, plan: Plan) -> None:
        """If several plans have this title, the last one counts."""
        with self._lock:
            self._plans.pop(plan.title, None)
            while len(self._plans) >= MOST_CALLED:
                self._plans.pop(next(iter(self._plans)), None)
            self._plans[plan.title] = plan

    def all(self) -> list[Plan]:
        with self._lock:
            return list(self._plans.values())
