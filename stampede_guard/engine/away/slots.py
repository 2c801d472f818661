"""The number of computations that this process runs while the store is away.

A computation needs no slot if a computation with a slot waits for it. Otherwise all would wait for each other when
every slot belongs to a function that calls another one.
"""

from __future__ import annotations

import asyncio

__all__ = ["Slots", "StoreIsBack"]


class StoreIsBack(Exception):
    """Raised by a batch that waited for a turn without the store: its flights ask the store again."""


class Slots:
    """First come, first served. Each caller gives the limit of its own function. All computations count together."""

    def __init__(self) -> None:
        self._taken = 0
        self._queue: dict[object, tuple[int, asyncio.Future[bool]]] = {}

    def __len__(self) -> int:
        """How many wait for a slot."""
        return len(self._queue)

    async def take(self, owner: object, limit: int) -> bool:
        """Wait for a slot. False: passed without a slot, so there is none to give back."""
        if self._taken < limit:
            self._taken += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue[owner] = (limit, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.give_back()
            raise
        finally:
            self._queue.pop(owner, None)

    def let_pass(self, owner: object) -> None:
        """Let a waiting computation pass without a slot. Does nothing for one that does not wait."""
        if owner in self._queue:
            _, turn = self._queue.pop(owner)
            if not turn.done():
                turn.set_result(False)

    def give_back(self) -> None:
        self._taken -= 1
        for limit, turn in self._queue.values():
            if self._taken < limit and not turn.done():
                self._taken += 1
                turn.set_result(True)
                return
