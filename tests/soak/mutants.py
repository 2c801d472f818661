"""The library without one of its rules. The judge must notice each, or it would notice nothing.

A mutant is applied in every worker, before its guard is made. `faults` are those that bring it to light.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stampede_guard.api.keyed import values
from stampede_guard.engine.away.last_seen import LastSeen
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.flights import delivery
from stampede_guard.stores import scripted
from stampede_guard.stores.scripted import ScriptedSession

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`found_by`: one of these rules of the judge is broken."""

    apply: Callable[[], None]
    found_by: tuple[str, ...]
    faults: tuple[str, ...] = ()


def _script(name: str, rule: str, instead: str) -> Callable[[], None]:
    """A script with other text in the place of a rule, which must be there."""

    def apply() -> None:
        script: Any = getattr(scripted, name)
        text = script.text.decode()
        assert rule in text, f"{name} has no such rule any more: {rule}"
        script.text = text.replace(rule, instead).encode()
        script.digest = hashlib.sha1(script.text, usedforsecurity=False).hexdigest().encode()

    return apply


def _nothing(*_: Any, **__: Any) -> None:
    """In the place of a method that forgets."""


def _users_share_entries() -> None:
    named = values.entry_key

    def without_user(key: str, *rest: Any) -> str:
        head, _, last = key.rpartition(":")
        return named(f"{head.partition(':')[0]}:{last}", *rest)

    values.entry_key = without_user


def _late_passengers_are_served() -> None:
    deliver = delivery.Delivery.deliver

    def to_everyone(self: Any, outcome: Any, to: Any, **keeps: Any) -> Any:
        return deliver(self, outcome, "everyone" if to in ("covered", "before_compute") else to, **keeps)

    delivery.Delivery.deliver = to_everyone  # type: ignore[method-assign]


def _last_values_stay() -> None:
    for name in ("drop", "missing", "outdate"):
        setattr(LastSeen, name, _nothing)


def _pending_is_forgotten() -> None:
    _last_values_stay()
    Unsettled.begin = _nothing  # type: ignore[method-assign]
    Unsettled.end = _nothing  # type: ignore[method-assign]
    Unsettled.wait = _nothing  # type: ignore[method-assign]
    Unsettled.settle = _nothing  # type: ignore[method-assign]


def _tags_are_not_dropped() -> None:
    async def nothing(self: Any, tag: str) -> None: ...

    ScriptedSession.drop_tag = nothing  # type: ignore[method-assign]


MUTANTS: dict[str, Mutant] = {
    "no fence": Mutant(_script("_PUBLISH", "token >= tonumber(record[2] or 0)", "true"), ("old", "own")),
    "no lease": Mutant(
        _script("_ACQUIRE", "local held = lease[1] and", "local held = false and"), ("beside",)
    ),
    "nothing is stored": Mutant(
        _script(
            "_PUBLISH",
            "local kept, why = store(KEYS[VALUE]",
            "local kept, why = #KEYS > 0 or store(KEYS[VALUE]",
        ),
        ("again",),
    ),
    "users share entries": Mutant(_users_share_entries, ("theirs",)),
    "late passengers are served": Mutant(_late_passengers_are_served, ("old", "own")),
    "tags are not dropped": Mutant(_tags_are_not_dropped, ("old", "own")),
    "pending is forgotten": Mutant(
        _pending_is_forgotten, ("own", "old", "pending"), ("freeze the server", "refuse writes")
    ),
}
