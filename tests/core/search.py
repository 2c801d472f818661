"""Walk through every world that can be reached, and show the way to the first broken promise.

Two kinds of promise are checked. Safety: no move may raise `Violation`. Liveness, over the moves that happen by
themselves (no new callers, no new faults): from every world a quiet one can be reached; no circle can be walked without
a timer; and where no fault has happened, nobody depends on a timer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.core.model import Model
from tests.core.moves import PROGRESS, TIMERS, Move
from tests.core.steps import Core
from tests.core.world import Setup, Violation, World


@dataclass(frozen=True)
class Result:
    setup: Setup
    worlds: int
    moves: int
    counterexample: str | None = None

    def __str__(self) -> str:
        found = "" if self.counterexample is None else f"\n{self.counterexample}"
        return f"{self.setup}: {self.worlds} worlds, {self.moves} moves{found}"


class Search:
    """Breadth first, so that the first counterexample is a shortest one."""

    def __init__(self, setup: Setup, core: Core | None = None, *, limit: int = 5_000_000) -> None:
        self.model = Model(setup, core)
        self.setup = setup
        self.limit = limit
        self._numbers: dict[World, int] = {}
        self._from: list[tuple[int, Move]] = []
        self._progress: list[list[int]] = []
        self._timed: list[list[int]] = []
        self._quiet: list[int] = []
        self._moves = 0

    def run(self) -> Result:
        start = self.model.start()
        queue = deque([start])
        self._add(start, -1, ())
        while queue:
            world = queue.popleft()
            text = self._expand(world, queue)
            if text is not None:
                return self._result(text)
        return self._result(self._stranded() or self._circle())

    def _result(self, text: str | None) -> Result:
        return Result(self.setup, len(self._numbers), self._moves, text)

    def _add(self, world: World, origin: int, move: Move) -> int:
        number = len(self._from)
        if number >= self.limit:
            raise RuntimeError(f"more than {self.limit} worlds")
        self._numbers[world] = number
        self._from.append((origin, move))
        self._progress.append([])
        self._timed.append([])
        return number

    def _expand(self, world: World, queue: deque[World]) -> str | None:
        here = self._numbers[world]
        model, numbers = self.model, self._numbers
        can_go_on = quiet = world.quiet
        if quiet:
            self._quiet.append(here)
        for move in model.moves(world):
            self._moves += 1
            try:
                after = model.make(world, move)
            except Violation as violation:
                return self._story(here, (*move, violation))
            if after == world:
                continue
            there = numbers.get(after)
            if there is None:
                there = self._add(after, here, move)
                queue.append(after)
            if move[0] in PROGRESS:
                can_go_on = True
                self._progress[here].append(there)
            elif move[0] in TIMERS:
                self._timed[here].append(there)
        if not can_go_on and world.faults == self.setup.faults:
            return self._story(here, ("somebody waits for a timer although nothing is broken",))
        return None

    # --- liveness --------------------------------------------------------------------------------

    def _stranded(self) -> str | None:
        """A world from which no quiet one can be reached."""
        before: list[list[int]] = [[] for _ in self._from]
        for here, (by_itself, in_time) in enumerate(zip(self._progress, self._timed, strict=True)):
            for there in (*by_itself, *in_time):
                before[there].append(here)
        good = bytearray(len(self._from))
        stack = list(self._quiet)
        for number in stack:
            good[number] = 1
        while stack:
            for number in before[stack.pop()]:
                if not good[number]:
                    good[number] = 1
                    stack.append(number)
        first = good.find(0)
        return None if first < 0 else self._story(first, ("from here on somebody waits for ever",))

    def _circle(self) -> str | None:
        """A circle of moves that happen by themselves, without a timer: chatter that need not end."""
        incoming = [0] * len(self._from)
        for targets in self._progress:
            for there in targets:
                incoming[there] += 1
        ready = [number for number, count in enumerate(incoming) if not count]
        seen = 0
        while ready:
            seen += 1
            for there in self._progress[ready.pop()]:
                incoming[there] -= 1
                if not incoming[there]:
                    ready.append(there)
        if seen == len(self._from):
            return None
        first = next(number for number, count in enumerate(incoming) if count)
        return self._story(first, ("from here a circle can be walked without a timer",))

    # --- the story -------------------------------------------------------------------------------

    def _story(self, number: int, last: Move) -> str:
        """The numbered moves from the beginning to `number`, then `last`."""
        moves = []
        while self._from[number][0] >= 0:
            number, move = self._from[number]
            moves.append(move)
        world, lines = self.model.start(), []
        for place, move in enumerate(reversed(moves), 1):
            world = self.model.make(world, move)
            lines.append(f"{place:3}. {_text(move):28} {self._describe(world)}")
        return "\n".join([*lines, f"{len(lines) + 1:3}. {_text(last)}"])

    def _describe(self, world: World) -> str:
        table = self.model.table
        entry = table[world.entry]
        parts = []
        if entry.record is not None:
            parts.append(f"fence={entry.record.fence - 1_000_000} last={entry.record.last - 1_000_000}")
        if entry.lease is not None:
            parts.append(f"lease={entry.lease.owner}/{entry.lease.token - 1_000_000}")
        if entry.value is not None:
            parts.append(f"value={entry.value.body.decode()}/{entry.value.token - 1_000_000}")
        for number, process in enumerate(world.processes):
            if process.flight is not None:
                pending = process.flight.pending
                shown = type(table[pending[1]]).__name__ if pending[0] == "asked" else pending[1:]
                parts.append(f"p{number}:{process.flight.name} {pending[0]} {shown}")
        return "; ".join(parts)


def _text(move: Move) -> str:
    return " ".join(str(part) for part in move)
