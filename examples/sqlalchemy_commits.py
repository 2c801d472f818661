"""Invalidation with the commit: rows are mapped to tags once, and no code that writes names a cache.

    python examples/sqlalchemy_commits.py

prints, the first time:

    counted the tasks of project 1
    project 1 has 2 tasks
    rolled back: project 1 has 2 tasks
    counted the tasks of project 1
    moved: project 1 has 1 tasks
    counted the tasks of project 1
    deleted all: project 1 has 0 tasks
"""

from __future__ import annotations

import os

from sqlalchemy import create_engine, delete, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker
from sqlalchemy.pool import StaticPool

from stampede_guard import StampedeGuard
from stampede_guard.integrations.sqlalchemy import Tags, invalidate_on_commit


class Base(DeclarativeBase): ...


class Task(Base):
    __tablename__ = "tasks"
    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int]


guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="commits")
engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
sessions = sessionmaker(engine)
# A bulk statement changes rows that the session does not know: it invalidates the tag "tasks".
invalidate_on_commit(sessions, guard, {Task: Tags("project:{project_id}", bulk="tasks")})


@guard.locked_cache(ttl=300, tags=("project:{project}", "tasks"))
def tasks(project: int) -> int:
    print(f"counted the tasks of project {project}")
    with engine.connect() as connection:
        query = select(func.count()).select_from(Task).where(Task.project_id == project)
        return connection.scalar(query) or 0


def main() -> None:
    Base.metadata.create_all(engine)
    with sessions.begin() as session:
        session.add_all([Task(id=1, project_id=1), Task(id=2, project_id=1)])
    print("project 1 has", tasks(1), "tasks")
    with sessions() as session:
        session.add(Task(id=3, project_id=1))
        session.flush()
        session.rollback()
    print("rolled back: project 1 has", tasks(1), "tasks")
    with sessions.begin() as session:
        session.get_one(Task, 1).project_id = 2
    print("moved: project 1 has", tasks(1), "tasks")
    with sessions.begin() as session:
        session.execute(delete(Task))
    print("deleted all: project 1 has", tasks(1), "tasks")


if __name__ == "__main__":
    main()
    guard.close()
