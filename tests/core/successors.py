"""What follows each world, with equal moves answered from memory.

Most moves are those of one process. Such a move depends on the process, on what all share, and on little of the other
processes: see `Seen`. So a move is made in a world in which the others are only what is seen of them. Its effect is
remembered and holds for all worlds that look the same to it. The model cannot depend on more by mistake: a `Seen` has
nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.core.model import Model
from tests.core.moves import Move
from tests.core.world import Process, Seen, Violation, World

__all__ = ["Packed", "Successors"]

Packed = tuple[int, ...]
"""A world as numbers: one for what all processes share, then one for each process."""

OF_NO_PROCESS = frozenset({"execute_invalidation", "execute_put", "run_ghost"})
"""Their argument is a place in a list. That of all other moves is the number of a process, or -1."""

LOOKS_AT_ALL = frozenset({"lapse_slots", "restart"})
"""Made in the whole world: the first asks every process which slots it may still give back, the second ends every
subscription."""

LOOKS_AT_TOKENS = frozenset({"execute_invalidation", "apply_pending"})
"""Whether an invalidation costs a computation depends on the tokens of all."""


class _Numbers:
    """Numbers for equal things, in the order in which they came."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class Effect(NamedTuple):
    """What a move makes of the shared part and of its own process; and its messages, by the place of their process."""

    move: Move
    shared: int
    own: int
    others: tuple[tuple[int, tuple[int, ...]], ...]


class Successors:
    """`moves` and `make` of a model, for packed worlds."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._shared = _Numbers()
        self._processes = _Numbers()
        self._arounds = _Numbers()
        self._quiet: list[bool] = []
        self._seen: list[tuple[Seen, Seen]] = []
        self._known: dict[tuple[int, ...], list[Effect]] = {}
        self._known_common: dict[tuple[Any, ...], Effect] = {}
        self._changed: dict[tuple[int, tuple[int, ...]], int] = {}

    def start(self) -> Packed:
        return self.pack(self.model.start())

    def pack(self, world: World) -> Packed:
        shared = self._shared.of(world._replace(processes=()))
        return (shared, *map(self._process, world.processes))

    def world(self, packed: Packed) -> World:
        things = self._processes.things
        shared: World = self._shared.things[packed[0]]
        return shared._replace(processes=tuple([things[number] for number in packed[1:]]))

    def is_quiet(self, packed: Packed) -> bool:
        """As `World.quiet`."""
        quiet = self._quiet
        return all(map(quiet.__getitem__, packed[1:])) and self._shared.things[packed[0]].quiet

    def faults(self, packed: Packed) -> int:
        return int(self._shared.things[packed[0]].faults)

    def around(self, packed: Packed, *, tokens: bool = False) -> int:
        """What moves see of the world beside their own process."""
        seen = self._seen
        return self._arounds.of((packed[0], *[seen[number][tokens] for number in packed[1:]]))

    def of(self, packed: Packed) -> list[tuple[Move, Packed]]:
        """Each move in a world, and the world that it leads to. A `Violation` names the move that breaks a promise."""
        around = self.around(packed)
        known = self._known
        found: list[tuple[Move, Packed]] = []
        for place in range(1, len(packed)):
            key = place, packed[place], around
            effects = known.get(key)
            if effects is None:
                effects = known[key] = self._effects(packed, place, around)
            head, tail = packed[1:place], packed[place + 1 :]
            for effect in effects:
                move, shared, own, others = effect
                if others:
                    found.append((move, self._after(packed, place, effect)))
                else:
                    found.append((move, (shared, *head, own, *tail)))
        common = self.model.common_moves(self.world(packed))
        found += [(move, self._make(packed, around, move)) for move in common]
        return found

    def _effects(self, packed: Packed, place: int, around: int) -> list[Effect]:
        number, process = place - 1, self._processes.things[packed[place]]
        moves = self.model.moves_of(number, process, self._shared.things[packed[0]])
        return [self._effect(packed, place, around, move) for move in moves]

    def _make(self, packed: Packed, around: int, move: Move) -> Packed:
        kind = move[0]
        if kind in LOOKS_AT_ALL:
            return self.pack(self._made(self.world(packed), move))
        place = 0 if len(move) == 1 or kind in OF_NO_PROCESS else move[1] + 1
        if kind in LOOKS_AT_TOKENS:
            around = self.around(packed, tokens=True)
        key = move, packed[place], around
        effect = self._known_common.get(key)
        if effect is None:
            effect = self._known_common[key] = self._effect(packed, place, around, move)
        return self._after(packed, place, effect)

    def _after(self, packed: Packed, place: int, effect: Effect) -> Packed:
        after = list(packed)
        after[place] = effect.own
        after[0] = effect.shared
        for other, messages in effect.others:
            after[other] = self._with(packed[other], messages)
        return tuple(after)

    def _effect(self, packed: Packed, place: int, around: int, move: Move) -> Effect:
        shared, *seen = self._arounds.things[around]
        before = list(seen)
        if place:
            before[place - 1] = self._processes.things[packed[place]]
        world: World = self._shared.things[shared]
        after = self._made(world._replace(processes=tuple(before)), move)
        own, others = 0, []
        for number, process in enumerate(after.processes, 1):
            if number == place:
                own = self._process(process)
            elif process != seen[number - 1]:
                assert process[:-1] == seen[number - 1][:-1], f"{move} changes another process"
                others.append((number, process.inbox))
        return Effect(move, self._shared.of(after._replace(processes=())), own, tuple(others))

    def _made(self, world: World, move: Move) -> World:
        try:
            return self.model.make(world, move)
        except Violation as violation:
            violation.move = move
            raise

    def _with(self, number: int, messages: tuple[int, ...]) -> int:
        """A process with more messages."""
        key = number, messages
        changed = self._changed.get(key)
        if changed is None:
            process: Process = self._processes.things[number]
            changed = self._changed[key] = self._process(process._replace(inbox=(*process.inbox, *messages)))
        return changed

    def _process(self, process: Process) -> int:
        number = self._processes.of(process)
        if number == len(self._quiet):
            self._quiet.append(process.quiet)
            seen = self.model.seen(process)
            self._seen.append((seen._replace(token=None), seen))
        return number
