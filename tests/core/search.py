"""Walk through every world that can be reached, and show the way to the first broken promise.

Two kinds of promise are checked. Safety: no move may raise `Violation`. Liveness, over the moves that happen by
themselves (no new callers, no new faults): from every world a quiet one can be reached; no circle can be walked without
a timer; and where no fault has happened, nobody depends on a timer.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections import deque
from dataclasses import dataclass

from stampede_guard.core.tags import opened
from tests.core.model import Model
from tests.core.moves import PAUSES, PROGRESS, TIMERS, Move
from tests.core.steps import Core
from tests.core.successors import Packed, Successors
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
    """Breadth first, so that the first counterexample is a shortest one.

    Only the hashes of worlds are kept (64 bits; the chance that two of ten million collide is below one in 300,000).
    """

    def __init__(
        self,
        setup: Setup,
        core: Core | None = None,
        *,
        limit: int = 20_000_000,
        model: Model | None = None,
    ) -> None:
        self.model = model if model is not None else Model(setup, core)
        self.successors = Successors(self.model)
        self.setup = setup
        self.limit = limit
        self._numbers: dict[int, int] = {}
        self._origins = array("q")
        self._last_moves: list[Move] = []
        self._shared: dict[Move, Move] = {}
        self._moves_made = 0
        # The moves of world n that happen by themselves lead to targets[starts[n]:starts[n + 1]], negated (and less
        # one) where a timer is needed.
        self._starts = array("q")
        self._targets = array("q")
        self._quiet = bytearray()

    def run(self) -> Result:
        # A coverage tracer would double the time and learn nothing: every step has its own tests. Nor is there garbage
        # in circles, which would be looked for among millions of tuples.
        tracer, collects = sys.gettrace(), gc.isenabled()
        sys.settrace(None)
        gc.disable()
        try:
            return self._run()
        finally:
            sys.settrace(tracer)
            if collects:
                gc.enable()

    def _run(self) -> Result:
        start = self.successors.start()
        queue = deque([start])
        self._add(start, -1, ())
        here = 0
        while queue:
            text = self._expand(here, queue.popleft(), queue)
            if text is not None:
                return self._result(text)
            here += 1
        self._starts.append(len(self._targets))
        return self._result(self._stranded() or self._circle())

    def _result(self, text: str | None) -> Result:
        return Result(self.setup, len(self._numbers), self._moves_made, text)

    def _add(self, world: Packed, origin: int, move: Move) -> int:
        number = len(self._origins)
        if number >= self.limit:
            raise RuntimeError(f"more than {self.limit} worlds")
        self._numbers[hash(world)] = number
        self._origins.append(origin)
        self._last_moves.append(self._shared.setdefault(move, move))
        return number

    def _expand(self, here: int, packed: Packed, queue: deque[Packed]) -> str | None:
        successors, numbers, targets = self.successors, self._numbers, self._targets
        self._starts.append(len(targets))
        can_go_on = successors.is_quiet(packed)
        self._quiet.append(can_go_on)
        try:
            following = successors.of(packed)
        except Violation as violation:
            return self._story(here, (*violation.move, violation))
        self._moves_made += len(following)
        for move, after in following:
            there = numbers.get(hash(after))
            if there is None:
                there = self._add(after, here, move)
                queue.append(after)
            if move[0] in PROGRESS:
                can_go_on = True
                targets.append(there)
            elif move[0] in TIMERS:
                can_go_on = can_go_on or move[0] in PAUSES
                targets.append(-there - 1)
        if not can_go_on and successors.faults(packed) == self.setup.faults:
            return self._story(here, ("somebody waits for a timer although nothing is broken",))
        return None

    # --- liveness --------------------------------------------------------------------------------

    def _stranded(self) -> str | None:
        """A world from which no quiet one can be reached."""
        good, starts, targets = bytearray(self._quiet), self._starts, self._targets
        left = [number for number in reversed(range(len(good))) if not good[number]]
        while left:
            still = []
            for number in left:
                for there in targets[starts[number] : starts[number + 1]]:
                    if good[there if there >= 0 else -there - 1]:
                        good[number] = 1
                        break
                else:
                    still.append(number)
            if len(still) == len(left):
                return self._story(still[-1], ("from here on somebody waits for ever",))
            left = still
        return None

    def _circle(self) -> str | None:
        """A circle of moves that happen by themselves, without a timer: chatter that need not end."""
        starts, targets, count = self._starts, self._targets, len(self._origins)
        incoming = array("q", bytes(8 * count))
        for there in targets:
            if there >= 0:
                incoming[there] += 1
        ready = [number for number in range(count) if not incoming[number]]
        seen = 0
        while ready:
            number = ready.pop()
            seen += 1
            for there in targets[starts[number] : starts[number + 1]]:
                if there >= 0:
                    incoming[there] -= 1
                    if not incoming[there]:
                        ready.append(there)
        if seen == count:
            return None
        first = next(number for number in range(count) if incoming[number])
        return self._story(first, ("from here a circle can be walked without a timer",))

    # --- the story -------------------------------------------------------------------------------

    def _story(self, number: int, last: Move) -> str:
        """The numbered moves from the beginning to `number`, then `last`."""
        moves = []
        while self._origins[number] >= 0:
            moves.append(self._last_moves[number])
            number = self._origins[number]
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
            parts.append(f"value={opened(entry.value.body).decode()}/{entry.value.token - 1_000_000}")
        for number, process in enumerate(world.processes):
            if process.flight is not None:
                pending = process.flight.pending
                shown = type(table[pending[1]]).__name__ if pending[0] == "asked" else pending[1:]
                parts.append(f"p{number}:{process.flight.name} {pending[0]} {shown}")
        return "; ".join(parts)


def _text(move: Move) -> str:
    return " ".join(str(part) for part in move)
