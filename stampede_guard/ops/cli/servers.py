"""The servers of a command's `--url`: for questions to each of them, and for the steps of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from stampede_guard.api.urls import store_from_url
from stampede_guard.ops.cli.options import given
from stampede_guard.ops.fleet.reaching import session_of
from stampede_guard.stores.console.console import Console

if TYPE_CHECKING:
    from stampede_guard.stores.protocol import Session

__all__ = ["console_at", "session_at"]


def console_at(url: str | None) -> AbstractAsyncContextManager[Console]:
    """The servers of the store at this URL."""
    return _console_at(given(url))


@asynccontextmanager
async def _console_at(url: str) -> AsyncIterator[Console]:
    async with await Console.open(store_from_url(url)) as console:
        yield console


@asynccontextmanager
async def session_at(url: str | None) -> AsyncIterator[Session]:
    """A session like a guard's, for the steps of the protocol."""
    async with session_of(store_from_url(given(url))) as session:
        yield session
