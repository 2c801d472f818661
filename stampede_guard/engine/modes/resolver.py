"""The modes of a guard and its tenants: the newest settings from all sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stampede_guard.engine.modes.called import CalledPlans
from stampede_guard.engine.modes.modes import Modes, modes_from_environment
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.policy import Mode, Policy
from stampede_guard.stores.switch import Switch
from stampede_guard.values.forks import renew_in_children

__all__ = ["ModeResolver"]


class ModeResolver:
    """`said`: the newest settings. Each change makes another object, so a plan knows whether its mode is outdated."""

    def __init__(self) -> None:
        self.said: Modes = modes_from_environment()
        self.ends: dict[str, float] = {}
        """When the fleet's switches with a time end, by title: what all event loops of the process have read."""
        self.called = CalledPlans()
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)

    @property
    def of_all(self) -> Mode | None:
        """The mode of all functions without a setting of their own. None: the mode of the policy."""
        return self.said.of_all

    def set_program(self, mode: Mode | None) -> None:
        """The program's own setting. Raises `PolicyError`."""
        with self._lock:
            self.said = self.said.with_program(mode)

    def set_fleet(self, fleet: Mapping[str, Switch]) -> None:
        """The switches of the fleet, as the store has them."""
        with self._lock:
            self.said = self.said.with_fleet(fleet)

    def functions(self) -> Iterator[tuple[str, str, Policy]]:
        """Of each function that this process has called: its title, its mode now (`on:0.1` with a sample), its policy.

        May be called from any thread.
        """
        said = self.said
        for plan in self.called.all():
            mode, sample = said.mode_of(plan)
            is_sampled = sample < 1.0 and mode in ("on", "shadow")
            yield plan.title, str(Switch(mode, sample if is_sampled else None)), plan.policy
