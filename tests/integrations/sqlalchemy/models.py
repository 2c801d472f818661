"""Tables of tasks and projects, with links of each kind. `TAGS` maps all that has tags."""

from __future__ import annotations

import enum
import uuid
from typing import Any

from sqlalchemy import Column, ForeignKey, Table, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from stampede_guard.integrations.sqlalchemy import Tags


class Base(DeclarativeBase):
    pass


class State(enum.Enum):
    OPEN = "open"
    DONE = "done"


class Project(Base):
    __tablename__ = "commit_projects"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(default="")
    favourite_id: Mapped[int | None] = mapped_column(ForeignKey("commit_tasks.id", ondelete="SET NULL"))
    tasks: Mapped[list[Task]] = relationship(
        back_populates="project", cascade="all, delete-orphan", foreign_keys="Task.project_id"
    )
    favourite: Mapped[Task | None] = relationship(foreign_keys=favourite_id, post_update=True)


links = Table(
    "commit_links", Base.metadata,
    Column("task_id", ForeignKey("commit_tasks.id", ondelete="CASCADE"), primary_key=True),
    Column("label_id", ForeignKey("commit_labels.id", ondelete="CASCADE"), primary_key=True),
)  # fmt: skip


class Task(Base):
    __tablename__ = "commit_tasks"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(default="")
    project_id: Mapped[int | None] = mapped_column(ForeignKey("commit_projects.id", ondelete="CASCADE"))
    project: Mapped[Project | None] = relationship(back_populates="tasks", foreign_keys=project_id)
    labels: Mapped[list[Label]] = relationship(secondary=links)
    kind: Mapped[str] = mapped_column(default="task")
    __mapper_args__: dict[str, Any] = {"polymorphic_on": "kind", "polymorphic_identity": "task"}  # noqa: RUF012


class Bug(Task):
    __tablename__ = "commit_bugs"
    id: Mapped[int] = mapped_column(ForeignKey("commit_tasks.id", ondelete="CASCADE"), primary_key=True)
    severity: Mapped[int] = mapped_column(default=1)
    __mapper_args__: dict[str, Any] = {"polymorphic_identity": "bug"}  # noqa: RUF012


class Label(Base):
    __tablename__ = "commit_labels"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(default="")


class Thing(Base):
    """Values of each type that a tag takes, and two that the database makes."""

    __tablename__ = "commit_things"
    id: Mapped[int] = mapped_column(primary_key=True)
    shelf: Mapped[int] = mapped_column(default=1)
    place: Mapped[int] = mapped_column(server_default="9")
    done: Mapped[bool] = mapped_column(default=False)
    state: Mapped[State] = mapped_column(default=State.OPEN)
    code: Mapped[uuid.UUID] = mapped_column(server_default=func.gen_random_uuid())
    data: Mapped[bytes] = mapped_column(default=b"")


class Note(Base):
    """Nothing is invalidated by it."""

    __tablename__ = "commit_notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[int] = mapped_column(ForeignKey("commit_tasks.id", deferrable=True, initially="DEFERRED"))


TAGS: dict[type[Any], Any] = {
    Project: Tags("project:{id}", "names", bulk="projects"),
    Task: Tags("task:{id}", "project:{project_id}", bulk="tasks"),
    Bug: Tags("severity:{severity}", bulk="bugs"),
    Label: ("label:{id}",),
    Thing: ("shelf:{shelf}", "place:{place}"),
}
