from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic
import pytest

from stampede_guard import Policy, PolicyError, StampedeGuard, configure, locked_cache
from stampede_guard.api.defaults import default_guard
from stampede_guard.core.states import Waiting
from stampede_guard.errors import KeyPartError, Misuse, UnsupportedValue
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import forget_warnings_of_defaults, runtimes_of, store_of


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t")


# --- it is the function that it was -------------------------------------------------------------------


async def test_equal_calls_compute_once_however_their_arguments_are_written(guard: StampedeGuard) -> None:
    calls = []

    @guard.locked_cache(ttl=300)
    async def area(width: int, height: int = 2, *, unit: str = "m") -> str:
        calls.append((width, height))
        return f"{width * height} {unit}2"

    assert await area(3) == await area(3, 2) == await area(width=3, unit="m") == "6 m2"
    assert calls == [(3, 2)]
    assert await area(3, 4) == "12 m2"
    assert await area(3, unit="km") == "6 km2"
    assert len(calls) == 3


async def test_name_docstring_signature_and_annotations_are_those_of_the_function(
    guard: StampedeGuard,
) -> None:
    async def quality(project: int, *, deep: bool = False) -> dict[str, int]:
        """How good a project is."""
        return {"project": project, "deep": int(deep)}

    cached = guard.locked_cache(ttl=300)(quality)

    assert inspect.iscoroutinefunction(cached)
    assert inspect.signature(cached) == inspect.signature(quality)
    assert (cached.__name__, cached.__doc__) == ("quality", "How good a project is.")
    assert cached.__wrapped__ is quality


async def test_wrong_arguments_are_the_same_error_as_without_the_decorator(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        return project

    with pytest.raises(TypeError, match=r"quality\(\) missing 1 required positional argument: 'project'"):
        await quality()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nobody'"):
        await quality(7, nobody=1)  # type: ignore[call-arg]


async def test_methods_are_cached_per_object_through_an_explicit_key(guard: StampedeGuard) -> None:
    class Shop:
        def __init__(self, number: int) -> None:
            self.number = number
            self.computed = 0

        @guard.locked_cache(ttl=300, key=lambda self, day: (self.number, day))
        async def sales(self, day: str) -> int:
            self.computed += 1
            return self.number * 100

    one, two = Shop(1), Shop(2)
    assert [await one.sales("mo"), await two.sales("mo"), await one.sales("mo")] == [100, 200, 100]
    assert (one.computed, two.computed) == (1, 1)


def test_what_does_not_return_its_result_is_refused_at_decoration() -> None:
    class Quality:
        pass

    def lines() -> Iterator[str]:
        yield "one"

    async def later() -> AsyncIterator[str]:
        yield "one"

    for thing in (Quality, lines, later, "quality"):
        with pytest.raises(
            Misuse, match=r"takes a function, async def or def, that returns its result; .* is not one"
        ):
            locked_cache(ttl=300)(thing)  # type: ignore[call-overload]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), "300", None, True])
def test_a_ttl_that_cannot_be_is_refused_at_decoration(ttl: Any) -> None:
    with pytest.raises(PolicyError) as caught:

        @locked_cache(ttl=ttl)
        async def quality() -> int:
            return 1

    assert (caught.value.field, repr(caught.value.value)) == ("ttl", repr(ttl))
    assert "number of seconds" in str(caught.value)


def test_an_option_that_does_not_exist_is_refused_and_the_fields_that_do_are_listed() -> None:
    with pytest.raises(
        PolicyError, match=r"there is no such field; the fields are compression, .*early_beta"
    ):

        @locked_cache(time_to_live=300)
        async def quality() -> int:
            return 1


def test_a_result_that_cannot_be_stored_is_refused_at_decoration() -> None:
    with pytest.raises(UnsupportedValue, match="return the data itself"):

        @locked_cache(ttl=300)
        async def lines() -> AsyncIterator[str]:
            raise NotImplementedError


# --- the other methods take the arguments of the call ---------------------------------------------------


async def test_invalidate_drops_the_entry_of_these_arguments_only(guards: Guards) -> None:
    calls = []

    @guards.guard().locked_cache(ttl=300)
    async def quality(project: int) -> int:
        calls.append(project)
        return project

    await quality(7), await quality(8)
    assert await quality.invalidate(project=7) == "done"
    await quality(7), await quality(8)
    assert calls == [7, 8, 7]


async def test_refresh_computes_anew_once_while_others_are_served_the_old_value(guards: Guards) -> None:
    gate = Gate()
    values = iter([1, 2])

    async def quality(project: int) -> int:
        value = next(values)
        if value == 2:
            await gate.hold()
        return value

    here, there = (guards.guard().locked_cache(ttl=300)(quality) for _ in range(2))
    assert await here(7) == 1
    refreshing = asyncio.create_task(here.refresh(7))
    await gate.arrival()
    assert [await here(7), await there(7)] == [1, 1]
    gate.open()
    assert await soon(refreshing) == 2
    assert [await here(7), await there(7)] == [2, 2]


async def test_a_refresh_is_not_content_with_what_another_process_began_to_compute_before_it(
    guards: Guards,
) -> None:
    gate = Gate()
    source = "old"

    async def quality(project: int) -> str:
        read = source
        await gate.hold()
        return read

    first, second = guards.guard(), guards.guard()
    here, there = (guard.locked_cache(ttl=300)(quality) for guard in (first, second))
    under_way = asyncio.create_task(here(7))
    await gate.arrival()
    source = "new"
    refreshing = asyncio.create_task(there.refresh(7))
    flights = second.engine.runtime().flights
    await until(lambda: any(isinstance(flight.state.phase, Waiting) for flight in flights.values()))
    gate.open()
    assert await soon(refreshing) == "new"
    assert await under_way == "old"
    assert [await here(7), await there(7)] == ["new", "new"]


async def test_a_refresh_is_not_content_with_a_computation_that_began_before_it(guards: Guards) -> None:
    gate = Gate()
    source = "old"

    @guards.guard().locked_cache(ttl=300)
    async def quality(project: int) -> str:
        read = source
        await gate.hold()
        return read

    under_way = asyncio.create_task(quality(7))
    await gate.arrival()
    source = "new"
    refreshing = [asyncio.create_task(quality.refresh(7)) for _ in range(5)]
    gate.open()
    assert await soon(asyncio.gather(*refreshing)) == ["new"] * 5
    assert await under_way == "old"
    assert gate.entered == 2, "all five share one"


async def test_key_and_explain_say_which_entry_a_call_is(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300, version=3, name="shop.quality")
    async def quality(project: int, region: str = "eu") -> int:
        return project

    assert quality.key(7).startswith("t:shop.quality:")
    assert quality.key(7).endswith(":project=7,region='eu'")
    assert quality.key(7) != quality.key("7")  # type: ignore[arg-type]
    explained = quality.explain(7)
    assert (explained[":name"], explained[":version"]) == ("shop.quality", "3")
    assert (explained["project"], explained["region"]) == ("7", "'eu'")


# --- keys ---------------------------------------------------------------------------------------------


class Connection:
    """Something without a stable text."""


async def test_a_parameter_without_stable_text_is_an_error_at_the_first_call_that_says_what_to_write(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int, db: Any) -> int:
        raise AssertionError("not reached")

    with pytest.raises(KeyPartError) as caught:
        await quality(7, Connection())
    assert caught.value.parameter == "db"
    for advice in ("'db'", 'unkeyed=("db",)', 'resources={"db": factory}', "key=lambda"):
        assert advice in str(caught.value)


def test_options_that_name_a_parameter_that_is_not_there_are_refused() -> None:
    async def quality(project: int) -> int:
        return project

    with pytest.raises(KeyPartError, match=r"unkeyed names 'db', but .*quality.* has no such parameter"):
        locked_cache(unkeyed=("db",))(quality)
    with pytest.raises(KeyPartError, match="resources names 'db'"):
        locked_cache(resources={"db": Connection})(quality)


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", b"", [], {}, ()])
async def test_what_counts_as_false_is_a_value_like_any_other(guards: Guards, value: Any) -> None:
    computed = []

    async def falsy() -> Any:
        computed.append(value)
        return value

    here, there = (guards.guard().locked_cache(ttl=300)(falsy) for _ in range(2))
    got = [await here(), await here(), await there()]
    assert got == [value] * 3
    assert [type(one) for one in got] == [type(value)] * 3
    assert len(computed) == 1


class Model(pydantic.BaseModel):
    project: int
    tags: set[str]


@dataclass
class Record:
    project: int
    parts: list[Model] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    project: int
    name: str


class Struct(msgspec.Struct):
    project: int
    pair: tuple[int, str]


async def _model() -> Model:
    return Model(project=7, tags={"a"})


async def _record() -> Record:
    return Record(7, [Model(project=8, tags=set())])


async def _frozen() -> Frozen:
    return Frozen(7, "seven")


async def _struct() -> Struct:
    return Struct(7, (1, "one"))


async def _plain() -> dict[str, tuple[int, ...]]:
    return {"a": (1, 2)}


async def _optional() -> Model | None:
    return None


async def _unannotated():  # type: ignore[no-untyped-def]
    return {1: {2, 3}, "x": b"y"}


@pytest.mark.parametrize("function", [_model, _record, _frozen, _struct, _plain, _optional, _unannotated])
async def test_a_hit_has_the_type_and_the_content_of_a_miss(guards: Guards, function: Any) -> None:
    plain = await function()
    here, there = (guards.guard().locked_cache(ttl=300)(function) for _ in range(2))
    miss, hit, hit_there = await here(), await here(), await there()
    assert plain == miss == hit == hit_there
    assert type(plain) is type(miss) is type(hit) is type(hit_there)


async def test_a_mutable_value_changed_by_one_caller_is_unharmed_for_the_others(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()

    @guard.locked_cache(ttl=300)
    async def basket(user: int) -> list[str]:
        await gate.hold()
        return ["apple"]

    callers = [asyncio.create_task(basket(1)) for _ in range(3)]
    await joined(guard, basket.key(1), 3)
    gate.open()
    first, second, third = await soon(asyncio.gather(*callers))
    first.append("worm")
    assert second == third == await basket(1) == ["apple"]
    assert gate.entered == 1


async def test_with_share_the_passengers_of_a_flight_hold_the_same_object(guard: StampedeGuard) -> None:
    gate = Gate()

    @guard.locked_cache(ttl=300, share=True)
    async def basket(user: int) -> list[str]:
        await gate.hold()
        return ["apple"]

    callers = [asyncio.create_task(basket(1)) for _ in range(3)]
    await joined(guard, basket.key(1), 3)
    gate.open()
    first, second, third = await soon(asyncio.gather(*callers))
    assert first is second is third
    await guard.aclose()


async def test_an_immutable_value_is_shared_by_passengers_without_asking(guard: StampedeGuard) -> None:
    gate = Gate()

    @guard.locked_cache(ttl=300)
    async def total(user: int) -> tuple[int, str]:
        await gate.hold()
        return user, "x" * 50

    callers = [asyncio.create_task(total(1)) for _ in range(3)]
    await joined(guard, total.key(1), 3)
    gate.open()
    first, second, third = await soon(asyncio.gather(*callers))
    assert first is second is third
    await guard.aclose()


async def test_pickle_is_used_only_when_asked_for_by_name(guard: StampedeGuard) -> None:
    async def odd() -> Any:
        return Exception("a thing without a declared form")

    with pytest.raises(UnsupportedValue, match="pickle=True"):
        await guard.locked_cache(ttl=300, strict=True)(odd)()
    picky = guard.locked_cache(ttl=300, pickle=True, name="picky")(odd)
    assert str(await picky()) == str(await picky()) == "a thing without a declared form"


# --- an old and a new model in one fleet ----------------------------------------------------------------


def release(fields: dict[str, Any], *, version: int = 0) -> Any:
    """The code of one release: a model of its own making under the same name, and the function that returns it."""
    model = pydantic.create_model("Quality", __module__=__name__, **fields)
    model.__qualname__ = "Quality"

    async def quality(project: int) -> Any:
        return model(**dict.fromkeys(fields, 1))

    quality.__qualname__ = "quality"
    quality.__annotations__["return"] = model
    return quality, version


async def test_an_old_and_a_new_model_in_one_fleet_do_not_read_each_others_entries(guards: Guards) -> None:
    (old, _), (new, _) = release({"good": (int, ...)}), release({"good": (int, ...), "bad": (int, 0)})
    old_pod, new_pod = (guards.guard().locked_cache(ttl=300)(code) for code in (old, new))

    assert (await old_pod(7)).model_dump() == {"good": 1}
    # What the new model would read from the old entry is `bad=0`, which nobody computed.
    assert (await new_pod(7)).model_dump() == {"good": 1, "bad": 1}
    assert (await old_pod(7)).model_dump() == {"good": 1}
    assert old_pod.key(7) != new_pod.key(7)


async def test_without_the_fingerprint_the_new_model_would_be_filled_from_the_old_ones_entry(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that the test above is about."""
    monkeypatch.setattr("stampede_guard.values.codec._fingerprint", lambda *_: "the same for all")
    (old, _), (new, _) = release({"good": (int, ...)}), release({"good": (int, ...), "bad": (int, 0)})
    old_pod, new_pod = (guards.guard().locked_cache(ttl=300)(code) for code in (old, new))
    await old_pod(7)
    assert (await new_pod(7)).model_dump() == {"good": 1, "bad": 0}


async def test_version_separates_entries_when_only_the_meaning_of_the_result_has_changed(
    guards: Guards,
) -> None:
    async def price_in_euros(item: int) -> int:
        return 100

    async def price_in_cents(item: int) -> int:
        return 10_000

    def pods(**new: Any) -> tuple[Any, Any]:
        return (
            guards.guard().locked_cache(ttl=300, name=f"price{new}")(price_in_euros),
            guards.guard().locked_cache(ttl=300, name=f"price{new}", **new)(price_in_cents),
        )

    old, new = pods()
    assert (await old(1), await new(1)) == (100, 100), "the same entry, though euros are no cents"
    old, new = pods(version=2)
    assert (await old(1), await new(1), await old(1)) == (100, 10_000, 100)


# --- context ------------------------------------------------------------------------------------------

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
locale: ContextVar[str] = ContextVar("locale")


@contextlib.contextmanager
def acting_as(name: str) -> Iterator[None]:
    token = tenant.set(name)
    try:
        yield
    finally:
        tenant.reset(token)


async def test_a_computation_does_not_see_the_tenant_of_the_caller_that_happens_to_lead(
    guards: Guards,
) -> None:
    guard = guards.guard()

    @guard.locked_cache(ttl=300)
    async def greeting() -> str:
        return f"hello {tenant.get()}"

    with acting_as("acme"):
        seen = await greeting()
    with acting_as("umbrella"):
        # Had the flight run in the leader's context, this would be another tenant's text.
        assert await greeting() == seen == "hello nobody"


async def test_what_a_computation_sets_in_its_context_does_not_reach_its_caller(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def sloppy() -> int:
        tenant.set("sloppy")
        return 1

    await sloppy()
    assert tenant.get() == "nobody"


async def test_a_named_variable_is_seen_by_the_computation_and_part_of_the_key(guards: Guards) -> None:
    guard = guards.guard()
    computed = []

    @guard.locked_cache(ttl=300, context=(tenant, locale))
    async def greeting() -> str:
        computed.append(tenant.get())
        return f"hello {tenant.get()} in {locale.get('no language')}"

    with acting_as("acme"):
        first = await greeting()
        assert first == await greeting() == "hello acme in no language"
    with acting_as("umbrella"):
        assert await greeting() == "hello umbrella in no language"
    assert computed == ["acme", "umbrella"]


async def test_callers_of_two_tenants_at_once_are_two_flights_with_a_context_each(
    guard: StampedeGuard,
) -> None:
    gate = Gate()

    @guard.locked_cache(ttl=300, context=(tenant,))
    async def greeting() -> str:
        await gate.hold()
        return tenant.get()

    callers = []
    for name in ("acme", "umbrella", "acme"):
        with acting_as(name):
            callers.append(asyncio.create_task(greeting()))
    await gate.arrival()
    await gate.arrival()
    gate.open()
    assert await soon(asyncio.gather(*callers)) == ["acme", "umbrella", "acme"]
    assert gate.entered == 2
    await guard.aclose()


async def test_a_variable_that_holds_something_without_stable_text_is_named(guard: StampedeGuard) -> None:
    session: ContextVar[Any] = ContextVar("session")

    @guard.locked_cache(ttl=300, context=(session,))
    async def quality() -> int:
        return 1

    session.set(Connection())
    with pytest.raises(KeyPartError, match="context variable 'session'"):
        await quality()


# --- resources ----------------------------------------------------------------------------------------


class Database:
    """Counts who is connected."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Database]:
        self.opened += 1
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1

    @contextlib.contextmanager
    def plain_session(self) -> Iterator[Database]:
        self.opened += 1
        self.open += 1
        try:
            yield self
        finally:
            self.open -= 1

    async def connect(self) -> Database:
        self.opened += 1
        return self

    def __call__(self) -> Database:
        self.opened += 1
        return self


@pytest.mark.parametrize("way", ["session", "plain_session", "connect", "__call__"])
async def test_a_resource_is_opened_by_the_computation_and_closed_after_it(guards: Guards, way: str) -> None:
    database = Database()
    seen = []

    @guards.guard().locked_cache(ttl=300, resources={"db": getattr(database, way)})
    async def counted(project: int, db: Database) -> int:
        seen.append((db is database, db.open))
        return project

    assert [await counted(7), await counted(7)] == [7, 7]  # type: ignore[call-arg]
    assert database.opened == 1, "a hit opens nothing"
    assert database.open == 0
    assert seen == [(True, 1 if "session" in way else 0)]


async def test_a_resource_is_closed_when_the_computation_fails(guard: StampedeGuard) -> None:
    database = Database()

    @guard.locked_cache(ttl=300, resources={"db": database.session})
    async def counted(db: Database) -> int:
        raise LookupError("no such project")

    with pytest.raises(LookupError):
        await counted()  # type: ignore[call-arg]
    assert (database.opened, database.open) == (1, 0)


async def test_a_resource_is_in_neither_the_signature_nor_the_key(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300, resources={"db": Database})
    async def counted(project: int, db: Database, deep: bool = False) -> int:
        return project

    assert list(inspect.signature(counted).parameters) == ["project", "deep"]
    assert counted.key(7).endswith(":project=7,deep=False")  # type: ignore[call-arg]


async def test_with_resources_a_stale_value_is_refreshed_after_its_caller_has_gone(guards: Guards) -> None:
    database, gate = Database(), Gate()
    guard = guards.guard()

    @guard.locked_cache(ttl=60, stale_ttl=600, resources={"db": database.session})
    async def counted(project: int, db: Database) -> int:
        if db.opened > 1:
            await gate.hold()
            assert db.open == 1, "the session is the flight's own, so it is open"
        return db.opened

    assert await counted(7) == 1  # type: ignore[call-arg]
    await guards.age(counted.key(7), 61)  # type: ignore[call-arg]
    assert await counted(7) == 1, "stale, at once"  # type: ignore[call-arg]
    await gate.arrival()
    flight = guard.engine.runtime().flights[counted.key(7)]  # type: ignore[call-arg]
    gate.open()
    await soon(flight.landed)
    assert await counted(7) == 2  # type: ignore[call-arg]


# --- the default guard --------------------------------------------------------------------------------


@pytest.fixture
def no_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("STAMPEDE_GUARD_URL", "REDIS_URL", "STAMPEDE_GUARD_MODE"):
        monkeypatch.delenv(variable, raising=False)
    configure(None)
    yield
    configure(None)


@locked_cache(ttl=300)
async def doubled(number: int) -> int:
    return 2 * number


async def test_without_a_store_there_is_memory_and_one_warning(
    no_default: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert [await doubled(2), await doubled(3)] == [4, 6]
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "$STAMPEDE_GUARD_URL" in warnings[0]
    assert "other workers are not covered" in warnings[0]


async def test_the_environment_names_the_default_store_and_our_variable_comes_first(
    no_default: None, monkeypatch: pytest.MonkeyPatch, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("STAMPEDE_GUARD_NAMESPACE", "shop")
    assert default_guard() is default_guard()
    assert not store_of(default_guard()).__class__.__name__.startswith("Memory")
    configure(None)
    monkeypatch.setenv("STAMPEDE_GUARD_URL", "memory://")
    assert store_of(default_guard()).__class__ is MemoryStore
    assert caplog.records == [], "asked for by name, so there is nothing to warn of"


def test_a_shared_server_without_a_namespace_is_warned_of_once_per_process(
    no_default: None, monkeypatch: pytest.MonkeyPatch, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "namespace" in record.getMessage()]

    monkeypatch.delenv("STAMPEDE_GUARD_NAMESPACE", raising=False)
    forget_warnings_of_defaults()
    configure(StampedeGuard(MemoryStore()))
    configure(StampedeGuard.from_url(valkey_url, namespace="default"))
    with monkeypatch.context() as named:
        named.setenv("STAMPEDE_GUARD_NAMESPACE", "shop")
        configure(StampedeGuard.from_url(valkey_url))
    assert warnings() == [], "a store of this process alone, or a namespace that somebody chose"
    configure(None)
    monkeypatch.setenv("REDIS_URL", valkey_url)
    assert doubled.key(1).startswith("default:")
    assert len(warnings()) == 1 and "$STAMPEDE_GUARD_NAMESPACE" in warnings()[0]
    configure(StampedeGuard.from_url(valkey_url))
    assert len(warnings()) == 1


async def test_configure_is_for_functions_decorated_before_it_and_can_be_changed(no_default: None) -> None:
    first = StampedeGuard(MemoryStore(), namespace="first")
    second = StampedeGuard(MemoryStore(), namespace="second", policy=Policy(mode="off"))
    configure(first)
    assert doubled.key(1).startswith("first:")
    configure(second)
    assert doubled.key(1).startswith("second:")
    assert await doubled(1) == 2
    assert len(runtimes_of(second)) == 0, "off, as the second guard's policy says"


async def test_a_mode_may_be_set_before_there_is_a_guard(
    no_default: None, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @locked_cache(ttl=300)
    async def counted() -> int:
        calls.append(1)
        return 1

    counted.set_mode("off")
    assert caplog.records == [], "no default store was made for it"
    configure(StampedeGuard(MemoryStore(), namespace="late"))
    await counted(), await counted()
    assert len(calls) == 2


async def test_a_guard_of_its_own_comes_before_the_default_one(no_default: None) -> None:
    own = StampedeGuard(MemoryStore(), namespace="own")
    configure(StampedeGuard(MemoryStore(), namespace="default"))

    @locked_cache(guard=own, ttl=300)
    async def one() -> int:
        return 1

    assert one.key().startswith("own:")
