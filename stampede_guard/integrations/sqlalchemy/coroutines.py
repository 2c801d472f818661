"""What SQLAlchemy has for asyncio, which needs greenlet. A program with plain sessions may have no greenlet."""

from __future__ import annotations

from typing import Any

from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

try:
    import greenlet  # type: ignore[import-untyped]  # noqa: F401 - SQLAlchemy 2.0 imports its own module without it, and fails later
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_scoped_session, async_sessionmaker
except ImportError:

    class _WithoutGreenlet:
        """No object is of this class."""

    AsyncEngine = AsyncSession = async_scoped_session = async_sessionmaker = _WithoutGreenlet  # type: ignore[assignment,misc]
    _has_greenlet = False
else:
    _has_greenlet = True

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
    found: Any = _has_greenlet and in_greenlet()
    return bool(found)
