"""What a seed means: some processes, the weather between them and the store, what the application does, its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.engine.fuzz.drawing import drawn_weather
from tests.engine.fuzz.network import Weather

__all__ = ["Action", "Answer", "Case", "MOST", "PATHS", "WINDOWS", "drawn"]

MOST = 4000
"""`max_body_bytes`."""
PATHS = ("/a", "/a", "/a", "/b")
RULES = (
    "shared",
    "shared",
    "shared",
    "shared",
    "public",
    "personal",
    "unstored",
    "cookie",
    "varies",
    "silent",
)
WINDOWS = {"": 0.0, "stale-while-revalidate": 30.0, "stale-if-error": 40.0, "must-revalidate": 0.0}
FAULTS = (
    "raises early", "raises", "returns early", "returns", "short", "long", "hangs early", "hangs", "twice", "large",
    "error",
)  # fmt: skip
"""What a call of the application may do wrong, before its first line ("early") or after it. `large` and `error` (a
status of 503) are no mistakes."""


@dataclass(frozen=True)
class Answer:
    """One call of the application. `rule`: who may get the response. `stale`: one of `WINDOWS`. `first` and `pace`:
    seconds before its first line, and before each further part. `listens`: it ends when its client leaves.
    """

    rule: str
    max_age: int
    stale: str
    first: float
    pace: float
    parts: int
    announced: bool
    fault: str = ""
    listens: bool = False
    adds: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether it is a response as the application means it, with a status below 500."""
        return self.fault in ("", "large")

    @property
    def stays(self) -> float:
        """Seconds for which it may be served stale, in the way that `stale` says."""
        return WINDOWS[self.stale]


@dataclass(frozen=True)
class Action:
    """`kind`: get, head, reload, stored (only-if-cached), lenient (max-stale), put, purge. `reads`: seconds for each
    message. `leaves`: seconds until the client leaves. `how`: its server says so ("told"), cancels its task
    ("cancelled"), or fails to send ("broken").
    """

    at: float
    process: int
    kind: str
    path: str
    cookie: str = ""
    reads: float = 0.0
    leaves: float | None = None
    how: str = "told"


@dataclass(frozen=True)
class Case:
    """`faults`: the share of calls that go wrong. `rules`: of the paths. `near`: `l1_ttl`, in seconds."""

    seed: int
    processes: tuple[str, ...]
    weather: Weather
    actions: tuple[Action, ...]
    faults: float
    near: float
    rules: dict[str, str] = field(default_factory=dict)
    changes: float = 0.0
    """The share of calls with another rule than their path's."""

    @property
    def is_calm(self) -> bool:
        return self.weather.is_kind(set()) and not self.faults

    def answer(self, path: str, number: int) -> Answer:
        """The same seed gives each call the same answer, whoever begins it."""
        usual, chance = Random(f"{self.seed} {path}"), Random(f"{self.seed} {path} {number}")
        max_age, stale = usual.choice((2, 20, 1000, 1000)), usual.choice(tuple(WINDOWS))
        announced = usual.random() < 0.6
        rule = chance.choice(RULES) if chance.random() < self.changes else self.rules[path]
        fault = chance.choice(FAULTS) if chance.random() < self.faults else ""
        return Answer(
            rule,
            max_age,
            stale,
            first=chance.choice((0.0, 0.0, 0.01, 0.3)),
            pace=chance.choice((0.0, 0.0, 0.01, 0.2)),
            parts=chance.choice((0, 1, 1, 2, 4)),
            announced=announced,
            fault=fault,
            listens=usual.random() < 0.4,
            adds=chance.choice(("", "", "", "hint", "empty", "more", "trailers")),
        )


def drawn(seed: int) -> Case:
    chance = Random(f"crowd {seed}")
    processes = ("A", "B", "C")[: chance.choice((1, 2, 2, 3))]
    length = chance.choice((0.2, 2.0, 6.0, 60.0))
    weather = drawn_weather(chance, processes, length) if chance.random() < 0.5 else Weather()
    leaving, known = chance.choice((0.0, 0.2, 0.5)), chance.choice((0.0, 0.0, 0.3))
    special = chance.choice((0.0, 0.2, 0.4))
    actions, at = [], 0.0
    for _ in range(chance.randint(2, chance.choice((4, 8, 20)))):
        at += chance.choice((0.0, 1e-6, 0.05)) if chance.random() < 0.7 else chance.uniform(0.0, length / 3)
        kind = "get"
        if chance.random() < special:
            kind = chance.choice(("head", "reload", "stored", "lenient", "put", "purge"))
        leaves = None
        if chance.random() < leaving:
            leaves = chance.choice((0.0, 1e-6, 0.1, 1.0)) * chance.random()
        cookie = chance.choice(("sid=anna", "sid=berta")) if chance.random() < known else ""
        how = chance.choice(("told", "told", "cancelled", "broken"))
        reads = chance.choice((0.0, 0.0, 0.0, 0.05, 0.5))
        process = chance.randrange(len(processes))
        actions.append(Action(at, process, kind, chance.choice(PATHS), cookie, reads, leaves, how))
    rules = {path: chance.choice(RULES) for path in dict.fromkeys(PATHS)}
    faults, changes = chance.choice((0.0, 0.0, 0.2, 0.6)), chance.choice((0.0, 0.0, 0.3))
    near = chance.choice((0.0, 0.0, 3.0))
    return Case(seed, processes, weather, tuple(actions), faults, near, rules, changes)
