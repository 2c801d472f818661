"""The entries of the store in memory. Any thread changes an entry in one step, without a lock.

A lock would be enough for threads, but not for a signal handler:

1. The main thread changes an entry and holds the lock.
2. A signal interrupts it. The handler calls a cached plain function.
3. Another thread serves that call and waits for the lock. The handler waits for that thread: a deadlock.

So a change is made on a copy. A single `append` puts it behind the entry's latest state; no other thread and no handler
can divide this `append`. The first copy to arrive is the next state. The change that arrives second starts again there.

An entry that is dropped also loses a change made at that moment. A server that evicts an entry does the same: the
protocol allows any record to be lost at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from stampede_guard.core.entry import EMPTY, Entry

__all__ = ["Entries"]

T = TypeVar("T")


class _State:
    """`later`: its first item is the next state. It may have more items, from changes that arrived second."""

    __slots__ = ("entry", "later")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.later: list[_State] = []


class _Cell:
    """The start of one entry's chain of states. `state` need not be the latest, but leads to it."""

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
    """Entries by name, none of them empty. The underlying dictionary holds their cells."""

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
        """Replace the latest entry by the result of `step`. If another change was faster, `step` is called again."""
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
        """Each call gives the next entry of a cycle over all entries. None if the next one has been dropped."""
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
