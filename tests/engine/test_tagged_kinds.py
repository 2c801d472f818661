"""Tags for every kind of value: a codec's bytes are never taken for the versions of tags, nor the other way round."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any

import fastapi
import httpx
import pydantic
import pytest

from stampede_guard import UNCHANGED, StampedeGuard
from stampede_guard.core.tags import SIZE, opened, resealed, sealed, versions_in
from stampede_guard.engine.modes.shadow import ShadowCounts
from stampede_guard.engine.tags.versions import TaggedCodec
from stampede_guard.errors import Undecodable
from stampede_guard.ops.cli.texts import body_text
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FaultyStore, assert_single_flight
from stampede_guard.values.codec import codec_for
from tests.support.clock import Clock
from tests.support.encryption import Rot
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import comparisons_of

TAGS = ((), ("a", "b:{number}"))


class Plain(pydantic.BaseModel):
    name: str = "x"


class Validated(pydantic.BaseModel):
    name: str = "x"

    @pydantic.field_validator("name")
    @classmethod
    def strip(cls, name: str) -> str:
        return name.strip()


class After(pydantic.BaseModel):
    name: Annotated[str, pydantic.AfterValidator(str.strip)] = "x"


class OwnInit(pydantic.BaseModel):
    number: int = 1

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)


class Excluded(pydantic.BaseModel):
    name: str = "x"
    hidden: str | None = pydantic.Field(default=None, exclude=True)


class Open(pydantic.BaseModel):
    part: Any = None


@dataclasses.dataclass
class Changed:
    name: str = "a"

    def __post_init__(self) -> None:
        self.name += "!"


@dataclasses.dataclass
class Record:
    part: Any = None


class Colour(enum.Enum):
    RED = 1


KINDS: dict[str, tuple[Any, Any]] = {
    "a plain model": (Plain, Plain(name="é")),
    "a validator": (Validated, Validated(name="a")),
    "an after validator": (After, After(name="a")),
    "an own init": (OwnInit, OwnInit(number=2)),
    "an excluded field": (Excluded, Excluded(name="z")),
    "a changing dataclass": (Changed, Changed()),
    "a list": (list[Validated], [Validated(), Validated(name="b")]),
    "a union": (Plain | Validated | None, Validated(name="k")),
    "a number beside a model": (int | Validated, 0),
    "a model in Any": (Open, Open(part=Validated())),
    "a record in Any": (Record, Record([Plain()])),
    "a dictionary of Any": (dict[str, Any], {"model": Validated()}),
    "without annotation, a model": (Any, Validated()),
    "without annotation, a dataclass": (Any, Changed()),
    "without annotation, an enum": (Any, Colour.RED),
    "bytes like versions": (bytes, b"\xc1\xc1\x01" + b"v" * 16),
    "large": (list[Validated], [Validated(name="n" * 50)] * 100),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compressed": {"compression": "zstd", "compression_min_bytes": 1},
    "l1": {"l1_ttl": 30.0},
    "stale": {"stale_ttl": 600.0},
}

kinds = pytest.mark.parametrize(("type", "value"), KINDS.values(), ids=KINDS)
tagged = pytest.mark.parametrize("tags", TAGS, ids=len)


class Fleet:
    """Two processes on one store. `ran` counts the computations."""

    def __init__(self, encryption: Any) -> None:
        self.clock = Clock()
        self.store = FaultyStore(clock=self.clock)
        self.guards = [StampedeGuard(self.store, namespace="test", encryption=encryption) for _ in range(2)]
        self.ran = 0

    def source(self, type: Any, value: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def source(number: int = 1) -> Any:
            self.ran += 1
            return value

        source.__annotations__["return"] = type
        return source

    async def close(self) -> None:
        for guard in self.guards:
            await guard.aclose()


@pytest.fixture
async def fleet(request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    made = Fleet(getattr(request, "param", None))
    yield made
    await made.close()


@kinds
@tagged
@pytest.mark.parametrize("fleet", [None, Rot()], ids=["open", "encrypted"], indirect=True)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
async def test_a_decorated_function(fleet: Fleet, type: Any, value: Any, tags: Any, options: Any) -> None:
    one, two = (
        guard.locked_cache(ttl=60.0, name="f", tags=tags, **options)(fleet.source(type, value))
        for guard in fleet.guards
    )
    assert [await one(), await one(), await two(), await two()] == [value] * 4
    assert (fleet.ran, (await one.peek(), await two.peek())) == (1, (value, value))
    assert await two.set(value, 2) == "stored"
    assert [await one(2), await two(2), fleet.ran] == [value, value, 1]
    fleet.clock.advance(100.0)
    await one()
    await until(lambda: fleet.ran == 2)
    if tags:
        await fleet.guards[1].invalidate_tag("a")
        assert [await one(), await two(), fleet.ran] == [value, value, 3]


@kinds
@tagged
async def test_a_batch(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    async def many(numbers: list[int]) -> Any:
        fleet.ran += 1
        return dict.fromkeys(numbers, value)

    many.__annotations__["return"] = dict[int, type]
    templates = tuple(tag.replace("{number}", "{numbers}") for tag in tags)
    one, two = (guard.cached_many(ttl=60.0, name="many", tags=templates)(many) for guard in fleet.guards)
    wanted = {1: value, 2: value}
    assert [await one([1, 2]), await one([1, 2]), await two([1, 2]), fleet.ran] == [wanted, wanted, wanted, 1]


@kinds
@tagged
async def test_keys_of_its_own(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    async def compute() -> Any:
        fleet.ran += 1
        return value

    one, two = fleet.guards
    ask: dict[str, Any] = {"ttl": 60.0, "type": type, "tags": tuple(tag.format(number=1) for tag in tags)}
    for guard in (one, one, two):
        assert await guard.get_or_compute("key", compute, **ask) == value
    assert await one.set("other", value, **ask) == "stored"
    del ask["ttl"]
    assert [await one.get("other", **ask), await two.get("other", **ask), fleet.ran] == [value, value, 1]


@kinds
@tagged
async def test_comparisons_of_mode_shadow(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    guard = fleet.guards[0]
    function = guard.locked_cache(ttl=60.0, mode="shadow", name="f", tags=tags)(fleet.source(type, value))
    for _ in range(4):
        assert await function() == value
        await until(lambda: not comparisons_of(guard.engine.runtime()))
    (counts,) = guard.shadow_report().values()
    assert counts == ShadowCounts(missing=2, stored=1, same=2)


@kinds
@tagged
async def test_a_herd(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    function = fleet.guards[0].locked_cache(ttl=60.0, name="f", tags=tags)(fleet.source(type, value))
    await assert_single_flight(function, callers=6, workers=2)


@kinds
@tagged
async def test_a_fallback_beside_a_slow_holder(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    slow, quick = Gate(), Gate()

    def asked(guard: StampedeGuard, gate: Gate) -> asyncio.Task[Any]:
        async def compute() -> Any:
            await gate.hold()
            return value

        names = tuple(tag.format(number=1) for tag in tags)
        asking = guard.get_or_compute("key", compute, type=type, tags=names, wait_timeout=0.05)
        return asyncio.create_task(asking)

    holding = asked(fleet.guards[0], slow)
    await slow.arrival()
    waiting = asked(fleet.guards[1], quick)
    await quick.arrival()
    quick.open()
    assert await soon(waiting) == value
    slow.open()
    assert await soon(holding) == value
    assert await soon(asked(fleet.guards[1], quick)) == value
    assert (slow.entered, quick.entered) == (1, 1)


@kinds
@tagged
async def test_while_the_store_is_away(fleet: Fleet, type: Any, value: Any, tags: Any) -> None:
    guard = fleet.guards[0]
    function = guard.locked_cache(ttl=60.0, name="f", tags=tags)(fleet.source(type, value))
    await function()
    fleet.store.fail()
    assert await function(2) == value
    assert await function.set(value, 3) == "pending"
    assert [await function(), await function(2), await function(3), fleet.ran] == [value, value, value, 2]


@kinds
@tagged
async def test_a_kept_value_and_one_that_cannot_be_stored(
    fleet: Fleet, type: Any, value: Any, tags: Any
) -> None:
    """`UNCHANGED` keeps the bytes and gives them new versions. A value without bytes has only versions."""
    results: list[Any] = [object(), value, UNCHANGED]

    async def source(number: int = 1) -> Any:
        fleet.ran += 1
        return results.pop(0)

    source.__annotations__["return"] = type
    function = fleet.guards[0].locked_cache(ttl=60.0, stale_ttl=60.0, name="f", tags=tags)(source)
    assert [await function() is value, await function()] == [False, value]
    fleet.clock.advance(90.0)
    await function()
    await until(lambda: fleet.ran == 3)
    assert [await function(), await function(), fleet.ran] == [value, value, 3]


@tagged
async def test_a_failure(fleet: Fleet, tags: Any) -> None:
    async def source(number: int = 1) -> Validated:
        raise LookupError("no such row")

    function = fleet.guards[0].locked_cache(ttl=60.0, name="f", tags=tags)(source)
    for _ in range(2):
        with pytest.raises(LookupError, match="no such row"):
            await function()


@kinds
def test_the_bytes_of_a_codec_are_told_from_those_with_versions(type: Any, value: Any) -> None:
    body = codec_for(type).encode(value)
    assert versions_in(body) is None
    assert opened(body) is body
    codec = TaggedCodec(codec_for(type))
    fresh = codec.encode(value)
    assert (versions_in(fresh), opened(fresh)) == ((), body)
    kept = resealed(fresh, [b"v" * SIZE] * 2)
    assert (versions_in(kept), codec.decode(kept)) == ((b"v" * SIZE,) * 2, value)
    with pytest.raises(Undecodable):
        codec.decode(body)
    with pytest.raises(Undecodable):
        codec_for(type).decode(kept)
    with pytest.raises(ValueError, match="TaggedCodec"):
        resealed(body, ())


@kinds
def test_the_command_shows_a_value_with_tags_as_one_without(type: Any, value: Any) -> None:
    body = codec_for(type).encode(value)
    shown = body_text(body, complete=True)
    assert body_text(sealed(body, [b"v" * SIZE]), complete=True) == shown


async def test_a_client_of_an_application_gets_such_values() -> None:
    guard = StampedeGuard(MemoryStore(), namespace="test")
    app = fastapi.FastAPI()
    guard.install(app)
    ran: list[int] = []

    @guard.locked_cache(ttl=60.0, tags=("all", "item:{number}"))
    async def item(number: int) -> Validated:
        ran.append(number)
        return Validated(name=f" {number} ")

    app.get("/direct/{number}")(item)

    @app.get("/called/{number}")
    async def called(number: int) -> Validated:
        return await item(number)

    paths = ("/direct/1", "/direct/1", "/called/1", "/called/2")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answers = [(await client.get(path)).json() for path in paths]
    await guard.aclose()
    assert answers == [{"name": "1"}, {"name": "1"}, {"name": "1"}, {"name": "2"}]
    assert ran == [1, 2]


async def test_a_failure_of_a_function_with_tags_is_its_own_error(guards: Guards) -> None:
    async def fail() -> int:
        raise LookupError("no such shelf")

    for guard in (guards.guard(), guards.guard(error_ttl=60.0)):
        call = guard.locked_cache(name="shelf", tags=("shelf",))(fail)
        for _ in range(2):
            with pytest.raises(LookupError, match="no such shelf"):
                await call()
