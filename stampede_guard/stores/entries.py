"""The entries of the store in memory: each is changed in one step, by any thread, and nobody holds a lock.

A lock would do for threads, and not for a signal's handler. 1. The main thread changes an entry, lock in hand. 2. A
signal interrupts it; the handler calls a cached plain function. 3. That is served on another thread, which waits for
the lock, and the handler for it. So a change is made on a copy, and put behind the entry's latest state by a single
`append`, which no other thread and no handler can divide. The first that comes in is the next state; who comes second
begins again from there.

An entry that is dropped takes along what somebody changes in that moment, as a server that evicts one does: the
protocol lets any record be lost at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from stampede_guard.core.entry import EMPTY, Entry

__all__ = ["Entries"]

T = TypeVar("T")


class _State:
    """`later`: the next state is its first item; more may be in it, of those who came second."""

    __slots__ = ("entry", "later")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.later: list[_State] = []


class _Cell:
    """Where the states of one entry begin. `state` need not be the latest, which is found from there."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = _State(EMPTY)

    def latest(self) -> _State:
        state = self.state
        if state.later:
            while state.later:
                state = state.later[0]
            self.state = state
        return state


class Entries(dict[str, Any]):
    """Entries by name, none of them empty. What the dictionary holds for itself are their cells."""

    __slots__ = ("_line_up", "_next")

    def __init__(self) -> None:
        super().__init__()
        turns: deque[tuple[str, _Cell]] = deque()
        self._line_up, self._next = turns.append, turns.popleft

    def latest(self, name: str) -> Entry:
        """`EMPTY` if there is none."""
        cell: _Cell | None = dict.get(self, name)
        return EMPTY if cell is None else cell.latest().entry

    def change(self, name: str, step: Callable[[Entry], tuple[Entry, T]]) -> T:
        """Put what `step` makes of the latest entry in its place; `step` is called again if somebody was faster."""
        cell: _Cell | None = dict.get(self, name)
        if cell is None:
            made = _Cell()
            cell = cast("_Cell", self.setdefault(name, made))
            if cell is made:
                self._line_up((name, cell))
        while True:
            state = cell.latest()
            entry, reply = step(state.entry)
            changed = _State(entry)
            state.later.append(changed)
            if state.later[0] is changed:
                break
        cell.state = changed
        if entry == EMPTY:
            self.drop(name)
        return reply

    def drop(self, name: str) -> None:
        dict.pop(self, name, None)

    def next_in_turn(self) -> str | None:
        """Another entry each time, until all had their turn. None if this time it was one that is no longer there."""
        try:
            name, cell = self._next()
        except IndexError:
            return None
        if dict.get(self, name) is not cell:
            return None
        self._line_up((name, cell))
        return name

    # --- as a mapping --------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Entry:
        cell: _Cell = dict.__getitem__(self, name)
        return cell.latest().entry

    def __setitem__(self, name: str, entry: Entry) -> None:
        self.change(name, lambda _: (entry, None))

    def get(self, name: str, default: Any = None) -> Any:
        entry = self.latest(name)
        return default if entry == EMPTY else entry

    def values(self) -> Any:
        return [cell.latest().entry for cell in list(dict.values(self))]

    def items(self) -> Any:
        return [(name, cell.latest().entry) for name, cell in list(dict.items(self))]
