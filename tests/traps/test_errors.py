"""Errors of one computation: each caller has its own, and those about one caller are nobody else's."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import http
import threading
from collections.abc import Callable
from typing import Any

import asyncpg
import django.core.exceptions
import fastapi
import httpx
import msgspec
import pydantic
import pytest
import redis.asyncio
import requests
import starlette.exceptions
import werkzeug.exceptions

from stampede_guard import StampedeGuard, locked_cache
from stampede_guard.engine.away.pending import PendingInvalidations
from stampede_guard.errors import (
    ComputeFailed,
    ComputeTimeout,
    KeyPartError,
    PolicyError,
    StoreRefused,
    WaitTimeout,
)
from stampede_guard.values import failures
from stampede_guard.values.codec.likeness import difference
from stampede_guard.values.errorcopies import copy_of
from stampede_guard.values.failures import decode_failure, encode_failure, register_failure
from stampede_guard.values.masking import mask
from stampede_guard.values.personal import is_personal
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import runtimes_of
from tests.support.sessions import patient

REQUEST = httpx.Request("GET", "https://api.example.com/v1/rows?token=s3cret-value&page=2")


# --- copies ---------------------------------------------------------------------------------------


class Plain(Exception):
    pass


class NeedsArguments(Exception):
    def __init__(self, article: str, *, left: list[int]) -> None:
        raise_if_called_again(self)
        super().__init__(f"{article} has run out")
        self.article = article
        self.left = left


class Slotted(Exception):
    __slots__ = ("rows",)

    def __init__(self, rows: list[int]) -> None:
        raise_if_called_again(self)
        self.rows = rows


class Guarded(Exception):
    """Runs code of its own wherever that is possible."""

    def __new__(cls, *args: Any) -> Guarded:
        raise_if_called_again(cls)
        return super().__new__(cls, *args)

    def __init__(self, *args: Any) -> None:
        raise_if_called_again(self)
        super().__init__(*args)
        object.__setattr__(self, "rows", [1])

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("not to be called")

    def __reduce__(self) -> Any:
        raise RuntimeError("not to be called")

    def __copy__(self) -> Any:
        raise RuntimeError("not to be called")

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("not to be called")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be called")

    __hash__ = None  # type: ignore[assignment]


class Renamed(OSError):
    def __init__(self, name: str) -> None:
        raise_if_called_again(self)
        super().__init__(2, "missing", name)
        self.name = name


class Several(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Several:
        raise RuntimeError("not to be called")


copying = False


def raise_if_called_again(_: Any) -> None:
    if copying:
        raise RuntimeError("code of the class was run")


@dataclasses.dataclass
class Detail:
    rows: list[int]


class DetailModel(pydantic.BaseModel):
    rows: list[int]


class DetailStruct(msgspec.Struct):
    rows: list[int]


def raised(error: BaseException, cause: BaseException | None = None, note: str | None = "first") -> Any:
    """With a traceback, a context and a note."""
    if note:
        error.__dict__["__notes__"] = [note]
    try:
        try:
            raise KeyError("before")
        except KeyError:
            raise error from cause
    except BaseException as caught:
        return caught


def with_attributes(error: Any, **attributes: Any) -> Any:
    error.__dict__.update(attributes)
    return error


def invalid() -> pydantic.ValidationError:
    class Model(pydantic.BaseModel):
        number: int
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def check(cls, value: str) -> str:
            raise ValueError("never right")

    try:
        Model(number="x", name="y")  # type: ignore[arg-type]
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


def undecodable() -> UnicodeDecodeError:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


def unparsable() -> SyntaxError:
    try:
        compile("a b", "x.py", "exec")
    except SyntaxError as error:
        return error
    raise AssertionError


ERRORS: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: Plain("x", 1),
    "builtin": lambda: ValueError("x"),
    "key": lambda: KeyError("k"),
    "arguments": lambda: NeedsArguments("tea", left=[1]),
    "slots": lambda: Slotted([1]),
    "code everywhere": lambda: Guarded("x"),
    "os": lambda: FileNotFoundError(2, "missing", "a.txt"),
    "os of two files": lambda: OSError(18, "cross-device", "a", None, "b"),
    "os without errno": lambda: OSError("just a text"),
    "os subclass": lambda: Renamed("a.txt"),
    "time-out": lambda: TimeoutError("late"),
    "unicode": undecodable,
    "unicode encode": lambda: UnicodeEncodeError("ascii", "é", 0, 1, "no"),
    "syntax": unparsable,
    "import": lambda: ImportError("no x", name="x", path="/x"),
    "attribute": lambda: AttributeError("no x", name="x", obj=(1,)),
    "name": lambda: NameError("no x", name="x"),
    "exit": lambda: SystemExit(3),
    "stop iteration": lambda: StopIteration(3),
    "mutable args": lambda: Plain({"rows": [1]}, [2], {3}, bytearray(b"x")),
    "mutable attributes": lambda: with_attributes(Plain("x"), rows=[1], deep={"a": [{"b": (1, [2])}]}),
    "records": lambda: with_attributes(
        Plain("x"), one=Detail([1]), two=DetailModel(rows=[1]), three=DetailStruct([1])
    ),
    "fastapi": lambda: fastapi.HTTPException(404, {"why": ["x"]}, {"X-A": "1"}),
    "starlette": lambda: starlette.exceptions.HTTPException(404, "x", {"X-A": "1"}),
    "werkzeug": lambda: werkzeug.exceptions.MethodNotAllowed(["GET"], "x"),
    "httpx": lambda: httpx.HTTPStatusError(
        "no", request=REQUEST, response=httpx.Response(500, headers={"X-A": "1"}, request=REQUEST)
    ),
    "requests": lambda: requests.HTTPError("no", response=requests.Response()),
    "pydantic": invalid,
    "msgspec": lambda: msgspec.ValidationError("Expected `int`"),
    "asyncpg": lambda: asyncpg.UniqueViolationError("twice"),
    "group": lambda: ExceptionGroup("two", [ValueError("a"), with_attributes(Plain("b"), rows=[1])]),
    "nested groups": lambda: ExceptionGroup("one", [ExceptionGroup("two", [ValueError("a")])]),
    "group subclass": lambda: Several("two", [ValueError("a"), KeyError("b")]),
    "ours": lambda: WaitTimeout("late", retry_after=3),
    "our policy error": lambda: PolicyError("ttl", -1, "positive"),
    "our key error": lambda: KeyPartError("no", parameter="x"),
    "our time-out": lambda: ComputeTimeout("late"),
    "ours from elsewhere": lambda: ComputeFailed("X", "y"),
}  # fmt: skip


@pytest.fixture(params=ERRORS)
def make(request: pytest.FixtureRequest) -> Callable[[], BaseException]:
    return ERRORS[request.param]


def changeable(thing: Any, found: dict[int, Any]) -> dict[int, Any]:
    """Everything in an error that somebody could change, by its identity."""
    if id(thing) in found or isinstance(thing, str | int | bytes | float | None | type | threading.Thread):
        return found
    if isinstance(thing, BaseException):
        found[id(thing)] = thing
        for inner in (thing.args, thing.__cause__, thing.__context__, vars(thing), thing.__traceback__):
            changeable(inner, found)
        for inner in getattr(thing, "exceptions", ()):
            changeable(inner, found)
    elif isinstance(thing, dict):
        found[id(thing)] = thing
        for key, item in thing.items():
            changeable(key, found), changeable(item, found)  # type: ignore[func-returns-value]
    elif isinstance(thing, list | set | tuple | frozenset):
        if not isinstance(thing, tuple | frozenset):
            found[id(thing)] = thing
        for item in thing:
            changeable(item, found)
    elif isinstance(thing, bytearray | Detail | DetailModel | DetailStruct | httpx.Headers):
        found[id(thing)] = thing
        changeable(getattr(thing, "rows", None), found)
        changeable(getattr(thing, "_list", None), found)
    elif isinstance(thing, httpx.Response | httpx.Request | requests.Response):
        found[id(thing)] = thing
        changeable(thing.headers, found)
    elif type(thing).__name__ == "traceback":
        found[id(thing)] = thing
        changeable(thing.tb_next, found)
    return found


def test_a_copy_says_the_same_and_shares_nothing_that_can_be_changed(
    make: Callable[[], BaseException],
) -> None:
    global copying
    original = raised(make(), cause=with_attributes(Plain("cause"), rows=[1]))
    copying = True
    try:
        copied = copy_of(original)
    finally:
        copying = False
    assert copied is not None and type(copied) is type(original)
    if not isinstance(original, Guarded):
        assert (str(copied), repr(copied)) == (str(original), repr(original))
    assert difference(list(original.args)[:1], list(copied.args)[:1]) is None or isinstance(
        original, BaseExceptionGroup
    )
    assert copied.__notes__ == original.__notes__ == ["first"]
    assert type(copied.__cause__) is Plain and copied.__cause__.rows == [1]  # type: ignore[attr-defined]
    assert type(copied.__context__) is KeyError and copied.__suppress_context__
    assert vars(copied).keys() == vars(original).keys()
    for name in ("errno", "strerror", "filename", "filename2", "code", "value", "object", "start", "lineno", "name",
                 "path", "rows", "status_code", "detail", "retry_after", "field", "parameter", "headers"):  # fmt: skip
        assert difference(getattr(original, name, None), getattr(copied, name, None)) is None, name
    frames = [link.tb_lineno for link in links(original)]
    assert frames and [link.tb_lineno for link in links(copied)] == frames
    shared = changeable(original, {}).keys() & changeable(copied, {}).keys()
    assert not shared, [changeable(original, {})[one] for one in shared]


def links(error: BaseException) -> list[Any]:
    found, link = [], error.__traceback__
    while link is not None:
        found.append(link)
        link = link.tb_next
    return found


def test_what_is_in_an_error_twice_is_in_its_copy_twice() -> None:
    error = Plain(rows := [1])
    error.__dict__["rows"] = rows
    error.__dict__["me"] = error
    copied: Any = copy_of(error)
    assert copied.args[0] is copied.rows and copied.me is copied


def test_causes_in_a_circle_and_without_end() -> None:
    one, two = Plain("one"), Plain("two")
    one.__cause__, two.__cause__ = two, one
    copied = copy_of(one)
    assert copied is not None and copied.__cause__ is not None and copied.__cause__.__cause__ is copied
    chain = Plain(0)
    for number in range(500):
        chain, chain.__cause__ = Plain(number), chain
    assert copy_of(chain) is None or copy_of(chain) is not chain


# --- callers of one failed computation --------------------------------------------------------------


async def failed(calls: list[asyncio.Task[Any]]) -> list[Any]:
    return await soon(asyncio.gather(*calls, return_exceptions=True))


def assert_apart(errors: list[Any], original: Any) -> None:
    """Whatever one caller does to its error is in no other one's."""
    assert len({id(error) for error in errors}) == len(errors)
    for error in errors:
        assert not getattr(error, "__notes__", []), "somebody's note"
        assert error.headers == {"X-A": "1"}
        error.add_note("mine")
        error.headers["X-Mine"] = "1"
        error.__cause__ = ValueError("mine")
        error.__traceback__ = None
        error.detail["rows"].append(2)
    assert original.headers == {"X-A": "1"} and original.detail == {"rows": [1]}
    assert not getattr(original, "__notes__", [])


def refusal() -> fastapi.HTTPException:
    return fastapi.HTTPException(409, {"rows": [1]}, {"X-A": "1"})


async def test_each_caller_has_an_error_of_its_own(guards: Guards) -> None:
    here, there = guards.guard(), guards.guard()
    original, gate = refusal(), Gate()

    async def compute() -> Any:
        await gate.hold()
        raise original

    calls = [asyncio.create_task(here.get_or_compute("k", compute)) for _ in range(4)]
    await gate.arrival()
    await joined(here, guards.name("k"), 4)
    calls += [asyncio.create_task(there.get_or_compute("k", compute)) for _ in range(3)]
    await joined(there, guards.name("k"), 3)
    gate.open()
    errors = await failed(calls)
    # and those who find what is remembered of it
    for guard in (here, there):
        errors += await failed([asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(3)])
    assert gate.entered == 1
    assert_apart(errors, original)


async def test_each_id_and_each_call_of_many_has_one_of_its_own(guards: Guards) -> None:
    guard, original, gate = guards.guard(), refusal(), Gate()

    @guard.cached_many(ttl=60)
    async def many(ids: list[int]) -> dict[int, int]:
        await gate.hold()
        raise original

    calls = [asyncio.create_task(many([1, 2, 3])) for _ in range(3)]
    await gate.arrival()
    calls += [asyncio.create_task(many([id])) for id in (1, 2, 3)]
    await joined(guard, next(iter(many.keys([3]).values())), 4)
    gate.open()
    errors = await failed(calls)
    assert_apart(errors, original)
    assert all(len(links(error)) < 30 for error in await failed([asyncio.create_task(many([1]))]))


async def test_those_who_wait_for_a_block_have_one_of_their_own(guards: Guards) -> None:
    guard, original = guards.guard(), refusal()

    async def waiting() -> Any:
        async with guard.single("k") as entry:
            return entry.value

    calls: list[asyncio.Task[Any]] = []
    with pytest.raises(fastapi.HTTPException) as caught:
        async with guard.single("k") as entry:
            assert entry.missing
            # In contexts of their own, as other requests are: within the block they would wait for themselves.
            calls += [asyncio.create_task(waiting(), context=contextvars.Context()) for _ in range(3)]
            await joined(guard, guards.name("k"), 4)
            raise original
    assert caught.value is original, "the block's own"
    assert_apart(await failed(calls), original)


async def test_callers_of_a_plain_function_have_one_each(guards: Guards) -> None:
    guard, original = guards.guard(), refusal()
    go_on, begun = threading.Event(), threading.Event()

    @guard.locked_cache(ttl=60)
    def plain(number: int) -> int:
        begun.set()
        assert go_on.wait(60)
        raise original

    calls = [asyncio.create_task(asyncio.to_thread(plain, 1)) for _ in range(4)]
    await asyncio.to_thread(begun.wait, 60)
    runtime = next(iter(runtimes_of(guard).values()))
    await until(lambda: sum(flight.joined for flight in runtime.flights.values()) == 4)
    go_on.set()
    assert_apart(await failed(calls), original)
    await asyncio.to_thread(guard.close)


async def test_a_refresh_and_those_in_mode_bypass_have_one_each(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()
    original = refusal()

    @guard.locked_cache(ttl=60)
    async def number() -> int:
        await gate.hold()
        raise original

    calls = [asyncio.create_task(number.refresh()), asyncio.create_task(number())]
    await gate.arrival()
    await joined(guard, number.key(), 2)
    gate.open()
    assert_apart(await failed(calls), original)
    with guard.bypassed():
        assert_apart(await failed([asyncio.create_task(number()) for _ in range(3)]), original)


class Uncopyable(werkzeug.exceptions.HTTPException):
    code = 409


async def test_what_cannot_be_copied_is_its_callers_and_told_to_the_others(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stampede_guard.engine.flights import passengers

    monkeypatch.setattr(
        passengers, "copy_of", lambda error: None if isinstance(error, Plain) else copy_of(error)
    )
    guard, gate, original = guards.guard(), Gate(), Plain("see https://u:p@x.org/?token=s3cret")

    async def compute() -> Any:
        await gate.hold()
        raise original

    calls = [asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(3)]
    await gate.arrival()
    await joined(guard, guards.name("k"), 3)
    gate.open()
    first, *others = await failed(calls)
    assert first is original
    assert [type(error) for error in others] == [ComputeFailed] * 2
    assert [str(error) for error in others] == ["Plain: see https://***@x.org/?***"] * 2


# --- errors about one caller ------------------------------------------------------------------------


class StatusError(Exception):
    def __init__(self, **attributes: Any) -> None:
        super().__init__("no")
        self.__dict__.update(attributes)


class Raising(Exception):
    """Its properties fail, as httpx's `request` does; and what they would say is elsewhere."""

    status = 403

    @property
    def status_code(self) -> int:
        raise RuntimeError("not set")

    @property
    def response(self) -> Any:
        raise RuntimeError("not set")


class Answer:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def forbidden_from(cause: BaseException, **attributes: Any) -> BaseException:
    error = StatusError(**attributes)
    error.__cause__ = cause
    return error


class NotAMember(django.core.exceptions.PermissionDenied):
    status_code = 404
    """Django answers 403, because of the class."""


def personal_errors(status: int) -> dict[str, BaseException]:
    answered = requests.Response()
    answered.status_code = status
    return {
        "fastapi": fastapi.HTTPException(status),
        "starlette": starlette.exceptions.HTTPException(status),
        "werkzeug": werkzeug.exceptions.Forbidden() if status == 403 else werkzeug.exceptions.Unauthorized(),
        "httpx": httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(status)),
        "requests": requests.HTTPError("no", response=answered),
        "aiohttp": StatusError(status=status, message="no"),
        "aiohttp's response": StatusError(response=Answer(status=status)),
        "enum": StatusError(status_code=http.HTTPStatus(status)),
        "text": StatusError(status=str(status)),
        "code": StatusError(code=status),
        "botocore": StatusError(response={"ResponseMetadata": {"HTTPStatusCode": status}}),
        "httplib2": StatusError(resp=Answer(status=status)),
        "a property that fails": Raising(),
        "Django": django.core.exceptions.PermissionDenied("no"),
        "Django's, extended": NotAMember("no"),
        "after Django's": forbidden_from(django.core.exceptions.PermissionDenied("no")),
        "in a group": ExceptionGroup("x", [ValueError(), StatusError(status=status)]),
        "as the cause": forbidden_from(StatusError(status=status)),
    }


@pytest.mark.parametrize("status", [401, 403])
def test_every_library_s_401_and_403_is_recognised_and_stays(status: int) -> None:
    for name, error in personal_errors(status).items():
        assert is_personal(error), name
        assert encode_failure(error) is None, name


@pytest.mark.parametrize(
    "error",
    [
        ValueError("403"),
        StatusError(status_code=404),
        StatusError(status="forbidden"),
        StatusError(code=True),
        StatusError(status_code=None, response=None),
        StatusError(response={"ResponseMetadata": {}}),
        forbidden_from(StatusError(status=403), status_code=502),
        StatusError(status=4030),
        django.core.exceptions.SuspiciousOperation("x"),
        django.core.exceptions.ObjectDoesNotExist("x"),
        PermissionError(13, "no", "/var/file"),
    ],
    ids=lambda error: f"{vars(error)}",
)
def test_other_errors_are_everybodys(error: BaseException) -> None:
    assert not is_personal(error)


@pytest.mark.parametrize("hidden", [False, True])
def test_what_is_raised_after_a_403_without_from_is_about_its_caller(hidden: bool) -> None:
    def call() -> None:
        try:
            raise StatusError(status=403)
        except StatusError as error:
            if hidden:
                raise RuntimeError("not available") from None
            raise RuntimeError(f"not available: {error}")  # noqa: B904  # as it is often written

    with pytest.raises(RuntimeError) as caught:
        call()
    assert is_personal(caught.value) is not hidden


@pytest.mark.parametrize("name", ["status_int", "http_code"])
def test_other_names_of_a_status_are_known(name: str) -> None:
    assert is_personal(StatusError(**{name: 401}))


async def test_each_caller_that_is_refused_has_an_error_of_its_own() -> None:
    class Refusing:
        refusal = StoreRefused("no")

        async def drop_tag(self, name: str) -> None:
            raise self.refusal

        def away_for(self, name: str) -> bool:
            return False

    pending = PendingInvalidations(Refusing(), applied=lambda name, fence: None)  # type: ignore[arg-type]
    caught = []
    for _ in range(3):
        with pytest.raises(StoreRefused) as raised:
            await pending._send("tag", None)
        caught.append(raised.value)
    assert len({id(error) for error in caught} | {id(Refusing.refusal)}) == 4


MEMBERS = frozenset({"bob", "carol"})


class Forum:
    """Reads are for members. Everybody's are of one entry."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.gate = Gate()
        self.asked: list[str] = []

    async def read(self, user: str) -> str:
        self.asked.append(user)
        await self.gate.hold()
        if user not in MEMBERS:
            raise self.error
        return "the thread"


@pytest.mark.parametrize("kind", sorted(personal_errors(403)))
async def test_one_users_403_is_not_delivered_to_another(guards: Guards, kind: str) -> None:
    guard, forum = guards.guard(), Forum(personal_errors(403)[kind])

    @guard.locked_cache(ttl=60, unkeyed=("user",))
    async def thread(user: str) -> str:
        return await forum.read(user)

    calls = [asyncio.create_task(thread(user)) for user in ("alice", "adam", "bob", "carol")]
    await forum.gate.arrival()
    await joined(guard, thread.key("x"), 4)
    forum.gate.open()
    alice, adam, bob, carol = await failed(calls)
    assert type(alice) is type(adam) is type(forum.error) and alice is not adam
    assert (bob, carol) == ("the thread", "the thread")
    assert forum.asked == ["alice", "adam", "bob"], "one after the other, and nobody once the value is there"


Called = Callable[[StampedeGuard, Forum, str], Any]


async def by_get_or_compute(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    return await guard.get_or_compute("k", lambda: forum.read(user))


async def by_request_bound(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    return await guard.get_or_compute("k", lambda: forum.read(user), request_bound=True)


async def by_single(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    async with guard.single("k") as entry:
        if entry.missing:
            await entry.set(await forum.read(user))
        return entry.value


async def by_tags(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    return await guard.get_or_compute("k", lambda: forum.read(user), tags=["a"])


async def bypassed(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    with guard.bypassed():
        return await guard.get_or_compute("k", lambda: forum.read(user))


async def by_tenant(guard: StampedeGuard, forum: Forum, user: str) -> Any:
    return await guard.within("acme").get_or_compute("k", lambda: forum.read(user))


@pytest.mark.parametrize(
    "called", [by_get_or_compute, by_request_bound, by_single, by_tags, bypassed, by_tenant]
)
async def test_every_face_asks_for_the_next_caller(guards: Guards, called: Called) -> None:
    guard, forum = guards.guard(), Forum(fastapi.HTTPException(403))
    strangers = [f"stranger {number}" for number in range(10)]  # more than may take over at once
    calls = [asyncio.create_task(called(guard, forum, user)) for user in [*strangers, "bob", "carol"]]
    await forum.gate.arrival()
    runtime = guard.engine.runtime()
    await until(lambda: sum(flight.joined for flight in runtime.flights.values()) == 12)
    forum.gate.open()
    *refused, bob, carol = await failed(calls)
    assert [getattr(error, "status_code", error) for error in refused] == [403] * 10
    if called is not by_single:  # a block raises what it raises, here one object again and again
        assert len({id(error) for error in refused}) == 10
    assert (bob, carol) == ("the thread", "the thread")
    assert forum.asked == [*strangers, "bob"]
    await until(lambda: not runtime.flights)


async def test_ids_of_many_are_asked_for_the_next_caller(guards: Guards) -> None:
    guard, forum = guards.guard(), Forum(fastapi.HTTPException(401))

    @guard.cached_many(ttl=60, unkeyed=("user",))
    async def threads(ids: list[int], user: str) -> dict[int, str]:
        text = await forum.read(user)
        return {id: f"{text} {id}" for id in ids}

    alice = asyncio.create_task(threads([1, 2], "alice"))
    await forum.gate.arrival()
    bob = asyncio.create_task(threads([1, 2], "bob"))
    await joined(guard, threads.keys([2], "x")[2], 2)
    forum.gate.open()
    refused, served = await failed([alice, bob])
    assert refused.status_code == 401
    assert served == {1: "the thread 1", 2: "the thread 2"}


async def test_plain_functions_ask_for_the_next_caller(guards: Guards) -> None:
    guard, asked = guards.guard(), list[str]()
    go_on, begun = threading.Event(), threading.Event()

    @guard.locked_cache(ttl=60, unkeyed=("user",))
    def thread(user: str) -> str:
        asked.append(user)
        begun.set()
        assert go_on.wait(60)
        if user not in MEMBERS:
            raise fastapi.HTTPException(403)
        return "the thread"

    first = asyncio.create_task(asyncio.to_thread(thread, "alice"))
    await asyncio.to_thread(begun.wait, 60)
    second = asyncio.create_task(asyncio.to_thread(thread, "bob"))
    runtime = next(iter(runtimes_of(guard).values()))
    await until(lambda: sum(flight.joined for flight in runtime.flights.values()) == 2)
    go_on.set()
    alice, bob = await failed([first, second])
    assert (alice.status_code, bob, asked) == (403, "the thread", ["alice", "bob"])
    await asyncio.to_thread(guard.close)


async def test_a_403_in_the_background_is_nobodys(guards: Guards) -> None:
    guard = guards.guard(ttl=10, stale_ttl=100_000)
    forum = Forum(fastapi.HTTPException(403))
    forum.gate.open()
    assert await by_get_or_compute(guard, forum, "bob") == "the thread"
    await guards.age(guards.name("k"), 11)
    forum.gate = Gate()
    assert await by_get_or_compute(guard, forum, "alice") == "the thread", "the stale one"
    await forum.gate.arrival()
    late = asyncio.create_task(guard.get_or_compute("k", lambda: forum.read("carol"), soft_timeout=30.0))
    await joined(guard, guards.name("k"), 1)
    forum.gate.open()
    assert await soon(late) == "the thread"
    assert forum.asked == ["bob", "alice", "carol"]


async def test_with_all_arguments_in_the_key_all_callers_are_one(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()

    @guard.locked_cache(ttl=60)
    async def upstream(page: int) -> str:
        await gate.hold()
        raise fastapi.HTTPException(401)

    calls = [asyncio.create_task(upstream(1)) for _ in range(3)]
    await gate.arrival()
    await joined(guard, upstream.key(1), 3)
    gate.open()
    errors = await failed(calls)
    assert [error.status_code for error in errors] == [401] * 3
    assert len({id(error) for error in errors}) == 3 and gate.entered == 1


async def test_a_caller_that_leaves_takes_its_refusal_along(guards: Guards) -> None:
    guard, forum = guards.guard(), Forum(fastapi.HTTPException(403))
    alice = asyncio.create_task(by_get_or_compute(guard, forum, "alice"))
    await forum.gate.arrival()
    bob = asyncio.create_task(by_get_or_compute(guard, forum, "bob"))
    await joined(guard, guards.name("k"), 2)
    alice.cancel()
    await asyncio.wait({alice})
    forum.gate.open()
    assert await soon(bob) == "the thread"


# --- texts that travel ------------------------------------------------------------------------------

SECRET = "s3cret-value"
TEXTS = [
    f"Client error '404 Not Found' for url 'https://api.example.com/v1?token={SECRET}'",
    f"HTTPConnectionPool(host='x', port=80): Max retries exceeded with url: /v1?token={SECRET} (Caused by ...)",
    f"404, message='Not Found', url=URL('https://api.example.com/?a=1&key={SECRET}#x')",
    f"cannot connect to postgresql://app:{SECRET}@db.example.com:5432/shop",
    f"cannot connect to redis://:{SECRET}@cache:6379/0",
    f"cannot connect to amqp://app:{SECRET}/with?odd#marks@queue",
    f"see https://example.com/#access_token={SECRET}",
    f"see //app:{SECRET}@example.com/x",
    f"see https:\\/\\/example.com\\/?token={SECRET}",
    f"redirected to https%3A%2F%2Fexample.com%2F%3Ftoken%3D{SECRET}",
    f"GET example.com/x?sig={SECRET}: 500",
    f"https://api.telegram.org/bot12345:{SECRET}/sendMessage failed",
    f"https://example.com/x;jsessionid={SECRET}",
    f"wss://example.com/socket?token={SECRET} was closed",
    f"Authorization was: Bearer {SECRET}",
    f"api_key={SECRET} is not known",
    f'{{"token": "{SECRET}", "x": 1}}',
    f"{{'access_token': '{SECRET}'}}",
    f'{{"client_secret" : "{SECRET}"}}',
    f'"{{\\"token\\": \\"{SECRET}\\"}}"',
    f"[(b'authorization', b'Bearer {SECRET}')]",
    f"('api_key', '{SECRET}')",
    f"token: {SECRET}",
    f"token {SECRET} is not valid",
    f"password: {SECRET}",
    f"password='{SECRET}' user='app'",
    f"x-api-key: {SECRET}",
    f"Authorization: {SECRET}",
    f"Authorization: Token {SECRET}",
    f"Cookie: session={SECRET}; theme=dark",
    f"refresh_token%3D{SECRET}",
    f"sent Bearer {SECRET}",
    "x" * 600 + f" https://example.com/?token={SECRET}",
    f"https://example.com/?token={SECRET}" + "x" * 100_000,
    f"\nhttps://example.com/?token={SECRET}\nhttps://example.com/?token={SECRET}",
]


class Registered(Exception):
    pass


@pytest.mark.parametrize("text", TEXTS)
def test_no_url_with_a_token_travels_in_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_registered", dict(failures._registered))
    monkeypatch.setattr(failures, "_readers", dict(failures._readers))
    register_failure(
        Registered, lambda error: {"texts": [str(error)]}, lambda told: Registered(*told["texts"])
    )
    noted = Plain("x")
    noted.add_note(text)
    for error in (
        Plain(text),
        KeyError(text),
        Plain({"url": text}),
        noted,
        with_attributes(Plain("x"), url=text),
        ComputeFailed("X", text),
        ComputeTimeout(text),
        Registered(text),
        fastapi.HTTPException(404, text),
        fastapi.HTTPException(404, {"links": [{text: text}]}),
        fastapi.HTTPException(307, headers={"Location": text.replace("\n", " ")}),
        ExceptionGroup(text, [ValueError(text)]),
        raised(Plain("x"), cause=Plain(text)),
        httpx.HTTPStatusError(text, request=REQUEST, response=httpx.Response(404)),
    ):
        data = encode_failure(error)
        assert data is None or SECRET.encode() not in data, error
        if data is not None:
            assert SECRET not in str(decode_failure(data))
    assert SECRET not in mask(text)


def test_what_is_no_secret_stays() -> None:
    for text in (
        "no such project: 7",
        "the token expired",
        "token_count=5",
        "max_tokens: 4096",
        "Unexpected token: EOF",
        "password: field required",
        "secret: field required",
        "the secret: keep calm and carry on",
        "no such column: users.password",
        "bearer token expected",
        "authorization required",
        "see https://example.com/projects/7/quality and http://localhost:8000",
        "expected one of: a, b? no",
        "ratio 3/4 of a/b, 50% off, x=1",
        "",
        "é ? = /",
    ):
        assert mask(text) == text
    told = decode_failure(encode_failure(fastapi.HTTPException(307, headers={"Location": "/login"})) or b"")
    assert isinstance(told, fastapi.HTTPException) and told.headers == {"Location": "/login"}


@pytest.mark.parametrize("name", ["secret", "client_secret", "secret_key", "password", "db-password", "pwd"])
@pytest.mark.parametrize(
    "text",
    [
        "{}: walrus", "{}: walrus.", "db:\n  {}: walrus\n  user: bob\n", "{}: walrus # of the shop",
        "({}: walrus)",
        "{}: walrus, user: bob", "user: bob {}: walrus port: 5", "{}: walrus user=bob", "{}: 'walrus 7'",
    ],
)  # fmt: skip
def test_one_word_behind_the_name_of_a_secret_is_hidden(name: str, text: str) -> None:
    told = mask(text.format(name))
    assert "walrus" not in told
    assert told.count("bob") == text.count("bob"), "the rest stays"


KNOWN = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "xoxb-1234567890-abcdefghij", "sk-proj-abc123abc123abc123abc123",
]  # fmt: skip


@pytest.mark.parametrize("token", KNOWN)
def test_a_token_that_is_known_by_its_form_travels_nowhere(token: str) -> None:
    assert token not in mask(f"the service said: {token} is not allowed")


def test_fields_with_secrets_travel_without_them() -> None:
    detail = {
        "error": "no such token",
        "token": SECRET,
        "tries": [{"password": SECRET, "n": 1}],
        "loc": ["token"],
    }
    told = decode_failure(encode_failure(fastapi.HTTPException(404, detail)) or b"")
    assert isinstance(told, fastapi.HTTPException)
    assert told.detail == {**detail, "token": "***", "tries": [{"password": "***", "n": 1}]}


async def test_no_token_is_in_redis_after_a_failure(valkey_url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:

        @locked_cache(guard=guard, ttl=60)
        async def rows() -> Any:
            httpx.Response(404, request=REQUEST).raise_for_status()

        with pytest.raises(httpx.HTTPStatusError, match="s3cret-value"):  # this process's own
            await rows()
        async with redis.asyncio.Redis.from_url(valkey_url) as client:
            stored = b"".join(
                [await client.dump(key) async for key in client.scan_iter(f"*{namespace}*")]  # type: ignore[misc]
            )
        assert b"HTTPStatusError" in stored and b"s3cret" not in stored


# --- what ends generators, tasks and processes --------------------------------------------------------


class Strange(BaseException):
    pass


OUT_OF_CALLBACKS: list[tuple[BaseException, type[BaseException], str]] = [
    (StopIteration(1), RuntimeError, "raised StopIteration"),
    (asyncio.CancelledError(), RuntimeError, "raised CancelledError"),
    (GeneratorExit(), RuntimeError, "raised GeneratorExit"),
    (StopAsyncIteration(1), StopAsyncIteration, "1"),
    (SystemExit(3), SystemExit, "3"),
    (KeyboardInterrupt(), KeyboardInterrupt, ""),
    (Strange("x"), Strange, "x"),
    (TimeoutError("x"), TimeoutError, "x"),
    (KeyError("x"), KeyError, "'x'"),
]


async def told(call: Any) -> BaseException:
    """What the call raises, kept from the event loop: a task that raises SystemExit ends it."""
    try:
        await soon_contained(call)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


async def soon_contained(call: Any) -> Any:
    async with asyncio.timeout(60):
        return await call


@pytest.mark.parametrize("field", ["ttl", "should_cache"])
@pytest.mark.parametrize(("raises", "kind", "text"), OUT_OF_CALLBACKS, ids=lambda one: repr(one)[:24])
async def test_what_a_callback_raises_is_told_as_what_it_is(
    guards: Guards, field: str, raises: BaseException, kind: type[BaseException], text: str
) -> None:
    def fails(value: Any) -> Any:
        raise raises

    async def compute() -> int:
        return 1

    guard = guards.guard()
    error = await told(guard.get_or_compute("k", compute, **{field: fails}))
    assert type(error) is kind and text in str(error)
    if kind is RuntimeError:
        assert f"the {field} function of" in str(error) and type(error.__cause__) is type(raises)

    async def block() -> Any:
        async with guard.single("single", **{field: fails}) as entry:
            await entry.set(1)

    error = await told(block())
    assert type(error) is kind and text in str(error)

    @guard.cached_many(**{field: fails})
    async def many(ids: list[int]) -> dict[int, int]:
        return {id: id for id in ids}

    error = await told(many([1, 2]))
    assert type(error) is kind and text in str(error)
    await until(lambda: not guard.engine.runtime().flights)
    # Nothing is left in a state in which the next call would wait or fail.
    assert await soon(guards.guard().get_or_compute("other", compute)) == 1


@pytest.mark.parametrize(
    ("raises", "kind"),
    [
        (asyncio.CancelledError(), ComputeFailed),
        (GeneratorExit(), ComputeFailed),
        (StopAsyncIteration(1), StopAsyncIteration),
        (SystemExit(3), SystemExit),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (Strange("x"), Strange),
    ],
    ids=repr,
)
async def test_what_a_computation_raises_ends_nobody_elses(
    guards: Guards, raises: BaseException, kind: type[BaseException]
) -> None:
    guard = guards.guard()

    async def fails() -> Any:
        raise raises

    assert type(await told(guard.get_or_compute("k", fails))) is kind

    @guard.cached_many(ttl=60)
    async def many(ids: list[int]) -> dict[int, int]:
        raise raises

    assert type(await told(many([1, 2]))) is kind

    async def works() -> str:
        return "value"

    # An ordinary failure is remembered for error_ttl. What ends a process is its caller's alone.
    key = "other" if issubclass(kind, Exception) else "k"
    assert await soon(guard.get_or_compute(key, works)) == "value"
    await until(lambda: not guard.engine.runtime().flights)


async def test_one_callers_exit_is_not_its_passengers(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()

    async def exits() -> Any:
        await gate.hold()
        raise SystemExit(3)

    async def works() -> str:
        return "value"

    first = asyncio.create_task(told(guard.get_or_compute("k", exits)))
    await gate.arrival()
    second = asyncio.create_task(guard.get_or_compute("k", works))
    await joined(guard, guards.name("k"), 2)
    gate.open()
    assert type(await soon(first)) is SystemExit
    assert await soon(second) == "value"
