"""Invalidations after a commit: the caller's thread or coroutine waits for them, and never gets an error of theirs.

The transaction is durable already, so an error would tell a lie about it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.integrations.sqlalchemy.coroutines import await_only, is_awaitable_here

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["Change", "deliver", "settled_now"]

log = logging.getLogger("stampede_guard")

Failed = Callable[[BaseException], object]
_AT_ONCE = 200
_UNDER_WAY: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One tag, or one entry of `get_or_compute`, to invalidate."""

    guard: StampedeGuard
    text: str
    is_tag: bool = True
    type: Any = Any

    @property
    def identity(self) -> tuple[int, str, bool, str]:
        return id(self.guard), self.text, self.is_tag, repr(self.type)


def deliver(changes: Sequence[Change], done: Callable[[], object]) -> None:
    """Invalidate them now. Returns when the store has done it, or the library has queued it for a store that is away.

    In an `AsyncSession`, other tasks of the event loop run meanwhile. If the caller is cancelled or interrupted, the
    invalidations go on without it. `done()` is called when the store has done all of them.
    """
    try:
        _wait(changes, done)
    except Exception:
        log.exception("a transaction has been committed, but its %d invalidations are not done", len(changes))


def settled_now(changes: Sequence[Change]) -> bool:
    """Invalidate them now. Whether the store has done all of them; not while it is away. Raises what one raised."""
    settled: list[bool] = []
    errors: list[BaseException] = []
    _wait(changes, lambda: settled.append(True), errors.append)
    if errors:
        raise errors[0]
    return bool(settled)


def _wait(changes: Sequence[Change], done: Callable[[], object], failed: Failed | None = None) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    if loop is not None and is_awaitable_here():
        await_only(_shielded(changes, done, failed))
    elif loop is not None and loop is portal_loop():
        # A plain session on the loop that serves plain functions: to wait for it would be to wait for ourselves.
        _started(changes, done, failed)
    else:
        portal().call(_shielded, changes, done, failed)


async def _shielded(changes: Sequence[Change], done: Callable[[], object], failed: Failed | None) -> None:
    await asyncio.shield(_started(changes, done, failed))


def _started(
    changes: Sequence[Change], done: Callable[[], object], failed: Failed | None
) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(
        _carry_out(changes, done, failed), name="stampede_guard commit"
    )
    _UNDER_WAY.add(task)
    task.add_done_callback(_UNDER_WAY.discard)
    return task


async def _carry_out(changes: Sequence[Change], done: Callable[[], object], failed: Failed | None) -> None:
    answers: list[Any] = []
    for start in range(0, len(changes), _AT_ONCE):
        some = changes[start : start + _AT_ONCE]
        answers += await asyncio.gather(*map(_invalidate, some), return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors and failed is not None:
        failed(errors[0])
    elif errors:
        log.error(
            "a transaction has been committed, but %d of its %d invalidations are not done",
            len(errors), len(changes), exc_info=errors[0],
        )  # fmt: skip
    if all(answer == "done" for answer in answers):
        done()


async def _invalidate(change: Change) -> object:
    if change.is_tag:
        return await change.guard.invalidate_tag(change.text)
    return await change.guard.invalidate(change.text, type=change.type)
