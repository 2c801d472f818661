"""Invalidations that the store has not carried out yet. They are kept, and applied when the store can do it.

Until then no such entry is read from the store, because its value there is older (`Runtime.away_for`). An invalidation
is lost in two cases only, and both are logged: the process ends, or `MOST` others already wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from stampede_guard.core.caller import store_deadline
from stampede_guard.engine.away.health import Health
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.hooks import Hooks
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.values.errorcopies import copy_of

if TYPE_CHECKING:
    from stampede_guard.policy import Policy
    from stampede_guard.stores.protocol import Session

__all__ = ["MOST", "PendingInvalidations"]

log = logging.getLogger("stampede_guard")

MOST = 10_000
"""The limit of kept invalidations."""
AT_ONCE = 100
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5
"""Seconds between two attempts when the store is there but does not carry them out."""
CLOSE_SECONDS = 1.0


Heir: TypeAlias = "tuple[PendingInvalidations, asyncio.AbstractEventLoop]"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """One invalidation. Its identity distinguishes it from the next one of the same name."""

    policy: Policy | None
    """None for a tag."""


class PendingInvalidations:
    """The invalidations that one event loop applies. `applied(name, fence)` is called when the store has done one,
    `settled()` when some of them wait no longer.

    `names`: the pending names that all event loops of the guard see.
    """

    def __init__(
        self,
        session: Session,
        *,
        applied: Callable[[str, int], None],
        names: Unsettled | None = None,
        health: Health | None = None,
    ) -> None:
        self.closing = False
        self.task: asyncio.Task[None] | None = None
        self._session = session
        self._applied = applied
        self.settled: Callable[[], None] = lambda: None
        self._names = names if names is not None else Unsettled()
        self._health = health if health is not None else Health(Hooks())
        self._waiting: dict[str, _Waiting] = {}
        self._told = False

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    async def now(self, name: str, policy: Policy | None) -> int | None:
        """The fence (0 for a tag). None: the store is away or refuses writes, and the invalidation is kept for later.

        Raises `StoreRefused` when the store does not allow this client to invalidate. The invalidation is then not
        kept, because its caller must know.
        """
        late = False
        for _ in range(2):
            if self._session.away_for(name):
                break
            try:
                async with asyncio.timeout(store_deadline(late=late)):
                    return await self._send(name, policy)
            except TimeoutError:
                break
            except StoreRefused as error:
                if not error.may_pass:
                    raise
                break
            except StoreError as error:
                late = error.late
        self.add(name, policy)
        return None

    async def _send(self, name: str, policy: Policy | None) -> int:
        step = "drop_tag" if policy is None else "invalidate"
        try:
            if policy is None:
                await self._session.drop_tag(name)
                fence = 0
            else:
                fence = await self._session.invalidate(name, policy=policy)
        except StoreRefused as error:
            self._health.refused(error, step)
            # A batch of commands that cannot be sent fails with one error. Each caller gets its own copy.
            raise copy_of(error) or error from error.__cause__
        if self._health.refusing:
            self._health.admitted(step)
        return fence

    def add(self, name: str, policy: Policy | None) -> None:
        """Keep the invalidation of an entry, or of a tag (no policy). Apply it as soon as its server is there."""
        if self._waiting.pop(name, None) is None:
            self._names.wait(name)
        self._waiting[name] = _Waiting(policy)
        if len(self._waiting) > MOST:
            self._give_up(next(iter(self._waiting)))
            log.error("more than %d invalidations wait for the store: the oldest is given up", MOST)
        if not self._session.away_for(name):
            self.apply()

    def apply(self) -> None:
        """Apply, in the background, those whose servers are there."""
        if self._waiting and not self.closing and (self.task is None or self.task.done()):
            self.task = asyncio.get_running_loop().create_task(
                self._apply_all(), name="stampede_guard invalidations", context=Context()
            )

    async def end(self, cut_short: asyncio.Future[None]) -> None:
        """Wait a moment for those that the store may still carry out, and stop."""
        if self.task is not None and not self.task.done():
            either: set[asyncio.Future[Any]] = {self.task, cut_short}
            try:
                await asyncio.wait(either, timeout=CLOSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.task.cancel()
            await asyncio.wait({self.task}, timeout=CLOSE_SECONDS)

    def hand_over(self, heirs: Sequence[Heir] = ()) -> None:
        """This event loop ends: another one applies the rest. If no loop can, the rest is lost and logged."""
        left, self._waiting = self._waiting, {}
        if not left:
            return
        for number, (heir, loop) in enumerate(heirs, 1):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(heir._inherit, left, heirs[number:])
                return
        log.error("%d invalidations could not be applied: the store is away", len(left))
        for name in left:
            self._names.settle(name)

    def _inherit(self, left: dict[str, _Waiting], others: Sequence[Heir]) -> None:
        """They are already counted among the names. If this one closes as well, `others` may take them."""
        for name, waiting in left.items():
            if name in self._waiting:
                self._names.settle(name)
            else:
                self._waiting[name] = waiting
        if self.closing:
            self.hand_over(others)
        else:
            self.apply()

    def _give_up(self, name: str) -> None:
        del self._waiting[name]
        self._names.settle(name)

    async def _apply_all(self) -> None:
        pause = FIRST_PAUSE
        while names := self._next():
            done = await asyncio.gather(*map(self._apply_one, names))
            if any(done):
                self.settled()
            if all(done):
                pause, self._told = FIRST_PAUSE, False
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _next(self) -> list[str]:
        there = (name for name in self._waiting if not self._session.away_for(name))
        return list(itertools.islice(there, AT_ONCE))

    async def _apply_one(self, name: str) -> bool:
        waiting = self._waiting.get(name)
        if waiting is None:
            return True  # given up since then, because there were too many
        try:
            fence = await self._send(name, waiting.policy)
        except Exception as error:  # includes errors of a user's store; tried again
            self._tell(error)
            if self._waiting.get(name) is waiting:
                # Move it behind the others. In a cluster, the failure of one server does not affect the other servers.
                self._waiting[name] = self._waiting.pop(name)
            return False
        self._applied(name, fence)
        # The same name may have been invalidated again while this one was on its way, after a later write.
        if self._waiting.get(name) is waiting:
            self._give_up(name)
        return True

    def _tell(self, error: Exception) -> None:
        if self._told:
            return
        if not isinstance(error, StoreError):
            self._told = True
            log.error("an invalidation cannot be applied and waits", exc_info=error)
        # `Health` reports an error that passes by itself, and its end.
        elif isinstance(error, StoreRefused) and not error.may_pass:
            self._told = True
            log.error("the store refuses an invalidation, which waits for access: %s", error)
