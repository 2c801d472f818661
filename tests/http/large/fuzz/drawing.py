"""What a seed means: some processes, the weather between them and the store, what the application does, its clients."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.engine.fuzz.drawing import drawn_weather
from tests.engine.fuzz.network import Weather

__all__ = ["Action", "Answer", "Case", "MOST", "PIECE", "SMALL", "drawn"]

PIECE = 8
"""Bytes of a piece, so that a body of some pieces is quickly made."""
SMALL, MOST = 4, 64
"""`max_body_bytes` and `max_pieces_bytes`."""


@dataclass(frozen=True)
class Answer:
    """One call of the application. `size`: bytes that it means to send; `sends`: bytes that it sends. `stalls`: seconds
    before the byte `at`; `raises` there. `announced`: with Content-Length. `chunk`: bytes; `pace`: seconds between two.
    `fails`: it is a small 503.
    """

    size: int
    sends: int
    chunk: int
    pace: float
    announced: bool = True
    at: int = 0
    stalls: float = 0.0
    raises: bool = False
    fails: bool = False

    @property
    def breaks(self) -> bool:
        return self.raises or self.fails or (self.announced and self.sends != self.size)

    @property
    def may_be_stored(self) -> bool:
        return not self.breaks and self.sends <= MOST


@dataclass(frozen=True)
class Action:
    """`kind`: get, head, reload, purge, forget (the store drops a piece), close (the process ends). `asked`: further
    fields. `reads`: seconds for each message. `leaves`: seconds until the client leaves; `cancelled`: so that its task
    is cancelled.
    """

    at: float
    process: int
    kind: str
    path: str
    asked: tuple[tuple[str, str], ...] = ()
    reads: float = 0.0
    leaves: float | None = None
    cancelled: bool = False


@dataclass(frozen=True)
class Case:
    """`calm`: nothing breaks, nobody leaves, and nothing is dropped, so each path costs one call. `stale`: seconds of
    stale-while-revalidate and stale-if-error.
    """

    seed: int
    processes: tuple[str, ...]
    weather: Weather
    actions: tuple[Action, ...]
    calm: bool
    announced: float
    max_age: int
    private: bool = False
    stale: tuple[int, int] = (0, 0)

    def answer(self, path: str, number: int) -> Answer:
        """The same seed gives each call the same answer, whoever begins it."""
        chance = Random(f"{self.seed} answer {path} {number}")
        size = Random(f"{self.seed} size {path}").choice(
            (SMALL + 1, PIECE, PIECE + 1, 2 * PIECE, 29, 57, MOST)
        )
        announced = Random(f"{self.seed} announced {path}").random() < self.announced
        if not announced and not self.calm and chance.random() < 0.1:
            size = MOST + 9
        chunk, pace = chance.choice((1, 3, PIECE, 100)), chance.choice((0.0, 0.0, 0.01, 0.2))
        if not announced and self.calm:
            pace = 0.0
        if self.stale[1] and not number:
            return Answer(size, size, MOST, 0.0, announced)
        if self.stale[1] and chance.random() < 0.5:
            return Answer(size, size, chunk, pace, fails=True)
        if self.calm or chance.random() < 0.6:
            return Answer(size, size, chunk, pace, announced)
        at = chance.randint(0, size)
        kind = chance.choice(("raises", "stalls", "short", "long"))
        if kind == "stalls":
            return Answer(size, size, chunk, pace, announced, at, stalls=chance.choice((0.5, 3.0, 30.0)))
        if kind == "raises":
            return Answer(size, size, chunk, pace, announced, at, raises=True)
        sends = size + chance.randint(1, 9) if kind == "long" else at
        if not announced:
            size = sends
        return Answer(size, sends, chunk, pace, announced)


def _asked(chance: Random) -> tuple[tuple[str, str], ...]:
    first = chance.randint(0, MOST + 3)
    span = chance.choice((f"{first}-", f"-{first + 1}", f"{first}-{first + chance.randint(0, 30)}", "0-3"))
    wanted = ("range", f"bytes={span}")
    match chance.choice(("", "", "", "range", "range", "if-range", "if-none-match")):
        case "range":
            return (wanted,)
        case "if-range":
            return (wanted, ("if-range", f'"{chance.randint(1, 3)}"'))
        case "if-none-match":
            return (("if-none-match", f'"{chance.randint(1, 3)}"'),)
    return ()


def drawn(seed: int) -> Case:
    chance = Random(f"large {seed}")
    processes = ("A", "B", "C")[: chance.choice((1, 2, 2, 3))]
    length = chance.choice((0.2, 2.0, 6.0))
    weather = drawn_weather(chance, processes, length)
    calm = weather.is_kind(set()) and chance.random() < 0.4
    actions = []
    at = 0.0
    for _ in range(chance.randint(2, chance.choice((4, 8, 16)))):
        at += chance.choice((0.0, 1e-6, 0.05)) if chance.random() < 0.6 else chance.uniform(0.0, length / 3)
        kind = "get"
        leaves, reads = None, chance.choice((0.0, 0.0, 0.0, 0.05, 0.5))
        if chance.random() < 0.2:
            kind = "head" if calm else chance.choice(("head", "reload", "purge", "purge", "forget", "close"))
        if not calm and chance.random() < 0.25:
            leaves = chance.choice((0.0, 1e-6, 0.1, 1.0)) * chance.random()
        path = chance.choice(("/a", "/a", "/b"))
        asked = _asked(chance) if kind == "get" else ()
        process = chance.randrange(len(processes))
        actions.append(Action(at, process, kind, path, asked, reads, leaves, chance.random() < 0.5))
    announced = chance.choice((0.0, 0.5, 1.0, 1.0))
    max_age = chance.choice((1000, 1000, 2))
    if not calm and chance.random() < 0.2:
        return _of_stale_ones(chance, seed, processes, weather, announced)
    return Case(seed, processes, weather, tuple(actions), calm, announced, max_age)


def _of_stale_ones(
    chance: Random, seed: int, processes: tuple[str, ...], weather: Weather, announced: float
) -> Case:
    """Requests for one body over some lifetimes."""
    at, actions = 0.0, []
    for _ in range(chance.randint(3, 12)):
        at += chance.choice((0.0, 0.2, 0.9, 1.3))
        asked = _asked(chance) if chance.random() < 0.2 else ()
        actions.append(Action(at, chance.randrange(len(processes)), "get", "/a", asked))
    stale = chance.choice(((2, 0), (0, 4), (2, 4)))
    return Case(seed, processes, weather, tuple(actions), False, announced, 1, stale=stale)
