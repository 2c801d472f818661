"""What happened in a fuzzed fleet, in its order: the judge reads nothing else."""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stampede_guard.policy import Policy

__all__ = ["Call", "Computation", "Change", "Journal", "Moment", "number_in", "text_of"]


class Moment(NamedTuple):
    """`step` orders moments at the same time."""

    time: float
    step: int


LATELY = 1.0
"""Seconds. A caller may join a flight that was not answered a moment ago."""
NEVER = Moment(float("inf"), 2**62)


def text_of(number: int, version: int) -> str:
    return f"value #{number} of version {version};"


def number_in(text: Any) -> int:
    """The number of the computation, or set, that made these bytes, this value or this error; 0: of none."""
    given = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    found = re.search(r"#(\d+) of version", given)
    return int(found[1]) if found else 0


@dataclass
class Call:
    """A caller that wants a value. `made`: the number of the computation whose value or error it got; 0 = none.

    `group`: the keys that it wants together. `absent`: it was told that there is no such id.
    """

    index: int
    guard: str
    key: str
    kind: str
    policy: Policy
    bound: bool
    began: Moment
    ended: Moment = NEVER
    made: int = 0
    error: BaseException | None = None
    cancelled: bool = False
    group: tuple[str, ...] = ()
    absent: bool = False


@dataclass
class Computation:
    """Also a `set`, whose `kind` says so. `version`: that of the data which it read."""

    number: int
    guard: str
    key: str
    kind: str
    call: int
    began: Moment
    ended: Moment = NEVER
    version: int = 0
    outcome: str = ""


@dataclass
class Change:
    """Data of a key were written, and then it was invalidated or set. `version`: that of the data afterwards."""

    guard: str
    key: str
    kind: str
    version: int
    began: Moment
    ended: Moment = NEVER
    answer: str = ""


@dataclass
class Journal:
    loop: asyncio.AbstractEventLoop
    lines: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    computations: dict[int, Computation] = field(default_factory=dict)
    batches: dict[int, dict[str, int]] = field(default_factory=dict)
    """What the first computation of a batch stands for: the numbers of all, by key."""
    unchanged: dict[int, list[Computation]] = field(default_factory=dict)
    """The computations that found the value of this one unchanged."""
    changes: list[Change] = field(default_factory=list)
    publications: list[tuple[Moment, str, int, int]] = field(default_factory=list)
    grants: list[tuple[Moment, str, int]] = field(default_factory=list)
    """When, entry, and token."""
    refusals: set[int] = field(default_factory=set)
    """The computations whose publications the store has refused."""
    tokens: dict[int, int] = field(default_factory=dict)
    store_errors: list[tuple[Moment, str, str, BaseException]] = field(default_factory=list)
    """When, guard, node."""
    denials: list[tuple[Moment, str, str]] = field(default_factory=list)
    fallbacks: list[tuple[Moment, str, str]] = field(default_factory=list)
    """Those that an engine calls denied, although no other one runs in its process: when, guard, entry."""
    aways: list[tuple[Moment, str, str, str, bool]] = field(default_factory=list)
    """When, guard, which part of it, node; and whether that is away then."""
    closings: list[tuple[Moment, Moment, str]] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)
    """The name of each key in the store."""
    nodes: dict[str, set[str]] = field(default_factory=dict)
    """Of each key: the nodes of its entry and its tags."""
    problems: list[str] = field(default_factory=list)
    steps: Any = field(default_factory=lambda: itertools.count(1))

    def now(self) -> Moment:
        return Moment(self.loop.time(), next(self.steps))

    def note(self, text: str) -> None:
        self.lines.append(f"{self.loop.time() - 1_000:10.6f}  {text}")

    def store_error(self, guard: str, node: str, error: BaseException) -> None:
        self.note(f"{guard}: {node} {type(error).__name__} {error}")
        self.store_errors.append((self.now(), guard, node, error))

    def denied(self, guard: str, name: str) -> None:
        self.denials.append((self.now(), guard, name))

    def granted(self, name: str, token: int) -> None:
        self.grants.append((self.now(), name, token))

    def published(self, name: str, token: int, number: int) -> None:
        self.publications.append((self.now(), name, token, number))
        self.tokens[number] = token

    def away(self, guard: str, part: str, node: str, *, away: bool) -> None:
        self.note(f"{guard}: {node} {'away' if away else 'back'}")
        self.aways.append((self.now(), guard, part, node, away))

    # --- questions ---------------------------------------------------------------------------------

    def _concerns(self, node: str, key: str) -> bool:
        return node in self.nodes[key]

    def was_away(self, guard: str, key: str, began: Moment, ended: Moment) -> bool:
        """Also: whether the store refused everything, or was late: for such a caller it counts as away."""
        for moment, label, part, node, is_away in self.aways:
            if label == guard and is_away and moment <= ended and self._concerns(node, key):
                if moment >= began or self._stays(part, moment, began):
                    return True
        return any(
            label == guard
            and self._concerns(node, key)
            and began.time - LATELY <= moment.time <= ended.time
            and (getattr(error, "late", False) or not getattr(error, "may_pass", True))
            for moment, label, node, error in self.store_errors
        )

    def _stays(self, part: str, since: Moment, until: Moment) -> bool:
        return not any(
            other == part and since < moment < until and not is_away
            for moment, _, other, _, is_away in self.aways
        )

    def failed_between(self, guard: str, key: str, began: float, ended: float) -> bool:
        return any(
            label == guard and self._concerns(node, key) and began <= moment.time <= ended
            for moment, label, node, _ in self.store_errors
        )
