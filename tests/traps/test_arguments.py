"""The key and the computation see the same arguments, whatever the caller does with them meanwhile."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import threading
import uuid
import zoneinfo
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

import asyncpg
import asyncpg.pgproto.pgproto
import msgspec
import numpy
import pendulum
import pydantic
import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.values.arguments import fitted
from tests.support.gate import Gate, until
from tests.support.guards import Guards


@pytest.fixture
async def memory(namespace: str) -> AsyncIterator[Guards]:
    async with Guards("memory", namespace) as made:
        yield made


@dataclasses.dataclass
class Filters:
    page: int = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    pages: list[int]


class Model(pydantic.BaseModel):
    page: int = 1


class Struct(msgspec.Struct):
    page: int = 1


class FrozenStruct(msgspec.Struct, frozen=True):
    pages: list[int]


class Commons:
    """As FastAPI's class-based dependencies are."""

    def __init__(self, page: int = 1) -> None:
        self.page = page


class Keyed:
    def __init__(self) -> None:
        self.page = 1

    def __cache_key__(self) -> int:
        return self.page


class OwnCopies(Filters):
    def __copy__(self) -> OwnCopies:
        return OwnCopies(99)


class Pages(list[int]):
    pass


def page_of(value: Any) -> Any:
    """What a computation reads."""
    if isinstance(value, set | frozenset):
        return max(value)
    if isinstance(value, dict):
        return page_of(value["page"])
    if isinstance(value, list | tuple | bytearray | collections.deque):
        return page_of(value[0])
    for name in ("page", "pages"):
        if hasattr(value, name):
            return page_of(getattr(value, name))
    return value


def set_item(key: Any) -> Callable[[Any], None]:
    return lambda value: value.__setitem__(key, 2)


def set_page(value: Any) -> None:
    value.page = 2


def inner(value: Any) -> None:
    value["page"]["page"] = 2


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "dict": (lambda: {"page": 1}, set_item("page")),
    "dict in dict": (lambda: {"page": {"page": 1}}, inner),
    "list": (lambda: [1], set_item(0)),
    "list in tuple": (lambda: ([1],), lambda value: value[0].__setitem__(0, 2)),
    "set": (lambda: {1}, lambda value: value.add(2)),
    "bytearray": (lambda: bytearray(b"\x01"), set_item(0)),
    "deque": (lambda: collections.deque([1]), set_item(0)),
    "defaultdict": (lambda: collections.defaultdict(int, page=1), set_item("page")),
    "OrderedDict": (lambda: collections.OrderedDict(page=1), set_item("page")),
    "Counter": (lambda: collections.Counter(page=1), set_item("page")),
    "list subclass": (lambda: Pages([1]), set_item(0)),
    "namespace": (lambda: SimpleNamespace(page=1), set_page),
    "dataclass": (Filters, set_page),
    "frozen dataclass": (lambda: Frozen([1]), lambda value: value.pages.__setitem__(0, 2)),
    "dataclass, attribute set later": (Filters, lambda value: setattr(value, "page", 2)),
    "pydantic": (Model, set_page),
    "msgspec": (Struct, set_page),
    "frozen msgspec": (lambda: FrozenStruct([1]), lambda value: value.pages.__setitem__(0, 2)),
    "plain object": (Commons, set_page),
    "object with a key": (Keyed, set_page),
    "object that copies itself otherwise": (lambda: OwnCopies(1), set_page),
}
EACH = pytest.mark.parametrize("kind", CHANGES)


async def landed(guard: StampedeGuard) -> None:
    """Until nothing is computed any more, also in the background."""
    await until(lambda: not len(guard.engine.runtime().flights))


@EACH
async def test_a_refresh_in_the_background_computes_what_its_key_says(memory: Guards, kind: str) -> None:
    make, change = CHANGES[kind]
    guard, calls = memory.guard(), []

    @guard.locked_cache(ttl=10, stale_ttl=1000)
    async def load(value: Any) -> Any:
        calls.append(page_of(value))
        return page_of(value)

    mine = make()
    assert await load(mine) == 1
    memory.clock.advance(20)
    assert await load(mine) == 1  # stale; the refresh has begun and not computed
    change(mine)
    await landed(guard)
    assert await load(make()) == 1
    assert await load(mine) == 2


@EACH
async def test_an_argument_that_changes_while_the_store_is_asked_is_served_as_what_it_has_become(
    memory: Guards, kind: str
) -> None:
    make, change = CHANGES[kind]
    guard = memory.guard()

    @guard.locked_cache(ttl=300)
    async def load(value: Any) -> Any:
        return page_of(value)

    mine = make()
    call = asyncio.create_task(load(mine))
    await asyncio.sleep(0)  # the key is made, and the store is asked
    change(mine)
    assert await call in (1, 2)
    assert await load(make()) == 1
    assert await load(mine) == 2


@EACH
async def test_an_argument_that_changes_during_the_computation_leaves_nothing_wrong_behind(
    memory: Guards, kind: str
) -> None:
    make, change = CHANGES[kind]
    guard, gate, late = memory.guard(), Gate(), True

    @guard.locked_cache(ttl=300)
    async def load(value: Any) -> Any:
        if late:
            await gate.hold()
        return page_of(value)

    mine = make()
    call = asyncio.create_task(load(mine))
    passenger = asyncio.create_task(load(make()))
    await gate.arrival()
    change(mine)
    late = False
    gate.open()
    assert await call in (1, 2)
    assert await passenger == 1
    assert await load(make()) == 1
    assert await load(mine) == 2


@pytest.mark.parametrize("kind", ["dict", "pydantic", "object with a key"])
@pytest.mark.parametrize(
    "face", ["tags", "l1", "hooks", "soft_timeout", "early", "bypass", "key=", "refresh"]
)
async def test_on_every_way_through_the_guard(memory: Guards, kind: str, face: str) -> None:
    make, change = CHANGES[kind]
    guard, calls, gate = memory.guard(), [], Gate()
    options: dict[str, Any] = {
        "tags": {"tags": ("all",)},
        "l1": {"l1_ttl": 1.0},
        "soft_timeout": {"soft_timeout": 0.001},
        "early": {"early_beta": 100},
        "key=": {"key": page_of},
    }.get(face, {})
    if face == "hooks":
        guard.add_hook(lambda event: None)

    @guard.locked_cache(ttl=10, stale_ttl=1000, **options)
    async def load(value: Any) -> Any:
        await gate.hold()
        calls.append(page_of(value))
        return page_of(value)

    gate.open()
    mine = make()
    assert await load(mine) == 1
    memory.clock.advance(5 if face == "early" else 20)
    if face == "bypass":
        with guard.bypassed():
            call = asyncio.create_task(load(mine))
    else:
        call = asyncio.create_task(load.refresh(mine) if face == "refresh" else load(mine))
    await asyncio.sleep(0)
    change(mine)
    assert await call in (1, 2)
    await landed(guard)
    assert await load(make()) == 1
    assert await load(mine) == 2


async def test_a_function_that_changes_its_own_argument_changes_nobody_elses(memory: Guards) -> None:
    guard = memory.guard()

    @guard.locked_cache(ttl=300)
    async def load(filters: dict[str, int]) -> list[str]:
        filters.setdefault("limit", 10)
        return sorted(filters)

    mine = {"page": 1}
    assert await load(mine) == ["limit", "page"]
    assert mine == {"page": 1}
    assert await load({"page": 1}) == ["limit", "page"]


@pytest.mark.parametrize("batched", [False, True])
async def test_a_function_that_changes_its_own_argument_is_cached_beside_an_object_that_cannot_be_copied(
    memory: Guards, batched: bool
) -> None:
    guard, calls = memory.guard(), []

    def work(filters: dict[str, int]) -> list[str]:
        filters.setdefault("limit", 10)
        calls.append(1)
        return sorted(filters)

    @guard.locked_cache(ttl=300)
    async def one(keyed: Keyed, filters: dict[str, int]) -> list[str]:
        return work(filters)

    @guard.cached_many(ttl=300, max_ids=1)
    async def many(ids: list[int], keyed: Keyed, filters: dict[str, int]) -> dict[int, list[str]]:
        return dict.fromkeys(ids, work(filters))

    async def load() -> Any:
        return await (many([1, 2], Keyed(), {"page": 1}) if batched else one(Keyed(), {"page": 1}))

    for _ in range(2):
        assert await load() == ({id: ["limit", "page"] for id in (1, 2)} if batched else ["limit", "page"])
    assert len(calls) == (2 if batched else 1)


async def test_a_default_that_can_be_changed_is_taken_like_any_argument(memory: Guards) -> None:
    guard, default, calls = memory.guard(), {"page": 1}, []

    @guard.locked_cache(ttl=10, stale_ttl=1000)
    async def load(project: int, filters: dict[str, int] = default) -> int:
        calls.append(filters["page"])
        return filters["page"]

    assert await load(7) == 1
    memory.clock.advance(20)
    assert await load(7) == 1
    default["page"] = 2
    await landed(guard)
    assert await load(7, {"page": 1}) == 1
    assert await load(7) == 2


async def test_the_value_of_a_context_variable_is_taken_as_well(memory: Guards) -> None:
    guard, calls = memory.guard(), []
    scope: ContextVar[dict[str, int]] = ContextVar("scope")

    @guard.locked_cache(ttl=10, stale_ttl=1000, context=(scope,))
    async def load(project: int) -> int:
        calls.append(scope.get()["page"])
        return scope.get()["page"]

    mine = {"page": 1}
    scope.set(mine)
    assert await load(7) == 1
    memory.clock.advance(20)
    assert await load(7) == 1
    mine["page"] = 2
    await landed(guard)
    assert await load(7) == 2
    scope.set({"page": 1})
    assert await load(7) == 1


async def test_self_is_looked_at_again_when_its_method_has_computed(guards: Guards) -> None:
    guard, gate, late = guards.guard(), Gate(), True

    class Shop:
        def __init__(self, region: str) -> None:
            self.region = region

        def __cache_key__(self) -> str:
            return self.region

        @guard.locked_cache(ttl=300, name="shop.sales")
        async def sales(self, day: str) -> str:
            if late:
                await gate.hold()
            return f"{self.region} {day}"

    shop = Shop("eu")
    call = asyncio.create_task(shop.sales("mo"))
    other = asyncio.create_task(Shop("eu").sales("mo"))
    await gate.arrival()
    shop.region, late = "us", False
    gate.open()
    assert await call == "us mo"
    assert await other == "eu mo"
    assert [await Shop(region).sales("mo") for region in ("eu", "us")] == ["eu mo", "us mo"]


async def test_an_object_whose_key_changes_with_every_computation_is_computed_once_per_call(
    memory: Guards,
) -> None:
    guard = memory.guard()

    class Counting:
        count = 0

        def __cache_key__(self) -> int:
            return self.count

        @guard.locked_cache(ttl=300, name="counting")
        async def load(self) -> int:
            self.count += 1
            return self.count

    counting = Counting()
    assert [await counting.load() for _ in range(3)] == [1, 2, 3]


async def test_plain_functions_compute_what_their_key_says(memory: Guards) -> None:
    guard = memory.guard()
    begun, go = threading.Event(), threading.Event()

    @guard.locked_cache(ttl=300)
    def load(filters: dict[str, int], wait: bool = False) -> int:
        if wait:
            begun.set()
            assert go.wait(60)
        return filters["page"]

    mine = {"page": 1}
    call = asyncio.create_task(asyncio.to_thread(load, mine, True))
    assert await asyncio.to_thread(begun.wait, 30)
    mine["page"] = 2
    go.set()
    assert await call == 1
    guard.close()


async def test_a_batch_computes_what_the_keys_of_its_ids_say(memory: Guards) -> None:
    guard, calls = memory.guard(), []

    @guard.cached_many(ttl=300, max_ids=2)
    async def load(ids: list[int], filters: dict[str, int]) -> dict[int, int]:
        calls.append(list(ids))
        await asyncio.sleep(0)
        return dict.fromkeys(ids, filters["page"])

    mine, ids = {"page": 1}, [1, 2, 3, 4]
    call = asyncio.create_task(load(ids, mine))
    await until(lambda: bool(calls))
    mine["page"] = 2
    ids.append(5)
    assert set(await call) == {1, 2, 3, 4}
    assert await load([1, 2, 3, 4], {"page": 1}) == dict.fromkeys([1, 2, 3, 4], 1)
    assert await load([1, 2, 3, 4], {"page": 2}) == dict.fromkeys([1, 2, 3, 4], 2)


async def test_a_batch_looks_again_at_an_object_that_cannot_be_copied(memory: Guards) -> None:
    guard, gate, late = memory.guard(), Gate(), True

    @guard.cached_many(ttl=300)
    async def load(ids: list[int], keyed: Keyed) -> dict[int, int]:
        if late:
            await gate.hold()
        return dict.fromkeys(ids, keyed.page)

    mine = Keyed()
    call = asyncio.create_task(load([1, 2], mine))
    await gate.arrival()
    mine.page, late = 2, False
    gate.open()
    assert await call == {1: 2, 2: 2}
    assert await load([1, 2], Keyed()) == {1: 1, 2: 1}
    assert await load([1, 2], mine) == {1: 2, 2: 2}


# --- ids that are equal and not the same ---------------------------------------------------------------


class Level(enum.IntEnum):
    ONE = 1


EQUAL_IDS: list[list[Any]] = [
    [1, True, 1.0, decimal.Decimal(1), decimal.Decimal("1.0"), Level.ONE, fractions.Fraction(1), 1 + 0j],
    [0, False, 0.0, -0.0, decimal.Decimal("-0")],
    [(1,), (True,), (1.0,)],
    ["a", enum.StrEnum("Name", {"A": "a"}).A],
    [uuid.UUID(int=7), asyncpg.pgproto.pgproto.UUID(str(uuid.UUID(int=7)))],
]


@pytest.mark.parametrize("ids", EQUAL_IDS, ids=lambda ids: type(ids[0]).__name__)
async def test_a_batch_never_mixes_ids_that_are_equal_and_not_the_same(
    guards: Guards, ids: list[Any]
) -> None:
    guard, calls = guards.guard(), []

    @guard.cached_many(ttl=300)
    async def load(ids: list[Any]) -> dict[Any, str]:
        calls.append(list(ids))
        return {id: repr(id) for id in ids}

    distinct = len({load.keys([id])[id] for id in ids})
    for _ in range(2):
        answers = await asyncio.gather(*(load([id, "other"]) for id in ids))
        if distinct == len(ids):
            assert [answer[id] for answer, id in zip(answers, ids, strict=True)] == [repr(id) for id in ids]
    assert all(len(batch) == len(set(batch)) for batch in calls)
    assert sum(len(batch) for batch in calls) == distinct + 1


async def test_two_ids_that_one_dict_cannot_hold_are_refused(memory: Guards) -> None:
    @memory.guard().cached_many(ttl=300)
    async def load(ids: list[Any]) -> dict[Any, str]:
        return {id: repr(id) for id in ids}

    for ids in ([1, True], [1.0, 1], [0.0, -0.0], (1, True)):
        with pytest.raises(Misuse, match="two different ids that are equal"):
            await load(ids)
    assert await load([1, 1, 2]) == {1: "1", 2: "2"}


# --- an invalidation addresses the entry of the call -----------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Size(enum.Enum):
    BIG = 10


SOME = uuid.UUID(int=7)
NOON = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
DRIVERS = asyncpg.pgproto.pgproto.UUID(str(SOME))


class Filters(pydantic.BaseModel):
    page: int = 1
    since: datetime.datetime = NOON


@dataclasses.dataclass
class Window:
    first: int
    since: datetime.datetime = NOON


class Row(NamedTuple):
    id: int
    name: str


class Written(msgspec.Struct):
    page: int


class Keywords(TypedDict):
    page: int


Project = TypeVar("Project", bound=int)


# The annotation, what the call was given, and what the invalidation is given.
SAME: list[tuple[Any, Any, Any]] = [
    (int, 7, "7"), (int, "7", 7), (int, 7, numpy.int64(7)), (int, numpy.int64(7), 7), (int | None, 7, "7"),
    (Annotated[int, "project"], 7, " 7 "), (float, 1.0, 1), (float, 1, 1.0), (float, 1.5, "1.5"), (bool, True, "true"),
    (uuid.UUID, SOME, str(SOME)), (uuid.UUID, SOME, SOME.hex), (uuid.UUID, str(SOME), SOME), (uuid.UUID, SOME, DRIVERS),
    (uuid.UUID, DRIVERS, SOME), (Colour, Colour.RED, "red"), (Colour, "red", Colour.RED), (Size, Size.BIG, "10"),
    (Size, Size.BIG, 10), (Size, Size.BIG, "BIG"), (tuple[int, ...], (1, 2), [1, 2]), (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], (1, "a"), ["1", "a"]), (list[int], [1, 2], (1, 2)), (list[int], [1], ["1"]), (list, [1], (1,)),
    (Sequence[int], [1, 2], (1, 2)), (Iterable[int], (1, 2), [1, 2]), (set[int], {1}, [1]),
    (frozenset, frozenset({1}), {1}),
    (dict[str, int], {"a": 1}, {"a": "1"}), (list[uuid.UUID], [SOME], [str(SOME)]),
    (datetime.date, NOON.date(), "2024-06-01"),
    (datetime.datetime, NOON, "2024-06-01T12:00:00Z"), (datetime.datetime, NOON.astimezone(PARIS), NOON),
    (datetime.datetime, NOON, NOON.astimezone(PARIS)), (datetime.datetime, NOON, "2024-06-01T14:00:00+02:00"),
    (datetime.datetime, NOON.astimezone(PARIS), NOON.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo"))),
    (datetime.datetime, NOON, pendulum.instance(NOON)), (datetime.timedelta, datetime.timedelta(seconds=5), "5"),
    (decimal.Decimal, decimal.Decimal("1.50"), "1.50"), (list[datetime.datetime], [NOON.astimezone(PARIS)], [NOON]),
    (Literal["a", "b"], "a", "a"), (bytes, b"x", "x"), (int | str, "7", "7"), (int, Level.ONE, Level.ONE),
    (pathlib.Path, pathlib.Path("a/b"), "a/b"), (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1"), "10.0.0.1"),
    (ipaddress.IPv4Network | None, ipaddress.IPv4Network("10.0.0.0/24"), "10.0.0.0/24"),
    (fractions.Fraction, fractions.Fraction(1, 2), "1/2"), (float, "7", 7.0),
    (decimal.Decimal, decimal.Decimal("1.0"), decimal.Decimal("1.00")), (decimal.Decimal, decimal.Decimal("1.0"), 1),
    (Filters, Filters(page=7), {"page": 7}), (Filters, Filters(page=7), {"page": "7"}),
    (Filters | None, Filters(page=7), {"page": "7"}), (list[Filters], [Filters(page=7)], [{"page": "7"}]),
    (Filters, Filters(page=7, since=NOON), Filters(page=7, since=NOON.astimezone(PARIS))),
    (Window, Window(7), {"first": "7"}), (Window, Window(7, NOON), Window(7, NOON.astimezone(PARIS))),
    (Row, Row(1, "a"), (1, "a")), (Row, Row(1, "a"), ["1", "a"]), (Written, Written(7), {"page": "7"}),
    (Keywords, {"page": 7}, {"page": "7"}), (dict[str, Filters], {"a": Filters(page=7)}, {"a": {"page": 7}}),
    (Project, 7, "7"), (pydantic.HttpUrl, pydantic.HttpUrl("http://a/"), "http://a/"),
    (pydantic.AwareDatetime, NOON, "2024-06-01T14:00:00+02:00"),
    (dict[str, datetime.datetime], {"a": NOON.astimezone(PARIS)}, {"a": NOON}),
    (tuple[datetime.datetime, int], (NOON.astimezone(PARIS), 1), (NOON, 1)), (Any, NOON.astimezone(PARIS), NOON),
    (list[dict[str, datetime.datetime]], [{"a": NOON.astimezone(PARIS)}], [{"a": NOON}]),
    (uuid.UUID, str(uuid.UUID(int=171)).upper(), uuid.UUID(int=171)), (list[int], ["1"], [1]),
    (uuid.UUID, f"{{{SOME}}}", SOME), (Filters, {"page": "7"}, Filters(page=7)),
    (datetime.datetime, pendulum.instance(NOON.astimezone(PARIS)), NOON),
    (Filters | Window, Window(7), {"first": 7}), (Window | Filters, Filters(page=7), {"page": "7"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "called", "given"), SAME, ids=[str(number) for number in range(len(SAME))]
)
@pytest.mark.parametrize("how", ["invalidate", "refresh", "many", "keyword", "plain"])
async def test_an_invalidation_addresses_the_entry_of_the_call(
    memory: Guards, annotation: Any, called: Any, given: Any, how: str
) -> None:
    guard, calls = memory.guard(), []

    async def load(value: Any) -> int:
        calls.append(value)
        return len(calls)

    async def load_many(ids: Any, value: Any) -> dict[int, int]:
        calls.append(value)
        return dict.fromkeys(ids, len(calls))

    def load_plain(value: Any) -> int:
        calls.append(value)
        return len(calls)

    function: Any = {"many": load_many, "plain": load_plain}.get(how, load)
    function.__annotations__["value"] = annotation
    if how == "many":
        cached = guard.cached_many(ttl=300)(function)
        assert await cached([1], called) == {1: 1}
        assert await cached.invalidate([1], given) == "done"
        assert await cached([1], called) == {1: 2}
        return
    cached = guard.locked_cache(ttl=300)(function)
    if how == "plain":
        assert await asyncio.to_thread(cached, called) == 1
        assert await asyncio.to_thread(cached.invalidate, given) == "done"
        assert await asyncio.to_thread(cached, called) == 2
        guard.close()
        return
    assert await cached(called) == await cached(called) == 1
    told = await (cached.refresh(given) if how == "refresh" else cached.invalidate(value=given))
    assert told == (2 if how == "refresh" else "done")
    assert await cached(called) >= 2


# How a call may be given what is declared otherwise, where each way of writing it has a key of its own.
GIVEN: list[tuple[Any, Any, Any]] = [
    (int, "7", 7), (int | None, "7", 7), (uuid.UUID, str(SOME), SOME), (Colour, "red", Colour.RED),
    (datetime.datetime, NOON.astimezone(PARIS), NOON), (Any, NOON.astimezone(PARIS), NOON),
    (datetime.datetime | None, NOON.astimezone(PARIS), NOON), (float, 1, 1.0),
    (decimal.Decimal, decimal.Decimal("1.00"), decimal.Decimal("1.0")), (datetime.date, "2024-06-01", NOON.date()),
    (datetime.datetime, pendulum.instance(NOON.astimezone(PARIS)), NOON), (int, numpy.int64(7), 7),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "called", "given"), GIVEN, ids=[str(n) for n in range(len(GIVEN))])
@pytest.mark.parametrize("token", [False, True])
async def test_a_process_that_has_only_read_an_entry_invalidates_it_as_well(
    memory: Guards, annotation: Any, called: Any, given: Any, token: bool
) -> None:
    calls = []

    async def load(value: Any) -> int:
        calls.append(value)
        return len(calls)

    async def load_of(token: Any) -> int:
        calls.append(token)
        return len(calls)

    function: Any = load_of if token else load
    function.__annotations__["token" if token else "value"] = annotation
    computes, reads = [memory.guard().locked_cache(ttl=300, name="load")(function) for _ in range(2)]
    assert await computes(called) == await reads(called) == 1
    assert await reads.invalidate(given) == "done"
    assert await reads(called) == 2


async def test_what_would_reach_more_entries_than_it_can_is_refused(memory: Guards) -> None:
    guard = memory.guard()

    @guard.locked_cache(ttl=300)
    async def load(since: datetime.datetime, until: datetime.datetime) -> int:
        return 1

    zones = [datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in range(40)]
    for zone in zones[:20]:
        await load(NOON.astimezone(zone), NOON.astimezone(zone))
    assert await load.invalidate(NOON, NOON) == "done"
    for zone in zones[20:]:
        await load(NOON.astimezone(zone), NOON.astimezone(zone))
    with pytest.raises(KeyPartError, match="UTC"):
        await load.invalidate(NOON, NOON)


@pytest.mark.parametrize("how", ["ids", "other process"])
async def test_ids_and_other_processes_are_addressed_as_declared(memory: Guards, how: str) -> None:
    calls = []
    for_calls, for_invalidation = memory.guard(), memory.guard()

    async def load(ids: list[int]) -> dict[int, int]:
        calls.append(ids)
        return dict.fromkeys(ids, len(calls))

    one = for_calls.cached_many(ttl=300, name="load")(load)
    other = one if how == "ids" else for_invalidation.cached_many(ttl=300, name="load")(load)
    assert await one([7, 8]) == {7: 1, 8: 1}
    assert await other.invalidate(["7"]) == "done"
    assert await one([7, 8]) == {7: 2, 8: 1}


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (int, "seven"), (int, 7.5), (int, None), (int, [7]), (str, 7), (uuid.UUID, "x"), (uuid.UUID, 7),
        (Colour, "blue"),         (tuple[int, int], [1]), (tuple[int, int], 7), (list[int], "12"), (list[int], ["x"]),
        (datetime.datetime, "today"), (datetime.date, NOON), (bool, "maybe"), (Literal["a"], "b"),
        (int | None, "x"), (dict[str, int], [1]),
        (decimal.Decimal, "x"), (float, "x"), (int, b"7"), (set[int], 5), (Filters, {"page": "x"}), (Filters, 7),
        (Window, {"other": 1}), (Window, "x"), (Row, (1, 2, 3)), (Row, 7), (Keywords, 7), (Written, {"page": []}),
        (ipaddress.IPv4Address, "x"), (pydantic.HttpUrl, "x"), (Project, "x"),
    ],
)  # fmt: skip
async def test_what_cannot_be_read_as_declared_is_refused_where_it_would_reach_nothing(
    memory: Guards, annotation: Any, given: Any
) -> None:
    async def load(value: Any) -> int:
        return 1

    load.__annotations__["value"] = annotation
    cached: Any = memory.guard().locked_cache(ttl=300)(load)
    for method in (cached.invalidate, cached.refresh):
        with pytest.raises(KeyPartError, match="is declared as") as caught:
            await method(given)
        assert caught.value.parameter == "value"


async def test_a_default_counts_as_declared_whatever_the_annotation_says(memory: Guards) -> None:
    calls = []

    @memory.guard().locked_cache(ttl=300)
    async def load(project: int = None) -> int:  # type: ignore[assignment]  # noqa: RUF013  # as older code has it
        calls.append(project)
        return len(calls)

    assert await load() == 1
    assert await load.invalidate() == "done"
    assert await load.invalidate(None) == "done"  # type: ignore[arg-type]
    assert await load() == 2


async def test_a_service_is_not_looked_through_for_moments(memory: Guards) -> None:
    class Held:
        def __copy__(self) -> Held:
            raise AssertionError("it was copied")

    class Service:
        def __init__(self) -> None:
            self.held = [Held()]

        @memory.guard().locked_cache(ttl=300, key=lambda self, other, id: id)
        async def load(self, other: Any, id: int) -> int:
            return id

    service = Service()
    looked: list[Any] = []
    real = fitted._zones_in

    def looking(value: Any) -> Any:
        looked.append(value)
        return real(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted, "_zones_in", looking)
        assert await service.load(Service(), 7) == 7
    assert all(value is not service for value in looked)
    assert not fitted._zones_in(service) and not fitted._zones_in(Service())
