"""Cached methods: `self` and `cls` are in the key, and the other methods are bound as the call is."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from dataclasses import dataclass
from typing import Any

import httpx
import pydantic
import pytest
from fastapi import FastAPI

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.stores.memory import MemoryStore
from tests.support.inside import store_of

guard = StampedeGuard(MemoryStore(), namespace="methods")
computed: list[Any] = []


@pytest.fixture(autouse=True)
async def nothing_is_stored() -> Any:
    computed.clear()
    store_of(guard)._entries.clear()  # type: ignore[attr-defined]
    yield
    await guard.aclose()


class Shop:
    """A class with a stable key of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.connection = object()

    def __cache_key__(self) -> tuple[str, int]:
        return ("shop", self.number)

    @guard.locked_cache(ttl=300)
    async def sales(self, day: str, *, net: bool = False) -> int:
        """What was sold."""
        computed.append((self.number, day))
        return self.number * 100 + len(computed)

    @guard.locked_cache(ttl=300)
    def plain_sales(self, day: str) -> int:
        computed.append((self.number, day))
        return self.number * 100 + len(computed)

    @guard.locked_cache(ttl=300)
    @classmethod
    async def outlets(cls, country: str) -> str:
        computed.append((cls.__name__, country))
        return f"{cls.__name__} {len(computed)}"

    @classmethod
    @guard.locked_cache(ttl=300)
    def plain_outlets(cls, country: str) -> str:
        computed.append((cls.__name__, country))
        return f"{cls.__name__} {len(computed)}"

    @guard.locked_cache(ttl=300)
    @staticmethod
    async def rate(currency: str) -> int:
        computed.append(currency)
        return len(computed)

    @staticmethod
    @guard.locked_cache(ttl=300)
    def plain_rate(currency: str) -> int:
        computed.append(currency)
        return len(computed)

    @property
    @guard.locked_cache(ttl=300)
    def total(self) -> int:
        computed.append("total")
        return len(computed)


class Outlet(Shop):
    pass


async def test_objects_with_equal_keys_share_entries_and_others_do_not() -> None:
    one, same, other = Shop(1), Shop(1), Shop(2)
    assert [await one.sales("mo"), await same.sales("mo"), await other.sales("mo")] == [101, 101, 202]
    assert await Outlet(1).sales("mo") == 103, "another class, whatever its key"
    assert computed == [(1, "mo"), (2, "mo"), (1, "mo")]


async def test_the_other_methods_are_bound_to_the_object_that_they_are_reached_through() -> None:
    one, other = Shop(1), Shop(2)
    assert [await one.sales("mo"), await other.sales("mo")] == [101, 202]
    assert await one.sales.invalidate("mo") == "done"
    assert [await one.sales("mo"), await other.sales("mo")] == [103, 202]
    assert await other.sales.refresh(day="mo") == 204
    assert await Shop.sales.invalidate(one, "mo") == "done"
    assert [await one.sales("mo"), await other.sales("mo")] == [105, 204]
    assert one.sales.key("mo") == Shop.sales.key(one, "mo") != other.sales.key("mo")
    assert "('shop',1)" in one.sales.explain("mo")["self"].replace("tuple", "")
    assert await one.sales.__wrapped__("mo") == 106


def test_the_same_holds_for_plain_methods() -> None:
    one, other = Shop(1), Shop(2)
    assert [one.plain_sales("mo"), other.plain_sales("mo"), one.plain_sales("mo")] == [101, 202, 101]
    assert one.plain_sales.invalidate("mo") == "done"
    assert [one.plain_sales("mo"), other.plain_sales.refresh("mo"), other.plain_sales("mo")] == [
        103,
        204,
        204,
    ]
    assert Shop.plain_sales(one, "mo") == 103
    assert [one.total, other.total, one.total] == [5, 6, 5]


async def test_a_class_method_is_per_class_in_both_orders() -> None:
    assert [await Shop.outlets("de"), await Shop(1).outlets("de"), await Outlet.outlets("de")] == [
        "Shop 1", "Shop 1", "Outlet 2",
    ]  # fmt: skip
    assert await Outlet.outlets.invalidate("de") == "done"
    assert [await Shop.outlets("de"), await Outlet(1).outlets("de")] == ["Shop 1", "Outlet 3"]
    assert [Shop.plain_outlets("de"), Shop(1).plain_outlets("de"), Outlet.plain_outlets("de")] == [
        "Shop 4", "Shop 4", "Outlet 5",
    ]  # fmt: skip


def test_below_classmethod_the_other_methods_are_bound_or_say_what_to_write() -> None:
    assert Shop.plain_outlets("de") == "Shop 1"
    if sys.version_info < (3, 13):
        assert Shop.plain_outlets.invalidate("de") == "done"  # type: ignore[attr-defined]
    else:
        with pytest.raises(Misuse, match="write @locked_cache above @classmethod"):
            Shop.plain_outlets.invalidate("de")
        assert Shop.plain_outlets.invalidate(Shop, "de") == "done"
    assert Shop.plain_outlets("de") == "Shop 2"


def test_without_the_class_the_error_says_where_the_decorator_belongs() -> None:
    below: Any = vars(Shop)["plain_outlets"].__func__
    with pytest.raises(Misuse, match="write @locked_cache above @classmethod"):
        below.invalidate("de")
    assert below.invalidate(Shop, "de") == "done"


async def test_a_static_method_has_no_object_in_both_orders() -> None:
    assert [await Shop.rate("eur"), await Shop(1).rate("eur"), await Shop.rate("usd")] == [1, 1, 2]
    assert await Shop.rate.invalidate("eur") == "done"
    assert await Shop(1).rate("eur") == 3
    assert [Shop.plain_rate("eur"), Shop(1).plain_rate("eur")] == [4, 4]
    assert Shop(1).plain_rate.invalidate("eur") == "done"
    assert Shop.plain_rate("eur") == 5


class Nameless:
    @guard.locked_cache(ttl=300)
    async def sales(self, day: str) -> int:
        return 1

    @guard.locked_cache(ttl=300, unkeyed=("self",))
    async def for_all(self, day: str) -> int:
        computed.append(day)
        return len(computed)


async def test_an_object_without_a_stable_key_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(KeyPartError) as caught:
        await Nameless().sales("mo")
    assert caught.value.parameter == "self"
    for advice in ('unkeyed=("self",)', "__cache_key__(self)", "key=lambda self, ...:"):
        assert advice in str(caught.value)
    assert "resources" not in str(caught.value)


async def test_an_unkeyed_self_is_no_part_of_the_key() -> None:
    assert [await Nameless().for_all("mo"), await Nameless().for_all("mo")] == [1, 1]
    assert await Nameless().for_all.invalidate("mo") == "done"
    assert await Nameless().for_all("mo") == 2


@dataclass(frozen=True)
class Account:
    number: int
    name: str

    @guard.locked_cache(ttl=300)
    async def balance(self) -> int:
        computed.append(self)
        return len(computed)


async def test_an_object_that_is_a_value_is_its_own_key() -> None:
    assert [await Account(1, "a").balance(), await Account(1, "a").balance(), await Account(1, "b").balance()] == [1, 1, 2]  # fmt: skip  # noqa: E501


async def test_a_class_made_inside_a_function_is_not_told_apart_by_its_name() -> None:
    class Local:
        @guard.locked_cache(ttl=300)
        @classmethod
        async def outlets(cls) -> int:
            return 1

    with pytest.raises(KeyPartError, match=r"made inside a function.*unkeyed=\(\"cls\",\)"):
        await Local.outlets()


class Keyed:
    def __init__(self, key: Any) -> None:
        self._key = key

    def __cache_key__(self) -> Any:
        return self._key


async def test_an_argument_may_have_a_stable_key_too_and_it_must_be_keyable() -> None:
    @guard.locked_cache(ttl=300)
    async def quality(keyed: Keyed) -> int:
        return 1

    assert quality.key(Keyed(1)) == quality.key(Keyed(1)) != quality.key(Keyed("1"))
    assert quality.key(Keyed(1)) != quality.key(1)  # type: ignore[arg-type]
    with pytest.raises(KeyPartError, match="parameter 'keyed'"):
        quality.key(Keyed(object()))


# --- what others see of a method ------------------------------------------------------------------------


def test_a_method_has_name_docstring_signature_and_kind_of_its_function() -> None:
    bound, free = Shop(1).sales, Shop.sales
    for method in (bound, free):
        assert inspect.iscoroutinefunction(method)
        assert (method.__name__, method.__doc__) == ("sales", "What was sold.")  # type: ignore[attr-defined]
    assert list(inspect.signature(bound).parameters) == ["day", "net"]
    assert list(inspect.signature(free).parameters) == ["self", "day", "net"]
    assert not inspect.iscoroutinefunction(Shop(1).plain_sales)


@pytest.mark.parametrize("method", ["sales", "plain_sales"])
async def test_a_bound_method_can_be_an_endpoint(method: str) -> None:
    app = FastAPI()
    app.get("/sales")(getattr(Shop(1), method))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        first, second = [await client.get("/sales?day=mo") for _ in range(2)]
        assert (first.json(), second.json()) == (101, 101)
        described = (await client.get("/openapi.json")).json()["paths"]["/sales"]["get"]
    assert described["parameters"][0]["name"] == "day"
    assert described["operationId"].startswith(method)


def test_above_property_is_a_named_error() -> None:
    def total(self: Any) -> int:
        return 1

    with pytest.raises(Misuse, match="below @property"):
        guard.locked_cache(ttl=300)(property(total))  # type: ignore[call-overload]


def test_a_mode_set_through_an_object_is_that_of_the_function() -> None:
    shop = Shop(1)
    shop.plain_sales.set_mode("off")
    try:
        assert [shop.plain_sales("mo"), Shop(1).plain_sales("mo")] == [101, 102]
    finally:
        Shop.plain_sales.set_mode(None)
    assert [shop.plain_sales("mo"), Shop(1).plain_sales("mo")] == [103, 103]


def test_super_reaches_the_method_of_the_base() -> None:
    class Louder(Shop):
        def plain_sales(self, day: str) -> int:  # type: ignore[override]
            return -super().plain_sales(day)

    shop = Louder(1)
    assert [shop.plain_sales("mo"), shop.plain_sales("mo")] == [-101, -101]


class Parcel:
    """Its objects can be pickled, as those are that another process works on."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __cache_key__(self) -> int:
        return self.number

    @guard.locked_cache(ttl=300)
    async def weight(self, unit: str) -> str:
        return f"{self.number} {unit}"

    @guard.locked_cache(ttl=300)
    @classmethod
    def kind(cls, language: str) -> str:
        return f"{cls.__name__} {language}"


class Letter(Parcel):
    pass


async def test_a_bound_method_can_be_pickled_and_copied_as_any_other() -> None:
    for copied in (
        pickle.loads(pickle.dumps(Parcel(3).weight)),
        copy.copy(Parcel(3).weight),
        copy.deepcopy(Parcel(3).weight),
    ):
        assert await copied("kg") == "3 kg"
        assert await copied.invalidate("kg") == "done"
    assert pickle.loads(pickle.dumps(Letter.kind))("en") == "Letter en"
    assert pickle.loads(pickle.dumps(Parcel.weight)) is Parcel.weight


class Crate(pydantic.BaseModel):
    number: int

    @guard.locked_cache(ttl=300)
    async def weight(self, unit: str) -> str:
        return f"{self.number} {unit}"

    @guard.locked_cache(ttl=300)
    @classmethod
    async def kind(cls, language: str) -> str:
        return f"{cls.__name__} {language}"

    @guard.cached_many(ttl=300)
    async def labels(self, ids: list[int]) -> dict[int, str]:
        return {id: f"{self.number}/{id}" for id in ids}


class Chest(Crate):
    locked: bool = True


async def test_a_model_of_pydantic_takes_a_cached_method_for_no_field() -> None:
    assert list(Chest.model_fields) == ["number", "locked"]
    assert [await Crate(number=3).weight("kg"), await Chest(number=4).weight("kg")] == ["3 kg", "4 kg"]
    assert [await Crate.kind("en"), await Chest.kind("en")] == ["Crate en", "Chest en"]
    assert await Crate(number=3).labels([1]) == {1: "3/1"}
    assert await Crate(number=3).weight.invalidate("kg") == "done"
