"""What SQLAlchemy has for asyncio, which needs greenlet. A program with plain sessions may have no greenlet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_scoped_session, async_sessionmaker

try:
    # SQLAlchemy 2.0 imports its own module without greenlet, and fails later.
    import greenlet  # type: ignore[import-untyped]
except ImportError:
    greenlet = None

if not TYPE_CHECKING:
    if greenlet is not None:
        from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_scoped_session, async_sessionmaker
    else:

        class _WithoutGreenlet:
            """No object is of this class."""

        AsyncEngine = AsyncSession = async_scoped_session = async_sessionmaker = _WithoutGreenlet

__all__ = [
    "AsyncEngine",
    "AsyncSession",
    "async_scoped_session",
    "async_sessionmaker",
    "await_only",
    "is_awaitable_here",
]


def is_awaitable_here() -> bool:
    """Whether plain code runs for a coroutine of SQLAlchemy, so that `await_only` works."""
    return greenlet is not None and bool(in_greenlet())
