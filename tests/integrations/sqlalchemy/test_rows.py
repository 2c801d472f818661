"""Tags of rows that a session writes: with their old and their new values, when it commits."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import inspect
from sqlalchemy.orm import Session, sessionmaker

from stampede_guard.errors import Misuse
from tests.integrations.sqlalchemy.conftest import Watch, names
from tests.integrations.sqlalchemy.models import Bug, Label, Project, State, Task, Thing

Sessions = sessionmaker[Session]


def given(sessions: Sessions, watch: Watch, *rows: Any) -> None:
    with sessions.begin() as session:
        session.add_all(rows)
    watch.changed()


def test_a_commit_invalidates_and_a_rollback_does_not(sessions: Sessions, watch: Watch) -> None:
    with sessions() as session:
        session.add(Project(id=1))
        session.flush()
        assert watch.changed() == set()
        session.commit()
        assert watch.changed() == names("project:1", "names")
        session.add(Project(id=2))
        session.flush()
        session.rollback()
        session.add(Project(id=3))
        session.flush()
    assert watch.changed() == set(), "it was closed without a commit"
    with pytest.raises(LookupError), sessions.begin() as session:
        session.add(Project(id=4))
        session.flush()
        raise LookupError
    with sessions.begin() as session:
        session.add(Project(id=5))
    assert watch.changed() == names("project:5", "names")


def test_a_savepoint_that_is_rolled_back_forgets_its_own_changes_only(
    sessions: Sessions, watch: Watch
) -> None:
    with sessions.begin() as session:
        session.add(Project(id=1))
        with session.begin_nested():
            session.add(Project(id=2))
            with session.begin_nested() as inner:
                session.add(Project(id=3))
                session.flush()
                inner.rollback()
            session.add(Project(id=4))
        assert watch.changed() == set(), "a savepoint is not durable"
        outer = session.begin_nested()
        with session.begin_nested():
            session.add(Project(id=5))
        outer.rollback()
    with pytest.raises(LookupError), sessions.begin() as session:
        with session.begin_nested():
            session.add(Project(id=6))
        raise LookupError
    assert watch.changed() == names("project:1", "project:2", "project:4", "names")


def test_a_flush_that_fails_in_a_savepoint_leaves_what_was_before_it(
    sessions: Sessions, watch: Watch
) -> None:
    given(sessions, watch, Project(id=1))
    with sessions.begin() as session:
        session.add(Project(id=2))
        session.flush()
        with pytest.raises(Exception, match="duplicate key"), session.begin_nested():
            session.add(Project(id=1))
            session.flush()
    assert watch.changed() == names("project:2", "names")


def test_a_row_that_moves_changes_both_places_and_a_deleted_one_its_own(
    sessions: Sessions, watch: Watch
) -> None:
    given(sessions, watch, Project(id=1), Project(id=2), Task(id=7, project_id=1))
    with sessions.begin() as session:
        session.get_one(Task, 7).project_id = 2
    assert watch.changed() == names("project:1", "project:2", "task:7")
    with sessions.begin() as session:
        session.get_one(Task, 7).project_id = None
    assert watch.changed() == names("project:2", "project:None", "task:7")
    with sessions.begin() as session:
        session.get_one(Task, 7).project = session.get_one(Project, 1)
    assert names("project:1", "project:None", "task:7") <= watch.changed()
    with sessions.begin() as session:
        session.delete(session.get_one(Task, 7))
    assert watch.changed() >= names("project:1", "task:7")


def test_nothing_changes_without_a_statement(sessions: Sessions, watch: Watch) -> None:
    given(sessions, watch, Project(id=1, name="one"))
    with sessions.begin() as session:
        session.get_one(Project, 1).name = "one"
    assert watch.changed() == set()


def test_values_that_were_not_loaded_are_read_from_the_row(sessions: Sessions, watch: Watch) -> None:
    given(sessions, watch, Project(id=1), Project(id=2), Task(id=7, project_id=1))
    with sessions.begin() as session:
        task = session.get_one(Task, 7)
        session.expire(task)
        task.project_id = 2
        assert "name" not in inspect(task).dict
    assert watch.changed() == names("project:1", "project:2", "task:7")
    with sessions() as session:
        task = session.get_one(Task, 7)
        session.commit()
        session.delete(task)
        session.commit()
    assert watch.changed() >= names("project:2", "task:7")


@pytest.mark.parametrize("change", ["rename", "move", "delete"])
def test_a_row_that_another_session_has_moved_meanwhile_changes_its_real_place(
    sessions: Sessions, watch: Watch, change: str
) -> None:
    given(sessions, watch, *(Project(id=number) for number in (1, 2, 3)), Task(id=7, project_id=1))
    with sessions() as session:
        task = session.get_one(Task, 7)
        with sessions.begin() as other:
            other.get_one(Task, 7).project_id = 2
        watch.changed()
        if change == "delete":
            session.delete(task)
        elif change == "move":
            task.project_id = 3
        else:
            task.name = "other"
        session.commit()
    expected = {"rename": {"project:2"}, "move": {"project:2", "project:3"}, "delete": {"project:2"}}
    assert watch.changed() >= names("task:7", *expected[change])


def test_values_that_the_database_makes_are_read_from_it(sessions: Sessions, watch: Watch) -> None:
    given(sessions, watch, Thing(id=99, shelf=1, place=3))
    with sessions.begin() as session:
        session.get_one(Thing, 99).shelf = Thing.shelf + 5  # type: ignore[assignment]
    assert watch.changed() == names("shelf:1", "shelf:6", "place:3")
    with sessions.begin() as session:
        session.add(Thing())
    assert watch.changed() == names("shelf:1", "place:9")


def test_orphans_and_children_count(sessions: Sessions, watch: Watch) -> None:
    given(sessions, watch, Project(id=1, tasks=[Task(id=7), Task(id=8)]))
    with sessions.begin() as session:
        project = session.get_one(Project, 1)
        del project.tasks[0]
    assert watch.changed() >= names("project:1", "task:7", "names")
    with sessions.begin() as session:
        session.delete(session.get_one(Project, 1))
    assert watch.changed() == names("project:1", "task:8", "names", "tasks", "bugs", "projects")


def test_links_of_many_to_many_count_on_both_sides(sessions: Sessions, watch: Watch) -> None:
    given(sessions, watch, Task(id=7, labels=[Label(id=1), Label(id=2)]), Label(id=3))
    with sessions.begin() as session:
        task = session.get_one(Task, 7)
        task.labels.append(session.get_one(Label, 3))
        task.labels.remove(session.get_one(Label, 1))
    assert watch.changed() == names("task:7", "project:None", "label:1", "label:3")
    with sessions.begin() as session:
        session.delete(session.get_one(Task, 7))
    assert watch.changed() >= names("task:7", "label:2", "label:3")


def test_a_foreign_key_that_is_set_after_its_row_counts(sessions: Sessions, watch: Watch, guard: Any) -> None:
    given(sessions, watch, Project(id=1), Task(id=7, project_id=1))
    with sessions.begin() as session:
        session.get_one(Project, 1).favourite = session.get_one(Task, 7)
    assert watch.changed() == names("project:1", "names")


def test_a_new_object_in_the_place_of_a_deleted_one_changes_the_tags_of_both(
    sessions: Sessions, watch: Watch
) -> None:
    given(sessions, watch, Thing(id=1, shelf=1, place=3))
    with sessions.begin() as session:
        session.delete(session.get_one(Thing, 1))
        session.add(Thing(id=1, shelf=2, place=4))
    assert watch.changed() == names("shelf:1", "place:3", "shelf:2", "place:4")


def test_a_subclass_has_the_tags_of_its_parents_too(sessions: Sessions, watch: Watch) -> None:
    with sessions.begin() as session:
        session.add(Bug(id=5, severity=3))
    assert watch.changed() == names("task:5", "project:None", "severity:3")
    with sessions.begin() as session:
        session.get_one(Task, 5).name = "other"
    assert watch.changed() == names("task:5", "project:None", "severity:3")


def test_a_tag_has_the_text_that_a_caller_writes(sessions: Sessions, watch: Watch, guard: Any) -> None:
    from stampede_guard.integrations.sqlalchemy import invalidate_on_commit

    invalidate_on_commit(sessions, guard, {Thing: ("done:{done}", "state:{state}", "code:{code}")})
    with sessions.begin() as session:
        session.add(thing := Thing(done=1))
        session.flush()
        code = thing.code
    assert watch.changed() == names(
        "shelf:1", "place:9", "done:True", f"state:{State.OPEN.value}", f"code:{code}"
    )
    with sessions() as session:
        invalidate_on_commit(session, guard, {Thing: ("data:{data}",)})
        session.add(Thing())
        with pytest.raises(Misuse, match=r"Thing.data is a bytes.*a tag takes a str"):
            session.commit()
