"""The publishers of one event loop: for the sums per minute, and for viewers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.stats.publisher import MinuteSums, Publisher
from stampede_guard.stores.fleet.series import Series
from stampede_guard.stores.fleet.stream import HERDS

if TYPE_CHECKING:
    from stampede_guard.engine.stats.counting import Sums
    from stampede_guard.engine.stats.watching import Watching
    from stampede_guard.stores.protocol import Session

__all__ = ["NOTHING_TO_PUBLISH", "Publishers"]


class Publishers:
    """`sums` None: the guard keeps no sums per minute. `watching` None: no other process could watch."""

    _watching: Watching | None = None
    _minutes: Publisher[Any] | None = None
    _watch: Publisher[Any] | None = None

    def __init__(
        self,
        session: Session,
        namespace: str,
        is_away: Callable[[], bool],
        sums: Sums | None,
        watching: Watching | None,
    ) -> None:
        def add(series: Series, slot: int, numbers: Mapping[str, int]) -> Awaitable[int]:
            return session.count(namespace, series, slot, numbers)

        async def tell() -> bool:
            assert watching is not None
            if happenings := watching.happenings.take():
                await session.tell(namespace, happenings)
            if steps := watching.happenings.take_steps():
                await session.tell(namespace, steps, stream=HERDS)
            return True

        self._watching = watching
        self._minutes = None if sums is None else Publisher(MinuteSums(sums), add, is_away)
        self._watch = None if watching is None else Publisher(watching, add, is_away, also=tell)

    def start(self) -> None:
        """Begin, or go on after something has cancelled all tasks of the event loop. Stops if no viewer is open."""
        if self._minutes is not None:
            self._minutes.start()
        if self._watch is not None and self._watching is not None:
            if self._watching.on:
                self._watch.start()
            else:
                self._watch.stop()

    def hurry(self) -> None:
        """A computation begins. Publish it at once: its process may die, and no other process knows it."""
        if self._watch is not None:
            self._watch.hurry()

    async def aclose(self) -> None:
        """Send what has come together, and end."""
        if self._minutes is not None:
            await self._minutes.aclose()
        if self._watch is not None and self._watching is not None and self._watching.on:
            await self._watch.aclose()


NOTHING_TO_PUBLISH = Publishers.__new__(Publishers)
"""For an event loop that belongs to no guard."""
