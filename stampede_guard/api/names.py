"""The names of entries in a store, those of running computations included: as an operator's console walks them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import StoreUnavailable
from stampede_guard.stores.console.console import Console
from stampede_guard.stores.memory import MemoryStore

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["names_stored"]


async def names_stored(guard: StampedeGuard, begin: str) -> AsyncIterator[str]:
    """Names of this guard's entries that begin so, without the namespace.

    Each name that is there during the whole walk is found (SCAN). Raises `StoreUnavailable` if a server cannot be
    asked, and `StoreRefused` if it denies access.
    """
    store: Any = guard.engine.store.servers
    space = guard.engine.prefix
    store = getattr(store, "memory", store)
    if isinstance(store, MemoryStore):
        for entry in store.names():
            if entry.startswith(space + begin):
                yield entry.removeprefix(space)
        return
    async with await Console.open(store) as console:
        async for entry in console.names(space.removesuffix(":"), f"{begin}*"):
            yield entry.removeprefix(space)
        if console.unreached:
            silent = ", ".join(sorted(console.unreached))
            raise StoreUnavailable(f"a part of the names is unknown: {silent} gave no answer")
