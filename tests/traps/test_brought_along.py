"""What a decorated callable brings along decides its result, so other processes with another one share no entries."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import KeyPartError, StampedeGuard
from stampede_guard.stores.memory import MemoryStore


class Client:
    def __init__(self, region: str) -> None:
        self.region = region

    async def fetch(self, id: int) -> str:
        return f"{self.region} {id}"

    async def __call__(self, id: int) -> str:
        return f"{self.region} {id}"

    def plain(self, id: int) -> str:
        return f"{self.region} {id}"


class Own(Client):
    """Says itself what it is."""

    def __init__(self, region: str) -> None:
        super().__init__(region)
        self.calls = 0

    def __cache_key__(self) -> str:
        return self.region

    async def fetch(self, id: int) -> str:
        self.calls += 1
        return await super().fetch(id)

    async def __call__(self, id: int) -> str:
        return await self.fetch(id)


@dataclasses.dataclass
class Record:
    region: str

    async def fetch(self, id: int) -> str:
        return f"{self.region} {id}"

    async def __call__(self, id: int) -> str:
        return f"{self.region} {id}"


class Slotted:
    __slots__ = ("region",)

    def __init__(self, region: str) -> None:
        self.region = region

    async def fetch(self, id: int) -> str:
        return f"{self.region} {id}"


class Bare:
    async def fetch(self, id: int) -> str:
        return f"{vars(self).get('region')} {id}"


class Box:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def fetch(self, id: int) -> str:
        return await self.client.fetch(id)


async def load(client: Client, id: int) -> str:
    return f"{client.region} {id}"


async def load_by(fetch: Callable[[int], Any], id: int) -> str:
    return f"{await fetch(id)}"


async def of_a_region(region: str, id: int) -> str:
    return f"{region} {id}"


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> Any:
        return await function(*args)

    return wrapper


class Wrapper:
    """As asgiref's: an object around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    async def __call__(self, *args: Any) -> Any:
        return await self.function(*args)


FORMS: dict[str, Callable[[str], Any]] = {
    "bound method": lambda region: Own(region).fetch,
    "bound method of a record": lambda region: Record(region).fetch,
    "callable object": Own,
    "callable record": Record,
    "partial of a method": lambda region: functools.partial(Client.fetch, Client(region)),
    "partial of a bound method": lambda region: functools.partial(Own(region).fetch),
    "partial of a callable object": lambda region: functools.partial(Own(region)),
    "partial with a callable object": lambda region: functools.partial(load, Client(region)),
    "partial with a bound method": lambda region: functools.partial(load_by, Client(region).fetch),
    "partial with a bound method of an object with slots": lambda region: functools.partial(
        load_by, Slotted(region).fetch
    ),
    "partial with a bound method of an object with an object": lambda region: functools.partial(
        load_by, Box(Client(region)).fetch
    ),
    "partial with a partial": lambda region: functools.partial(
        load_by, functools.partial(load, Client(region))
    ),
    "partial with a wrapper": lambda region: functools.partial(load_by, traced(Client(region).fetch)),
    "wrapper of a bound method": lambda region: traced(Own(region).fetch),
    "object that wraps a bound method": lambda region: Wrapper(Own(region).fetch),
}
OF_TEXTS: dict[str, Callable[[str], Any]] = {
    "partial with a partial of a text": lambda region: functools.partial(
        load_by, functools.partial(of_a_region, region)
    ),
    "wrapper of a partial of a text": lambda region: traced(functools.partial(of_a_region, region)),
}


def cached(given: Any, store: MemoryStore, **options: Any) -> Any:
    """In a process of its own: another guard."""
    return StampedeGuard(store, namespace="t").locked_cache(ttl=60, name="fetch", **options)(given)


@pytest.mark.parametrize("form", [*FORMS.values(), *OF_TEXTS.values()], ids=[*FORMS, *OF_TEXTS])
async def test_processes_with_different_objects_share_no_entries(form: Callable[[str], Any]) -> None:
    store = MemoryStore()
    for region in ("eu", "us", "eu"):
        assert await cached(form(region), store)(7) == f"{region} 7"
    keys = [cached(form(region), store).key(7) for region in ("eu", "eu", "us")]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("form", FORMS)
async def test_the_attributes_count_as_they_are_at_each_call(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    for kind in (Client, Slotted, Record):
        plain: Any = kind.__init__

        def noting(self: Any, region: str, plain: Any = plain) -> None:
            plain(self, region)
            made.append(self)

        monkeypatch.setattr(kind, "__init__", noting)
    function = cached(FORMS[form]("eu"), MemoryStore())
    assert await function(7) == "eu 7"
    made[0].region = "us"
    assert await function(7) == "us 7"


async def test_an_object_without_attributes_is_fine_until_it_has_some() -> None:
    bare = Bare()
    function = cached(bare.fetch, MemoryStore())
    assert await function(7) == "None 7"
    vars(bare)["region"] = "eu"
    with pytest.raises(KeyPartError, match=r"Bare\.fetch.*__cache_key__"):
        await function(7)

    given = Bare()
    function = cached(functools.partial(load_by, given.fetch), MemoryStore())
    assert await function(7) == "None 7"
    vars(given)["region"] = "eu"
    assert await function(7) == "eu 7"


async def test_a_plain_method_has_its_object_in_the_key() -> None:
    store = MemoryStore()
    for region in ("eu", "us"):
        assert await asyncio.to_thread(cached(Own(region).plain, store), 7) == f"{region} 7"


async def test_many_ids_have_the_object_in_their_keys() -> None:
    class Names:
        def __init__(self, region: str) -> None:
            self.region = region

        def __cache_key__(self) -> str:
            return self.region

        async def __call__(self, ids: list[int]) -> dict[int, str]:
            return {id: f"{self.region} {id}" for id in ids}

    store = MemoryStore()
    for region in ("eu", "us"):
        guard = StampedeGuard(store, namespace="t")
        assert await guard.cached_many(ttl=60, name="names")(Names(region))([7]) == {7: f"{region} 7"}


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    async def fetch(self, id: int) -> int:
        return id

    async def __call__(self, id: int) -> int:
        return id


async def of_any(thing: Any, id: int) -> int:
    return id


async def of_locked(locked: Locked, id: int) -> int:
    return id


UNKNOWN: dict[str, Callable[[], Any]] = {
    "bound method of an object with attributes": lambda: Client("eu").fetch,
    "bound method of an object with slots": lambda: Slotted("eu").fetch,
    "callable object with attributes": lambda: Client("eu"),
    "bound method": lambda: Locked().fetch,
    "callable object": Locked,
    "partial of a bound method": lambda: functools.partial(Locked().fetch),
    "partial with an object": lambda: functools.partial(of_locked, Locked()),
    "partial with a connection": lambda: functools.partial(of_any, threading.Lock()),
    "partial with a bound method": lambda: functools.partial(load_by, Locked().fetch),
    "wrapper of a bound method": lambda: traced(Locked().fetch),
}


@pytest.mark.parametrize("form", UNKNOWN)
async def test_an_object_that_cannot_be_in_a_key_is_refused_at_decoration(form: str) -> None:
    with pytest.raises(KeyPartError, match=r"brings along a.*__cache_key__\(self\).*key=lambda"):
        cached(UNKNOWN[form](), MemoryStore())
    assert cached(UNKNOWN[form](), MemoryStore(), key=lambda id: id).key(7), "what the error proposes"


async def test_methods_of_classes_and_functions_bring_nothing_along() -> None:
    class OfClass:
        @classmethod
        async def fetch(cls, id: int) -> int:
            return id

    for function in (OfClass.fetch, functools.partial(of_any, load), functools.partial(of_any, len)):
        assert "bound" not in cached(function, MemoryStore()).key(7)
