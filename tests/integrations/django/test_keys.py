"""Rows, users and related rows as parameters of cached functions."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
from django.utils.functional import SimpleLazyObject

from stampede_guard.errors import KeyPartError
from stampede_guard.integrations.django import locked_cache

pytestmark = pytest.mark.usefixtures("site")


@pytest.fixture
def title(site: Any) -> Any:
    @locked_cache(ttl=60, name="shop.title")
    def title(product: Any) -> str:
        return str(product.name)

    return title


def test_a_row_has_one_key_whatever_was_loaded_beside_it(title: Any) -> None:
    from tests.integrations.django.shop.models import Chair, Product

    Chair.objects.create(name="chair", legs=3)
    chair = Chair.objects.get()
    key = title.key(chair)
    assert str(chair.product_ptr.name) == "chair"
    assert title.key(chair) == key, "a related row was loaded"
    assert title.key(Chair.objects.select_related("product_ptr").get()) == key
    lazy = SimpleLazyObject(Chair.objects.get)
    assert [title.key(lazy) for _ in range(2)] == [key] * 2
    assert title.key(Product.objects.get()) != key


@dataclasses.dataclass
class Asked:
    product: Any


@pytest.mark.parametrize(
    "given",
    [lambda lazy: lazy, lambda lazy: [{"a": (lazy,)}], Asked],
    ids=["itself", "in containers", "in a dataclass"],
)
@pytest.mark.parametrize("key", [None, lambda product: product], ids=["arguments", "key="])
def test_a_lazy_row_is_loaded_in_its_callers_thread(given: Any, key: Any) -> None:
    from tests.integrations.django.shop.models import Product

    Product.objects.create(name="tea")
    threads: list[int] = []

    def load() -> Any:
        threads.append(threading.get_ident())
        return Product.objects.get()

    @locked_cache(ttl=60, name="shop.loaded", **({} if key is None else {"key": key}))
    def loaded(product: Any) -> int:
        return 7

    for use in (loaded, loaded.refresh, loaded.invalidate):
        use(given(SimpleLazyObject(load)))
    assert threads == [threading.get_ident()] * 3


def test_rows_that_differ_have_keys_of_their_own(title: Any) -> None:
    from tests.integrations.django.shop.models import Product

    made = Product.objects.create(name="tea")
    stored = Product.objects.get()
    changed, partial = Product.objects.get(), Product.objects.only("name").get()
    changed.name = "coffee"
    new, other = Product(name="tea"), Product(name="milk")
    elsewhere = Product.objects.get()
    elsewhere._state.db = "replica"
    assert len({title.key(row) for row in (stored, changed, partial, new, other, elsewhere)}) == 6
    assert title.key(made) == title.key(stored)


def test_a_parameter_may_be_declared_as_a_row() -> None:
    from tests.integrations.django.shop.models import Product

    def words(product: Any) -> str:
        return str(product.name)

    words.__annotations__["product"] = Product
    declared: Any = locked_cache(ttl=60, name="shop.words")(words)
    assert declared(Product(name="tea")) == "tea"
    assert declared.key(Product(name="tea")) != declared.key(Product(name="milk"))


def test_prefetched_rows_are_part_of_the_key(title: Any) -> None:
    from django.db.models import Prefetch

    from tests.integrations.django.shop.models import Label, Product

    product = Product.objects.create(name="tea")
    product.labels.set([Label.objects.create(name=name) for name in ("old", "new")])
    some = Prefetch("labels", queryset=Label.objects.filter(name="old"))
    whole, part = (Product.objects.prefetch_related(one).get() for one in ("labels", some))
    assert len({title.key(whole), title.key(part), title.key(Product.objects.get())}) == 3
    assert title.key(whole) == title.key(Product.objects.prefetch_related("labels").get())


def test_a_method_of_a_row_is_cached_by_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.integrations.django.shop.models import Product

    calls = []

    def shout(self: Any) -> str:
        calls.append(self.pk)
        return str(self.name).upper()

    monkeypatch.setattr(Product, "shout", locked_cache(ttl=60, name="shop.shout")(shout), raising=False)
    for name in ("tea", "milk"):
        Product.objects.create(name=name)
    assert [row.shout() for row in (*Product.objects.all(), *Product.objects.all())] == ["TEA", "MILK"] * 2  # type: ignore[attr-defined]
    assert len(calls) == 2


def test_what_django_writes_into_a_row_while_it_is_used_does_not_change_its_key(title: Any) -> None:
    from django.contrib.auth.models import User
    from django.core.files.base import ContentFile

    from tests.integrations.django.shop.models import Paper

    paper, user = Paper(id=1, file="a.txt"), User(id=1, username="ann", is_active=False)
    keys = [title.key(paper), title.key(user)]
    assert str(paper.file) == "a.txt"
    for name in ("_perm_cache", "_user_perm_cache", "_group_perm_cache"):
        setattr(user, name, {"shop.add_product"})
    assert [title.key(paper), title.key(user)] == keys
    assert title.key(Paper(id=1, file="b.txt")) != keys[0]
    with pytest.raises(KeyPartError, match="FieldFile"):
        title.key(Paper(id=1, file=ContentFile(b"", name="a.txt")).file.instance)


def test_a_function_that_asks_for_the_permissions_of_a_user_is_cached(site: Any) -> None:
    from django.contrib.auth.models import User

    calls = []

    @locked_cache(ttl=60)
    def may_add(user: Any) -> bool:
        calls.append(user)
        return bool(user.has_perm("shop.add_product"))

    User.objects.create(username="ann")
    assert [may_add(User.objects.get()) for _ in range(3)] == [False] * 3
    assert len(calls) == 1
    used = User.objects.get()
    used.has_perm("shop.add_product")
    may_add.invalidate(used)
    may_add(User.objects.get())
    assert len(calls) == 2


def test_visitors_who_have_not_logged_in_share_a_key(title: Any) -> None:
    from django.contrib.auth.models import AnonymousUser, User

    key = title.key(AnonymousUser())
    assert title.key(SimpleLazyObject(AnonymousUser)) == key
    assert title.key(User()) != key


@pytest.mark.parametrize("related", [False, True])
def test_a_function_that_loads_a_deferred_column_is_cached_by_the_columns_of_the_call(
    site: Any, related: bool
) -> None:
    from tests.integrations.django.shop.models import Chair

    calls = []

    @locked_cache(ttl=60, name="shop.legs")
    def legs(chair: Any) -> int:
        calls.append("legs" in chair.get_deferred_fields())
        return int(chair.legs)

    Chair.objects.create(name="chair", legs=3)

    def partly() -> Any:
        chair = Chair.objects.only("name").get()
        assert not related or chair.product_ptr.name == "chair"
        return chair

    row = partly()
    assert [legs(row), legs(row), legs(partly())] == [3] * 3
    assert calls == [True]
    assert "legs" in row.get_deferred_fields(), "the computation has a row of its own"
    legs.invalidate(row)
    Chair.objects.update(legs=4)
    assert [legs(partly()), legs(Chair.objects.get())] == [4] * 2
    assert calls == [True, True, False], "a complete row has a key of its own"


class Service:
    """It cannot be copied: it is looked at again after each computation."""

    def __cache_key__(self) -> str:
        return "service"


def test_a_deferred_column_may_be_loaded_beside_an_object_that_cannot_be_copied(site: Any) -> None:
    from tests.integrations.django.shop.models import Chair

    calls = []

    @locked_cache(ttl=60, name="shop.legs_of")
    def legs(service: Service, chair: Any) -> int:
        calls.append(chair.name)
        return int(chair.legs)

    Chair.objects.create(name="chair", legs=3)
    assert [legs(Service(), Chair.objects.only("name").get()) for _ in range(3)] == [3] * 3
    assert calls == ["chair"]


def test_a_row_whose_caller_changes_it_meanwhile_is_computed_as_it_was(site: Any) -> None:
    from tests.integrations.django.shop.models import Product

    row = Product(id=1, name="tea")

    @locked_cache(ttl=60, name="shop.meanwhile")
    def name(product: Any) -> str:
        row.name = "coffee"
        return str(product.name)

    assert name(row) == "tea"
    assert name(row) == "coffee"
