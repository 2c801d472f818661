"""Tags of models: invalidated with the commit, by signals and by bulk statements."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import pytest
from django.db import models, transaction
from django.test import TestCase

from stampede_guard.errors import Misuse
from stampede_guard.integrations.django import guard_of, invalidate_on_commit, invalidates, locked_cache
from tests.integrations.django.gates import threads

pytestmark = pytest.mark.usefixtures("site")


class Watch:
    """Which of some tags were invalidated since the last look. It looks from another thread, as another worker."""

    def __init__(self, *tags: str) -> None:
        self._seen: dict[str, int] = {}
        self._functions = {tag: self._function(tag) for tag in tags}
        self.changed()

    def _function(self, tag: str) -> Callable[[], int]:
        def count() -> int:
            self._seen[tag] = self._seen.get(tag, 0) + 1
            return self._seen[tag]

        cached: Callable[[], int] = locked_cache(ttl=60, tags=(tag,), name=f"watch.{tag}")(count)
        return cached

    def changed(self) -> set[str]:
        before = dict(self._seen)
        with threads(1) as submit:
            for function in self._functions.values():
                submit(function).result()
        return {tag for tag, count in self._seen.items() if before.get(tag) != count}


def product(**fields: Any) -> Any:
    from tests.integrations.django.shop.models import Product

    return Product.objects.create(name="chair", **fields)


def test_a_commit_invalidates_and_a_rollback_does_not() -> None:
    watch = Watch("products", "shelf:1", "shelf:2")
    with transaction.atomic():
        product(shelf=1)
        assert watch.changed() == set()
    assert watch.changed() == {"products", "shelf:1"}
    with pytest.raises(LookupError), transaction.atomic():
        product(shelf=2)
        raise LookupError
    assert watch.changed() == set()
    with transaction.atomic():
        product(shelf=1)
        with pytest.raises(LookupError), transaction.atomic():
            product(shelf=2)
            raise LookupError
    assert watch.changed() == {"products", "shelf:1"}
    product(shelf=2)  # without a transaction, at once
    assert watch.changed() == {"products", "shelf:2"}


def test_a_row_that_moves_changes_both_places_and_a_deleted_one_its_own() -> None:
    chair = product(shelf=1)
    watch = Watch("shelf:1", "shelf:2", f"product:{chair.pk}")
    chair.shelf = 2
    chair.save()
    assert watch.changed() == {"shelf:1", "shelf:2", f"product:{chair.pk}"}
    key = chair.pk
    chair.delete()
    assert watch.changed() == {"shelf:2", f"product:{key}"}


def test_what_is_read_while_a_row_moves_does_not_stay() -> None:
    from tests.integrations.django.shop.models import Product

    @locked_cache(ttl=60, tags=("shelf:{shelf}",))
    def on_shelf(shelf: int) -> int:
        return Product.objects.filter(shelf=shelf).count()

    def read(**_: Any) -> None:
        assert on_shelf(1) == 1

    chair = product(shelf=1)
    chair.shelf = 2
    # Outside of a transaction: after the tags of the old values are known, and before the UPDATE.
    models.signals.pre_save.connect(read, sender=Product)
    try:
        chair.save()
    finally:
        models.signals.pre_save.disconnect(read, sender=Product)
    assert (on_shelf(1), on_shelf(2)) == (0, 1)


def test_many_to_many_fields_count_from_both_sides() -> None:
    from tests.integrations.django.shop.models import Label

    chair, table = product(), product()
    red = Label.objects.create(name="red")
    watch = Watch(f"product:{chair.pk}", f"product:{table.pk}")
    chair.labels.add(red)
    assert watch.changed() == {f"product:{chair.pk}"}
    red.products.add(table)
    assert watch.changed() == {f"product:{table.pk}"}
    red.products.remove(table)
    assert watch.changed() == {f"product:{table.pk}"}
    red.products.clear()
    assert watch.changed() == {f"product:{chair.pk}"}
    chair.labels.add(red)
    watch.changed()
    chair.labels.clear()
    assert watch.changed() == {f"product:{chair.pk}"}


def test_both_ends_of_a_link_have_changed() -> None:
    from tests.integrations.django.shop.models import Label

    chair = product()
    red, blue = (Label.objects.create(name=name) for name in ("red", "blue"))
    watch = Watch(*(f"label:{label.pk}" for label in (red, blue)), f"product:{chair.pk}")
    chair.labels.add(red, blue)
    assert watch.changed() == {f"label:{red.pk}", f"label:{blue.pk}", f"product:{chair.pk}"}
    chair.labels.clear()
    assert watch.changed() == {f"label:{red.pk}", f"label:{blue.pk}", f"product:{chair.pk}"}
    red.products.add(chair)
    watch.changed()
    red_key, chair_key = red.pk, chair.pk
    red.delete()
    assert watch.changed() == {f"label:{red_key}", f"product:{chair_key}"}
    chair.labels.add(blue)
    watch.changed()
    chair.delete()
    assert watch.changed() == {f"label:{blue.pk}", f"product:{chair_key}"}


def test_a_bulk_insert_that_updates_invalidates_the_old_values_too() -> None:
    from tests.integrations.django.shop.models import Product

    chair = product(shelf=1)
    watch = Watch("shelf:1", "shelf:2", "shelf:3", f"product:{chair.pk}")
    Product.objects.bulk_create(
        [Product(pk=chair.pk, name="chair", shelf=2), Product(name="new", shelf=3)],
        update_conflicts=True, update_fields=["shelf"], unique_fields=["id"],
    )  # fmt: skip
    assert watch.changed() == {"shelf:1", "shelf:2", "shelf:3", f"product:{chair.pk}"}
    with pytest.raises(Misuse, match="name the unique_fields"):
        Product.objects.bulk_create([Product(name="a")], update_conflicts=True, update_fields=["shelf"])


def test_bulk_statements_invalidate_before_and_after() -> None:
    from tests.integrations.django.shop.models import Product

    watch = Watch("products", *(f"shelf:{number}" for number in range(1, 7)))
    with transaction.atomic():
        made = Product.objects.bulk_create([Product(name="a", shelf=1), Product(name="b", shelf=2)])
        assert watch.changed() == set()
    assert watch.changed() == {"products", "shelf:1", "shelf:2"}
    assert Product.objects.filter(shelf=1).update(shelf=3) == 1
    assert watch.changed() == {"products", "shelf:1", "shelf:3"}
    assert Product.objects.filter(shelf=99).update(shelf=4) == 0
    assert watch.changed() == set()
    for one in made:
        one.shelf = 5
    with pytest.raises(LookupError), transaction.atomic():
        Product.objects.bulk_update(made, ["shelf"])
        raise LookupError
    assert watch.changed() == set()
    assert Product.objects.bulk_update(made, ["shelf"]) == 2
    assert watch.changed() == {"products", "shelf:2", "shelf:3", "shelf:5"}
    Product.objects.all().delete()
    assert watch.changed() == {"products", "shelf:5"}


def test_proxies_children_and_abstract_parents_have_the_tags_too() -> None:
    from tests.integrations.django.shop.models import Chair, Offer, Shop

    watch = Watch("products", "named", "shelf:1", "shelf:2", "shelf:3")
    Offer.objects.create(name="offer", shelf=1)
    assert watch.changed() == {"products", "shelf:1"}
    Chair.objects.create(name="chair", shelf=2)
    assert watch.changed() == {"products", "shelf:2"}
    Chair.objects.update(shelf=3)
    assert watch.changed() == {"products", "shelf:2", "shelf:3"}
    Offer.objects.all().delete()
    assert watch.changed() == {"products", "shelf:1", "shelf:3"}
    Shop.objects.create(name="shop")
    assert watch.changed() == {"named"}


def test_tags_of_ones_own_are_invalidated_once_per_commit() -> None:
    watch = Watch("menu", "prices")
    guard, told = guard_of(), []
    guard.add_hook(lambda event: told.append(type(event).__name__))
    with transaction.atomic():
        for _ in range(3):
            invalidate_on_commit("menu")
        assert told.count("Invalidated") == 0
    assert told.count("Invalidated") == 1
    assert watch.changed() == {"menu"}
    invalidate_on_commit("menu", "prices")
    assert watch.changed() == {"menu", "prices"}


def test_a_tag_that_names_no_column_is_an_error_that_lists_the_columns() -> None:
    class Shelf(models.Model):
        class Meta:
            app_label = "unmapped"

    with pytest.raises(Misuse, match=r"\{number\}.*no column of Shelf: write one of id, pk"):
        invalidates("shelf:{number}")(Shelf)
    with pytest.raises(Misuse, match=r"@invalidates\("):
        invalidates()


def test_a_value_that_only_the_database_computes_names_the_tag() -> None:
    one = product(shelf=1)
    watch = Watch("shelf:1", "shelf:2")
    one.shelf = models.F("shelf") + 1
    one.save()
    assert watch.changed() == {"shelf:1", "shelf:2"}


def test_a_deletion_needs_no_loaded_columns() -> None:
    from tests.integrations.django.shop.models import Product

    product(shelf=1)
    watch = Watch("shelf:1")
    Product.objects.only("name").get().delete()
    assert watch.changed() == {"shelf:1"}


def test_in_a_test_case_captured_commits_count_and_others_do_not() -> None:
    from tests.integrations.django.shop.models import Product

    calls = []

    @locked_cache(ttl=60, tags=("shelf:{shelf}",))
    def total(shelf: int) -> int:
        calls.append(shelf)
        return Product.objects.filter(shelf=shelf).count()

    class Tested(TestCase):
        """Django rolls each test back: it never commits."""

        @classmethod
        def setUpTestData(cls) -> None:
            with cls.captureOnCommitCallbacks(execute=True):
                product(shelf=3)

        def runTest(self) -> None:
            assert [total(3) for _ in range(2)] == [1, 1]
            assert len(calls) == 1, "what was set up counts as committed"
            with self.captureOnCommitCallbacks(execute=True):
                product(shelf=3)
            assert [total(3) for _ in range(2)] == [2, 2]
            assert len(calls) == 2
            product(shelf=3)
            assert [total(3) for _ in range(2)] == [3, 3]
            assert len(calls) == 4, "not captured, so not committed"

    result = unittest.TestResult()
    unittest.TestSuite([Tested()]).run(result)
    assert not result.failures + result.errors, result.failures + result.errors
