"""Values of one entry: equal for everybody, and none of them within reach of another caller."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import types
import typing
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pydantic
import pytest

from stampede_guard import StampedeGuard, UnsupportedValue
from stampede_guard.engine.tags.templates import tag_key
from stampede_guard.errors import ComputeFailed
from stampede_guard.ops.cli.names import complete
from stampede_guard.values.codec import codec_for, is_immutable
from stampede_guard.values.codec.likeness import difference
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import tenants_of

T = TypeVar("T")


# --- what "frozen" does not hold ------------------------------------------------------------------


class ExtraModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="allow")
    number: int


class PrivateModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    number: int
    _seen: int = 0


class LazyModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    number: int

    @functools.cached_property
    def rows(self) -> list[int]:
        return [self.number]


class ListModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    rows: list[int]


class AnyModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    content: Any


class BareModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    number: int


@dataclasses.dataclass(frozen=True)
class Bare:
    number: int

    @functools.cached_property
    def rows(self) -> list[int]:
        return [self.number]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    number: int


@dataclasses.dataclass(frozen=True)
class Holder(Generic[T]):
    content: T


class Struct(msgspec.Struct, frozen=True):
    rows: list[int]


class DictStruct(msgspec.Struct, frozen=True, dict=True):
    number: int


class Row(NamedTuple):
    name: str
    rows: list[int]


class Box(enum.Enum):
    A = ("a", 1)
    B = ("b", 2)


def forced(name: str, value: Any) -> Callable[[Any], None]:
    return lambda target: object.__setattr__(target, name, value)


CHANGEABLE: dict[str, tuple[Any, Any, Callable[[Any], object]]] = {
    "pydantic extra": (ExtraModel, ExtraModel(number=1, more=[1]), lambda v: v.more.append(2)),  # type: ignore[call-arg]
    "pydantic private": (PrivateModel, PrivateModel(number=1), lambda v: setattr(v, "_seen", 7)),
    "pydantic cached_property": (LazyModel, LazyModel(number=1), lambda v: v.rows.append(2)),
    "pydantic list": (ListModel, ListModel(rows=[1]), lambda v: v.rows.append(2)),
    "pydantic Any": (AnyModel, AnyModel(content={"a": [1]}), lambda v: v.content["a"].append(2)),
    "pydantic attributes": (BareModel, BareModel(number=1), lambda v: v.__dict__.update(number=2)),
    "dataclass cached_property": (Bare, Bare(1), lambda v: v.rows.append(2)),
    "dataclass attributes": (Bare, Bare(1), forced("number", 2)),
    "dataclass new attribute": (Bare, Bare(1), forced("other", 2)),
    "dataclass slots": (Slotted, Slotted(1), forced("number", 2)),
    "dataclass list": (Holder[list[int]], Holder([1]), lambda v: v.content.append(2)),
    "dataclass of dataclass": (Holder[Bare], Holder(Bare(1)), lambda v: forced("number", 2)(v.content)),
    "dataclass any": (Holder[Any], Holder([[1]]), lambda v: v.content[0].append(2)),
    "struct list": (Struct, Struct([1]), lambda v: v.rows.append(2)),
    "struct dict": (DictStruct, DictStruct(1), lambda v: v.__dict__.update(more=2)),
    "named tuple": (Row, Row("a", [1]), lambda v: v.rows.append(2)),
    "tuple of lists": (tuple[list[int], ...], ([1], [2]), lambda v: v[0].append(2)),
    "tuple of tuples of dicts": (tuple[tuple[dict[str, int]]], (({"a": 1},),), lambda v: v[0][0].update(a=2)),
    "frozenset of dataclasses": (
        frozenset[Bare],
        frozenset({Bare(1)}),
        lambda v: forced("number", 2)(next(iter(v))),
    ),
    "union": (int | list[int], [1], lambda v: v.append(2)),
    "list of frozen": (list[Bare], [Bare(1)], lambda v: forced("number", 2)(v[0])),
    "dict of frozen": (dict[str, BareModel], {"a": BareModel(number=1)}, lambda v: v["a"].__dict__.update(number=2)),
    "no annotation": (Any, {"a": ([1], {"b": {2}})}, lambda v: v["a"][1]["b"].add(3)),
    "no annotation, tuple": (Any, ([1], 2), lambda v: v[0].append(2)),
    "object": (object, [[1]], lambda v: v[0].append(2)),
    "type variable": (T, [[1]], lambda v: v[0].append(2)),
    "typing.List": (typing.List[Any], [{"a": 1}], lambda v: v[0].update(a=2)),  # noqa: UP006
}  # fmt: skip


@pytest.fixture(params=CHANGEABLE, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Any, Any, Callable[[Any], object]]:
    return CHANGEABLE[request.param]


def assert_apart(values: list[Any], original: Any, change: Callable[[Any], object]) -> None:
    """Each is like the original, and changing one after the other changes none of those that follow."""
    for value in values:
        assert type(value) is type(original)
        assert difference(original, value) is None, "somebody has changed it before"
        change(value)


@pytest.mark.parametrize("l1_ttl", [0.0, 30.0])
async def test_changing_one_callers_value_changes_nobody_elses(
    guards: Guards, case: tuple[Any, Any, Callable[[Any], object]], l1_ttl: float
) -> None:
    annotation, original, change = case
    here, there, gate = guards.guard(l1_ttl=l1_ttl), guards.guard(l1_ttl=l1_ttl), Gate()
    codec = codec_for(annotation)
    pristine = codec.decode(codec.encode(original))
    kept = codec.decode(codec.encode(original))  # what the function goes on to hold

    async def compute() -> Any:
        await gate.hold()
        return kept

    def call(guard: StampedeGuard) -> Any:
        return guard.get_or_compute("k", compute, type=annotation)

    first = [asyncio.create_task(call(here)) for _ in range(4)]
    await gate.arrival()
    await joined(here, guards.name("k", annotation), 4)
    gate.open()
    values = [await soon(task) for task in first]
    for _ in range(3):  # of one moment, then again: by then there is a copy in the process
        values += await soon(asyncio.gather(*[call(here) for _ in range(6)]))
    values += await soon(asyncio.gather(*[call(there) for _ in range(5)]))
    values.append(await soon(call(there)))
    async with here.single("k", type=annotation) as entry:
        values.append(entry.value)
    assert gate.entered == 1
    assert_apart(values, pristine, change)
    assert difference(pristine, kept) is None, "the application's own object"
    values = [await soon(call(guard)) for guard in (here, there)]
    assert_apart(values, pristine, change)


async def test_values_while_the_store_is_away_are_apart_too(
    namespace: str, case: tuple[Any, Any, Callable[[Any], object]]
) -> None:
    annotation, original, change = case
    async with Guards("memory", namespace) as guards:
        guard = guards.guard(ttl=10, stale_ttl=100_000)
        codec = codec_for(annotation)
        pristine = codec.decode(codec.encode(original))

        async def compute() -> Any:
            return original

        async def call() -> Any:
            return await guard.get_or_compute("k", compute, type=annotation)

        assert_apart([await call()], pristine, lambda value: None)
        guard.engine.runtime().away = True
        guard.engine.runtime().session.away_for = lambda name: True  # type: ignore[method-assign]
        assert_apart(await soon(asyncio.gather(*[call() for _ in range(5)])), pristine, change)


async def test_stale_and_previous_values_are_apart_too(
    guards: Guards, case: tuple[Any, Any, Callable[[Any], object]]
) -> None:
    annotation, original, change = case
    guard = guards.guard(ttl=10, stale_ttl=100_000)
    codec = codec_for(annotation)
    pristine = codec.decode(codec.encode(original))
    seen: list[Any] = []

    async def compute() -> Any:
        from stampede_guard import previous

        old = previous()
        if old is not None:
            seen.extend([old.value, old.value])
        return codec.decode(codec.encode(original))

    async def call() -> Any:
        return await guard.get_or_compute("k", compute, type=annotation)

    await call()
    await guards.age(guards.name("k", annotation), 11)
    values = await soon(asyncio.gather(*[call() for _ in range(5)]))
    await until(lambda: not guard.engine.runtime().flights)
    assert len(seen) == 2
    assert_apart([*values, *seen], pristine, change)


async def test_many_ids_have_values_apart(
    guards: Guards, case: tuple[Any, Any, Callable[[Any], object]]
) -> None:
    annotation, original, change = case
    guard = guards.guard(l1_ttl=30)
    codec = codec_for(annotation)
    pristine = codec.decode(codec.encode(original))

    async def products(ids: list[int]) -> Any:
        return dict.fromkeys(ids, original)

    products.__annotations__ = {"ids": list[int], "return": dict[int, annotation]}
    many = guard.cached_many(ttl=60)(products)
    values: list[Any] = []
    for _ in range(3):
        for found in await soon(asyncio.gather(*[many([1, 2]) for _ in range(4)])):
            values += found.values()
    assert_apart(values, pristine, change)


def test_only_what_nobody_can_change_is_shared() -> None:
    for annotation, original, _ in CHANGEABLE.values():
        codec = codec_for(annotation)
        assert not is_immutable(codec.decode(codec.encode(original)))
    assert is_immutable((1, "a", frozenset({(1.5, None, Box.A)})))
    deep: Any = 1
    for _ in range(100_000):
        deep = (deep,)
    assert not is_immutable(deep), "and no stack is too small to say so"
    assert not is_immutable(types.MappingProxyType({"a": 1}))


# --- share=True of one caller -----------------------------------------------------------------------


async def test_sharing_is_for_those_who_asked_for_it(guards: Guards) -> None:
    """In one flight, whoever leads it; in one moment; in the process; and when the store is asked again."""
    for key, orders in (("a", (True, False, True, False)), ("b", (False, True, False, True))):
        guard, gate = guards.guard(l1_ttl=30), Gate()

        async def compute(gate: Gate = gate) -> Any:
            await gate.hold()
            return {"rows": [1]}

        def call(share: bool, guard: StampedeGuard = guard, compute: Any = compute, key: str = key) -> Any:
            return guard.get_or_compute(key, compute, share=share)

        tasks = [asyncio.create_task(call(share)) for share in orders]
        await joined(guard, guards.name(key), 4)
        gate.open()
        shares = list(orders)
        values = [await soon(task) for task in tasks]
        for _ in range(3):
            values += await soon(asyncio.gather(*[call(share) for share in orders * 3]))
            shares += orders * 3
        private = [value for value, share in zip(values, shares, strict=True) if not share]
        shared = {id(value) for value, share in zip(values, shares, strict=True) if share}
        assert len({id(value) for value in private}) == len(private)
        assert not shared & {id(value) for value in private}
        assert len(shared) < len(values) - len(private), "those who asked for it share"
        assert_apart(private, {"rows": [1]}, lambda value: value["rows"].append(2))


# --- what must not get lost -------------------------------------------------------------------------


@dataclasses.dataclass
class Animal:
    id: int
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Animal) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


@dataclasses.dataclass(eq=False)
class Dog(Animal):
    breed: str = ""


class AlwaysEqual(msgspec.Struct):
    number: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class EqualTagged(AlwaysEqual):
    tag: str = ""


class Model(pydantic.BaseModel):
    id: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class DictRow(msgspec.Struct, dict=True):
    number: int


@dataclasses.dataclass
class Late:
    number: int


class Page(list[int]):
    total = 0


class Text(str):
    pass


class Flags(set[int]):
    pass


class SlotList(list[int]):
    __slots__ = ("total",)


class Record(dict[str, int]):
    pass


class Sly(int):
    """Equal to whatever it is compared with, and says it is something else."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __int__(self) -> int:
        return 5


def with_attribute(value: Any, **attributes: Any) -> Any:
    for name, item in attributes.items():
        (setattr if isinstance(value, msgspec.Struct) else object.__setattr__)(value, name, item)
    return value


LOST: dict[str, tuple[Any, Any]] = {
    "subclass in a list": (list[Animal], [Dog(1, "Rex", "pug")]),
    "subclass": (Animal, Dog(1, "Rex", "pug")),
    "subclass in a dict": (dict[str, Animal], {"a": Dog(1, "Rex", "pug")}),
    "subclass in a tuple": (tuple[Animal, ...], (Dog(1, "Rex", "pug"),)),
    "subclass in a set": (set[Animal], {Dog(1, "Rex", "pug")}),
    "subclass in a union": (Animal | None, Dog(1, "Rex", "pug")),
    "subclass in a field": (Holder[list[Animal]], Holder([Dog(1, "Rex", "pug")])),
    "struct": (list[AlwaysEqual], [EqualTagged(1, "x")]),
    "attribute of a dataclass": (Late, with_attribute(Late(1), total=9)),
    "attribute in a list of dataclasses": (list[Late], [Late(1), with_attribute(Late(1), total=9)]),
    "attribute of a struct": (DictRow, with_attribute(DictRow(1), total=9)),
    "attribute of a model": (BareModel, with_attribute(BareModel(number=1), total=9)),
    "attribute of a list": (list[int], with_attribute(Page([1]), total=9)),
    "slot of a list": (list[int], with_attribute(SlotList([1]), total=9)),
    "attribute of a str": (str, with_attribute(Text("a"), language="en")),
    "attribute of a set": (set[int], with_attribute(Flags({1}), name="x")),
    "attribute of a dict": (dict[str, int], with_attribute(Record(a=1), name="x")),
    "attribute deep inside": (dict[str, list[Late]], {"a": [with_attribute(Late(1), total=9)]}),
}  # fmt: skip


@pytest.mark.parametrize("case", LOST, ids=str)
def test_a_value_that_would_lose_something_is_refused(case: str) -> None:
    annotation, value = LOST[case]
    with pytest.raises(UnsupportedValue):
        codec_for(annotation).encode(value)


async def test_such_a_value_is_an_error_if_strict_and_never_changed(guards: Guards) -> None:
    guard = guards.guard(strict=True)

    @guard.locked_cache(ttl=60)
    async def animals() -> list[Animal]:
        return [Dog(1, "Rex", "pug")]

    for _ in range(2):
        # The second call is told of the first one's error.
        with pytest.raises((UnsupportedValue, ComputeFailed), match="Dog would come back as a Animal"):
            await animals()


def test_no_equality_of_the_users_decides() -> None:
    codec = codec_for(list[Any])
    assert difference([Sly(3)], [3]) is None
    assert difference([Sly(3)], [4]) is not None
    assert difference(Late(1), Late(2)) is not None
    assert difference(Animal(1, "a"), Animal(1, "b")) is not None
    assert difference({Animal(1, "a")}, {Animal(1, "b")}) is not None
    assert difference({Animal(1, "a"), Animal(2, "b")}, {Animal(2, "b"), Animal(1, "a")}) is None
    assert difference({(1, "a"), (1, "b")}, {(1, "a"), (True, "b")}) is not None
    assert difference([1, True], [True, 1]) is not None
    assert difference({"a": 1}, {"a": True}) is not None
    with pytest.raises(UnsupportedValue):
        codec.encode([Sly(3)])


@dataclasses.dataclass
class Lazy:
    number: int

    @functools.cached_property
    def doubled(self) -> list[int]:
        return [2 * self.number]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never asked")

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Derived:
    number: int

    def __post_init__(self) -> None:
        self.squared = self.number**2


def touched(value: Any) -> Any:
    _ = value.doubled
    return value


KEPT: dict[str, tuple[Any, Any]] = {
    "a cached property that was used": (Lazy, touched(Lazy(3))),
    "a cached property in a list": (list[Lazy], [touched(Lazy(3)), Lazy(4)]),
    "what __post_init__ sets anew": (Derived, Derived(3)),
    "an ordered dict as a dict": (dict[str, int], OrderedDict(a=1)),
    "rows of leaves": (list[dict[str, int | str | None]], [{"a": 1, "b": "x", "c": None}] * 50),
    "nan": (list[float], [float("nan"), 1.0, -0.0]),
    "ints for floats": (list[float], [1, 2.5]),
    "sets": (set[tuple[int, str]], {(1, "a"), (2, "b")}),
}


@pytest.mark.parametrize("case", KEPT, ids=str)
def test_what_loses_nothing_is_stored(case: str) -> None:
    annotation, value = KEPT[case]
    codec = codec_for(annotation)
    back = codec.decode(codec.encode(value))
    assert difference(value, back) is None


# --- bypassed() and tenants -------------------------------------------------------------------------


async def test_bypassed_covers_the_guards_within_and_no_others(guards: Guards) -> None:
    guard, other = guards.guard(), guards.guard()
    calls = 0

    async def compute() -> int:
        nonlocal calls
        calls += 1
        return calls

    async def computes(of: StampedeGuard) -> bool:
        before = calls
        await of.get_or_compute("k", compute)
        return calls > before

    tenant, nested = guard.within("acme"), guard.within("acme").within("eu")
    similar = guard.within("acme2")
    everyone = {
        "guard": guard,
        "tenant": tenant,
        "nested": nested,
        "similar": similar,
        "other": other.within("acme"),
    }
    for one in everyone.values():
        await one.get_or_compute("k", compute)
    covered = {
        "guard": {"guard", "tenant", "nested", "similar"},
        "tenant": {"tenant", "nested"},
        "nested": {"nested"},
        "similar": {"similar"},
    }
    for name, names in covered.items():
        with everyone[name].bypassed():
            assert {known for known, one in everyone.items() if await computes(one)} == names
            assert await computes(guard.within("acme")) == ("tenant" in names), "asked for within the block"
        assert not any([await computes(one) for one in everyone.values()])
    with tenant.bypassed(), other.bypassed():
        assert {known for known, one in everyone.items() if await computes(one)} == {
            "tenant",
            "nested",
            "other",
        }
    tenants_of(guard).clear()  # as when there are too many
    with tenant.bypassed():
        assert await computes(guard.within("acme")), "another object for the same tenant"


async def test_bypassed_covers_every_face_of_a_tenant(guards: Guards) -> None:
    guard = guards.guard(l1_ttl=30)
    tenant, calls = guard.within("acme"), list[str]()

    @tenant.locked_cache(ttl=60)
    async def function() -> int:
        calls.append("function")
        return 1

    @tenant.cached_many(ttl=60)
    async def many(ids: list[int]) -> dict[int, int]:
        calls.append("many")
        return {id: id for id in ids}

    @tenant.locked_cache(ttl=60)
    def plain() -> int:
        calls.append("plain")
        return 1

    async def block() -> None:
        async with tenant.single("k") as entry:
            if entry.missing:
                calls.append("single")
                await entry.set(1)

    async def all_of_them() -> list[str]:
        calls.clear()
        await function()
        await many([1])
        await asyncio.to_thread(plain)
        await block()
        return sorted(calls)

    faces = ["function", "many", "plain", "single"]
    assert await all_of_them() == faces
    assert await all_of_them() == []
    with guard.bypassed():
        assert await all_of_them() == faces
        await function.refresh()
        assert calls[-1] == "function"
    # A refresh says that the stored value is out of date, so it is invalidated there.
    assert await all_of_them() == ["function"]
    assert await all_of_them() == []
    await asyncio.to_thread(guard.close)


# --- tags that look the same ------------------------------------------------------------------------

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(("stored", "told"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
async def test_tags_that_look_the_same_are_the_same(guards: Guards, stored: str, told: str) -> None:
    guard, calls = guards.guard(l1_ttl=30), list[str]()

    @guard.locked_cache(ttl=60, tags=("town:{town}",))
    async def shop(town: str) -> int:
        calls.append("shop")
        return len(calls)

    @guard.cached_many(ttl=60, tags=(f"towns {stored}",))
    async def many(ids: list[int]) -> dict[int, int]:
        calls.append("many")
        return {id: id for id in ids}

    async def report() -> int:
        calls.append("report")
        return 1

    async def all_of_them() -> list[str]:
        calls.clear()
        await shop(stored)
        await many([1])
        await guard.get_or_compute("k", report, tags=[f"report:{stored}", f"report:{told}"])
        return sorted(calls)

    assert await all_of_them() == ["many", "report", "shop"]
    assert await all_of_them() == []
    for tag in (f"town:{told}", f"towns {told}", f"report:{told}"):
        assert await guard.invalidate_tag(tag) == "done"
    assert await all_of_them() == ["many", "report", "shop"]
    await asyncio.to_thread(guard.sync.invalidate_tag, f"town:{told}")
    assert await all_of_them() == ["shop"]
    await asyncio.to_thread(guard.close)


async def test_a_template_names_a_parameter_in_any_form(guards: Guards) -> None:
    guard = guards.guard()
    space: dict[str, Any] = {"__name__": __name__}
    exec(f"async def f({COMPOSED}: int) -> int:\n    return {COMPOSED}", space)
    function = guard.locked_cache(ttl=60, tags=(f"x:{{{DECOMPOSED}}}",))(space["f"])
    assert await function(1) == 1


@pytest.mark.parametrize(
    "written", [f"#{COMPOSED} 1%", f"#{DECOMPOSED} 1%", "#caf%C3%A9%201%25", "shop:#caf%C3%A9%201%25"]
)
def test_the_command_line_takes_tags_as_they_are_typed(written: str) -> None:
    assert complete(written, "shop") == f"shop:{tag_key(f'{COMPOSED} 1%')}" == "shop:#caf%C3%A9%201%25"
