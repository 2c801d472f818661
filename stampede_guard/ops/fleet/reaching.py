"""A session like a guard's, for an operator of a fleet: it sends commands and receives no messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, StoreError

if TYPE_CHECKING:
    from stampede_guard.stores.protocol import Session, Store

__all__ = ["session_of"]


@asynccontextmanager
async def session_of(store: Store) -> AsyncIterator[Session]:
    """Raises `Misuse` for a store that no other process can reach."""
    if not store.shared:
        raise Misuse("a memory:// store exists inside one process only: give the URL of a server")
    session = store.open_session(_Nobody())
    try:
        yield session
    finally:
        await session.aclose()


class _Nobody:
    """A listener that ignores all messages."""

    def heard(self, name: str, message: Any) -> None: ...

    def changed(self, name: str, fence: int) -> None: ...

    def gap(self) -> None: ...

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None: ...

    def not_kept(self, name: str, error: StoreError) -> None: ...
