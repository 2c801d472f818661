"""The same as `mistakes.py`, for SQLAlchemy."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Session, scoped_session, sessionmaker

from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import Outbox, OutboxRelay, Tags, invalidate_on_commit


class Base(DeclarativeBase): ...


class Task(Base):
    __tablename__ = "tasks"


class Project(Base):
    __tablename__ = "projects"


def sessions_and_makers(
    guard: StampedeGuard,
    session: Session,
    maker: sessionmaker[Session],
    scoped: scoped_session[Session],
    later: async_sessionmaker[AsyncSession],
) -> None:
    outbox = Outbox(name="outbox")
    invalidate_on_commit(maker, guard, {Task: ("task:{id}",)})
    invalidate_on_commit(scoped, guard, {Task: Tags("task:{id}", bulk="tasks"), Project: ("projects",)})
    invalidate_on_commit(later, guard, {Task: ["task:{id}"]}, outbox=outbox)
    invalidate_on_commit(session, guard, "task:7", "tasks", key="report:7", type=int)

    invalidate_on_commit(guard, session, "task:7")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    invalidate_on_commit(session, guard, 7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    invalidate_on_commit(session, guard, "task:7", outbox=outbox)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Tags("task:{id}", bulk=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def relays(guard: StampedeGuard, engine: Engine, later: AsyncEngine) -> None:
    async with OutboxRelay(Outbox(), guard, later, every="2s"):
        pass
    with OutboxRelay(Outbox(), guard, engine, after=10):
        pass
    OutboxRelay(Outbox(), engine)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
