"""A case: the policies of its keys, its weather, and who does what when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.engine.fuzz.network import Weather

__all__ = ["BEGIN", "Action", "Case", "Key"]

BEGIN = 1_000.0
"""Of virtual time."""


@dataclass(frozen=True)
class Key:
    """`fields`: of its policy; `tags`: of the entry. `uncacheable`: every third value may not be stored; `never`: none.

    `many`: an id of a batched function.
    """

    name: str
    fields: dict[str, Any]
    tags: tuple[str, ...]
    uncacheable: bool
    bound: bool
    own_ttl: bool
    tenant: str = ""
    many: bool = False
    never: bool = False

    @property
    def plain_name(self) -> str:
        """Without its tenant."""
        return self.name.rpartition("/")[2]

    @property
    def entry(self) -> str:
        """The name in the store; those of batches are known to their functions alone."""
        return f"t:{self.tenant}:={self.plain_name}" if self.tenant else f"t:={self.plain_name}"


@dataclass(frozen=True)
class Action:
    """`work`: seconds before and after a computation reads its data. `after`: seconds until its caller is cancelled.

    `ids`: of a batch. `mode`: that it switches to; none = the setting is removed. `loop`: the event loop of its guard
    in which it happens.
    """

    at: float
    guard: str
    key: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    work: tuple[float, float] = (0.0, 0.0)
    outcome: str = "value"
    after: float | None = None
    bound: bool = False
    ids: tuple[str, ...] = ()
    tag: str = "t"
    mode: str = ""
    sample: float | None = None
    lasting: float | None = None
    loop: int = 0


@dataclass(frozen=True)
class Case:
    seed: int
    guards: tuple[str, ...]
    keys: dict[str, Key]
    weather: Weather
    actions: tuple[Action, ...]
    hooks: bool
    calm: bool
    """No guard is closed and no caller is cancelled."""
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Fields that a guard has otherwise."""
    most: int = 500
    """Ids in one call of a batched function."""
    themes: tuple[str, ...] = ()
    loops: int = 1
    """Event loops in each process."""
    nodes: int = 1
    """Nodes of the store."""

    def most_of(self, name: str, key: str) -> Any:
        """The largest value of a field of the policy, over all guards."""
        return max(self._all_of(name, key))

    def least_of(self, name: str, key: str) -> Any:
        return min(self._all_of(name, key))

    def _all_of(self, name: str, key: str) -> list[Any]:
        others = [fields[name] for fields in self.policies.values() if name in fields]
        others += [each.fields[name] for each in self.actions if each.key == key and name in each.fields]
        return [self.keys[key].fields[name], *others]
