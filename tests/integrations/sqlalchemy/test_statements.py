"""Statements over rows that the session does not know: never without an invalidation, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event, func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker

from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy import Tags, invalidate_on_commit
from tests.integrations.sqlalchemy.conftest import Watch, names
from tests.integrations.sqlalchemy.models import Bug, Label, Note, Project, Task, links

table: Any = Label.__table__
STATEMENTS: dict[str, Callable[[Session], object]] = {
    "update": lambda session: session.execute(update(Label).where(Label.id == 1).values(name="x")),
    "delete": lambda session: session.execute(delete(Label).where(Label.id == 1)),
    "insert": lambda session: session.execute(insert(Label), [{"name": "a"}, {"name": "b"}]),
    "insert from select": lambda session: session.execute(
        insert(Label).from_select(["name"], select(Label.name))
    ),
    "update by key": lambda session: session.execute(update(Label), [{"id": 1, "name": "x"}]),
    "returning": lambda session: session.scalars(insert(Label).values(name="a").returning(Label)).all(),
    "core": lambda session: session.execute(update(table).values(name="x")),
    "connection": lambda session: session.connection().execute(delete(table)),
    "alias": lambda session: session.execute(update(table.alias("l")).values(name="x")),
    "with": lambda session: session.execute(
        select(func.count()).select_from(update(table).values(name="x").returning(table.c.id).cte("changed"))
    ),
    "query update": lambda session: session.query(Label).update({"name": "x"}),
    "query delete": lambda session: session.query(Label).delete(),
    "save objects": lambda session: session.bulk_save_objects([Label(name="a"), Label(name="b")]),
    "insert mappings": lambda session: session.bulk_insert_mappings(Label.__mapper__, [{"name": "a"}]),
    "update mappings": lambda session: session.bulk_update_mappings(
        Label.__mapper__, [{"id": 1, "name": "x"}]
    ),
    "links": lambda session: session.execute(insert(links).values(task_id=7, label_id=1)),
    "cascade": lambda session: session.execute(delete(Label).where(Label.name == "none")),
}


@pytest.fixture
def rows(tables: Engine) -> Engine:
    with Session(tables) as session:
        session.add_all([Project(id=1), Task(id=7, project_id=1), Label()])
        session.commit()
    return tables


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_invalidates_the_bulk_tag_with_the_commit_and_without_one_is_not_sent(
    rows: Engine, guard: StampedeGuard, watch: Watch, name: str
) -> None:
    send = STATEMENTS[name]
    with Session(rows) as session:
        invalidate_on_commit(session, guard, {Label: Tags("label:{id}", bulk="labels")})
        send(session)
        session.rollback()
        assert watch.changed() == set()
        send(session)
        assert watch.changed() == set()
        session.commit()
        assert watch.changed() == names("labels")
    sent: list[str] = []
    with Session(rows) as session:
        invalidate_on_commit(session, guard, {Label: ("label:{id}",)})
        session.execute(select(Label))
        event.listen(rows, "after_cursor_execute", hear := lambda *told: sent.append(told[2]))
        try:
            with pytest.raises(Misuse, match=r"Label.*'label:\{id\}'.*bulk=.*stampede_guard_tags"):
                send(session)
        finally:
            event.remove(rows, "after_cursor_execute", hear)
        assert sent == []
        session.rollback()
        session.add(Label())
        session.commit()
    assert len(watch.changed()) == 1, "the session goes on"


def test_tags_without_attributes_need_no_bulk_tag(rows: Engine, guard: StampedeGuard, watch: Watch) -> None:
    with Session(rows) as session:
        invalidate_on_commit(session, guard, {Label: ("labels",)})
        session.execute(delete(Label))
        session.commit()
    assert watch.changed() == names("labels")


def test_a_statement_may_name_its_own_tags(rows: Engine, guard: StampedeGuard, watch: Watch) -> None:
    with Session(rows) as session:
        invalidate_on_commit(session, guard, {Task: ("task:{id}",), Label: ("label:{id}",)})
        statement = update(Task).where(Task.id == 7).values(name="x")
        session.execute(statement, execution_options={"stampede_guard_tags": ("task:7", "names")})
        session.execute(delete(Label).execution_options(stampede_guard_tags=()))
        session.commit()
    assert watch.changed() == names("task:7", "names")


def test_statements_of_other_tables_and_reads_invalidate_nothing(
    sessions: sessionmaker[Session], watch: Watch
) -> None:
    with sessions.begin() as session:
        session.execute(delete(Note))
        session.scalars(select(Label)).all()
        session.execute(select(select(Label.id).cte("read")))
    assert watch.changed() == set()


def test_rows_of_parents_children_and_cascades_count(
    rows: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    with Session(rows) as session:
        invalidate_on_commit(
            session, guard, {Bug: Tags("severity:{severity}", bulk="bugs"), Note: ("notes",)}
        )
        session.execute(update(Task).values(name="x"))  # a Bug has columns in this table
        session.commit()
        assert watch.changed() == names("bugs")
        session.execute(delete(Project))  # which deletes its tasks, and so bugs
        session.commit()
        assert watch.changed() == names("bugs")
        session.add(project := Project(id=2))
        session.commit()
        session.delete(project)
        session.commit()
    assert watch.changed() == names("bugs")


def test_a_statement_of_a_flush_hook_is_one_of_its_own(
    rows: Engine, guard: StampedeGuard, watch: Watch
) -> None:
    with Session(rows) as session:
        invalidate_on_commit(
            session, guard, {Task: Tags("task:{id}", bulk="tasks"), Label: Tags("label:{id}", bulk="labels")}
        )

        def hook(mapper: Any, connection: Any, target: Any) -> None:
            connection.execute(update(table).values(name="x"))

        event.listen(Task, "before_update", hook)
        try:
            session.get_one(Task, 7).name = "x"
            session.commit()
        finally:
            event.remove(Task, "before_update", hook)
    assert watch.changed() == names("task:7", "labels")


def test_a_flush_without_work_hides_no_statement(rows: Engine, guard: StampedeGuard, watch: Watch) -> None:
    with Session(rows) as session:
        invalidate_on_commit(session, guard, {Label: Tags("label:{id}", bulk="labels")})

        @event.listens_for(session, "before_flush")
        def nothing_is_left(session: Session, context: Any, instances: Any) -> None:
            session.expunge_all()

        session.add(Label())
        session.flush()
        session.bulk_save_objects([Label(name="a")])
        session.commit()
    assert watch.changed() == names("labels")
