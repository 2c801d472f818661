"""Changes that Django makes without a signal, or with one that does not name all rows, invalidate each row's tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import models, transaction
from django.db.migrations.state import ModelState

from tests.integrations.django.test_invalidation import Watch

pytestmark = pytest.mark.usefixtures("site")


def model(name: str) -> Any:
    return apps.get_model("shop", name)


@pytest.fixture(params=["autocommit", "a transaction"])
def changed(request: pytest.FixtureRequest) -> Callable[..., set[str]]:
    """The tags, of all those given, that a change invalidates."""

    watches: dict[str, Watch] = {}

    def changed(change: Callable[[], object], *tags: str) -> set[str]:
        watched = [watches.get(tag) or watches.setdefault(tag, Watch(tag)) for tag in tags]
        for watch in watched:
            watch.changed()
        if request.param == "autocommit":
            change()
        else:
            with transaction.atomic():
                change()
        return {tag for watch in watched for tag in watch.changed()}

    return changed


def owners() -> tuple[Any, Any, tuple[str, str]]:
    one, two = model("Owner").objects.create(), model("Owner").objects.create()
    return one, two, (f"owner:{one.pk}", f"owner:{two.pk}")


def test_a_row_given_to_the_other_side_of_a_foreign_key(changed: Callable[..., set[str]]) -> None:
    one, two, tags = owners()
    task = one.tasks.create()
    mine = f"task:{task.pk}"
    assert changed(lambda: two.tasks.add(task), *tags, mine) == {*tags, mine}
    assert changed(lambda: one.tasks.set([task]), *tags, mine) == {*tags, mine}
    assert changed(lambda: one.tasks.set([]), *tags, mine) == {tags[0], mine}


@pytest.mark.parametrize("link", ["reviewer", "auditor"])
def test_rows_that_outlive_the_row_they_point_to(changed: Callable[..., set[str]], link: str) -> None:
    one, two, _ = owners()
    task = model("Task").objects.create(owner=one, **{link: two})
    key = two.pk
    tags = (f"task:{task.pk}", f"{link}:{key}", f"owner:{one.pk}")
    assert changed(two.delete, *tags) == set(tags)
    task.refresh_from_db()
    assert getattr(task, link) is None


def test_a_new_object_that_replaces_a_row(changed: Callable[..., set[str]]) -> None:
    one, two, tags = owners()
    task = one.tasks.create()
    mine = f"task:{task.pk}"
    assert changed(model("Task")(pk=task.pk, owner=two).save, *tags, mine) == {*tags, mine}
    assert changed(lambda: model("Task").objects.create(owner=one), *tags) == {tags[0]}


def test_a_fixture_that_is_loaded_over_rows(changed: Callable[..., set[str]], tmp_path: Path) -> None:
    one, two, tags = owners()
    story = model("Story").objects.create(owner=one, name="old")
    file = tmp_path / "tasks.json"
    task = {"owner": two.pk, "name": "new", "helpers": []}
    rows = [
        {"model": "shop.task", "pk": story.pk, "fields": task},
        {"model": "shop.story", "pk": story.pk, "fields": {"points": 2}},
    ]
    file.write_text(json.dumps(rows))
    found = changed(
        lambda: call_command("loaddata", str(file), verbosity=0),
        *tags, f"task:{story.pk}", f"story:{story.pk}", "named:old", "named:new",
    )  # fmt: skip
    assert found == {*tags, f"task:{story.pk}", f"story:{story.pk}", "named:old", "named:new"}


def test_a_change_of_the_parent_of_a_multi_table_child(changed: Callable[..., set[str]]) -> None:
    one, two, tags = owners()
    task = model("Task").objects
    story = model("Story").objects.create(owner=one, name="a")
    other = task.create(owner=one, name="a")
    mine = f"story:{story.pk}"
    names = ("named:a", "named:b", "named:c")

    def rename() -> None:
        found = task.get(pk=story.pk)
        found.name = "b"
        found.save()

    assert changed(rename, mine, *names) == {mine, "named:a", "named:b"}
    update = task.filter(pk=story.pk).update
    assert changed(lambda: update(name="c"), mine, *names) == {mine, "named:b", "named:c"}
    assert changed(lambda: two.tasks.add(task.get(pk=story.pk)), mine, *tags) == {mine, *tags}
    assert changed(lambda: task.get(pk=story.pk).helpers.add(one), mine, *tags) == {mine, *tags}
    assert changed(lambda: task.filter(pk=other.pk).update(name="d"), mine, *names) == set()
    assert changed(task.get(pk=story.pk).delete, mine, *names, tags[1]) == {mine, "named:c", tags[1]}


def test_a_parent_without_tags(changed: Callable[..., set[str]]) -> None:
    cafe = model("Cafe").objects.create(name="a")
    place, mine = model("Place").objects, f"cafe:{cafe.pk}"
    assert changed(lambda: place.filter(pk=cafe.pk).update(name="b"), mine) == {mine}
    assert changed(place.get(pk=cafe.pk).save, mine) == {mine}
    assert changed(lambda: place.create(name="c"), mine) == set()
    again = place.model(pk=cafe.pk, name="d")
    assert changed(
        lambda: place.bulk_create(
            [again], update_conflicts=True, unique_fields=["id"], update_fields=["name"]
        ),
        mine,
    ) == {mine}


def test_models_stay_the_same_for_migrations_and_for_reading() -> None:
    for name in ("Task", "Story", "Offer", "Chair", "Owner"):
        found = model(name)
        apps.clear_cache()
        assert found._base_manager.auto_created and found._base_manager.name == "_base_manager"
        assert found._base_manager.model is found
        assert found._default_manager.name == "objects"
        assert [manager for manager, _ in ModelState.from_model(found).managers] == [
            manager for manager, _ in ModelState.from_model(found).managers if manager != "_base_manager"
        ]
    one, _, _ = owners()
    assert one.tasks.create().owner == one


def test_the_check_names_what_stays_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    from stampede_guard.integrations.django.checks import check_models

    task = model("Task")

    def found() -> list[Any]:
        task._meta._expire_cache()
        return [one.id for one in check_models() if one.obj is task]

    assert found() == []
    with monkeypatch.context() as patched:
        patched.setattr(task._meta, "base_manager_name", "plain")
        assert found() == ["stampede_guard.W005"]
    with monkeypatch.context() as patched:
        patched.setattr(task._meta.get_field("auditor").remote_field, "on_delete", models.SET_DEFAULT)
        assert found() == ["stampede_guard.W006"]
    assert found() == []
    place = model("Place")
    monkeypatch.setattr(place._meta, "default_manager_name", "_default")
    monkeypatch.setitem(vars(place._meta), "default_manager", task.plain)
    assert [one.id for one in check_models() if one.obj is place] == ["stampede_guard.W004"]
