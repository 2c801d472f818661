from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import io
import pathlib
import re
import subprocess
import sys
import uuid
from contextvars import ContextVar, copy_context
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from fastapi import BackgroundTasks, Depends, Query, UploadFile
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection, Request
from starlette.responses import StreamingResponse

from stampede_guard.errors import KeyPartError
from stampede_guard.values.keys import LONGEST_KEY, KeyBuilder


async def quality(project: int, category: str = "all", *, deep: bool = False) -> None: ...


async def anything(value: Any) -> None: ...


async def variadic(first: int, *rest: int, **options: int) -> None: ...


def foreign(module: str, name: str, base: type = object) -> type:
    """A class as if it came from a library that is not installed here."""
    return type(base)(name, (base,), {"__module__": module})


def key_of(value: Any) -> str:
    return KeyBuilder(anything).build((value,), {})


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    RED = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class OtherPoint:
    x: Any
    y: Any = 0


class Model(pydantic.BaseModel):
    x: Any = None
    y: int = 0


class OpenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int = 0


class Struct(msgspec.Struct):
    x: Any
    y: int = 0


class Pair(NamedTuple):
    x: int
    y: int


class Celsius(float):
    pass


class Plain:
    pass


# ------------------------------------------------------------------------------------------ one call, one key


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((7,), {}),
        ((), {"project": 7}),
        ((7, "all"), {}),
        ((7,), {"category": "all"}),
        ((), {"deep": False, "category": "all", "project": 7}),
    ],
)
def test_the_same_arguments_give_the_same_key_however_they_are_passed(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    builder = KeyBuilder(quality)
    assert builder.build(args, kwargs) == builder.build((7, "all"), {"deep": False})


def test_a_key_is_readable() -> None:
    key = KeyBuilder(quality).build((7,), {})
    assert re.fullmatch(
        r"tests\.values\.test_keys\.quality:[0-9a-f]{12}:project=7,category='all',deep=False", key
    )


def test_every_parameter_counts() -> None:
    build = KeyBuilder(quality).build
    calls: list[dict[str, Any]] = [{}, {"category": "x"}, {"deep": True}, {"category": "x", "deep": True}]
    assert len({build((7,), call) for call in calls} | {build((8,), call) for call in calls}) == 8


def test_extra_positional_and_keyword_arguments_count_and_the_order_of_keywords_does_not() -> None:
    build = KeyBuilder(variadic).build
    assert len({build((1,), {}), build((1, 2), {}), build((1, 2, 3), {}), build((1,), {"a": 2})}) == 4
    assert build((1,), {"a": 1, "b": 2}) == build((1,), {"b": 2, "a": 1})
    assert build((1,), {"a": 1, "b": 2}) != build((1,), {"b": 1, "a": 2})


def test_positional_only_parameters_and_names_that_python_uses_itself_are_fine() -> None:
    async def odd(self: int, match: int = 1, /, type: int = 2, *, print: int, _: int = 3) -> None: ...

    build = KeyBuilder(odd).build
    assert build((1,), {"print": 4}) == build((1, 1, 2), {"print": 4, "_": 3})
    assert build((1,), {"print": 4}) != build((1,), {"print": 5})


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"unknown": 1}), ((1,), {"project": 1})]
)
def test_arguments_that_do_not_fit_are_the_type_error_that_the_call_itself_would_raise(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=r"quality\(\)") as caught:
        KeyBuilder(quality).build(args, kwargs)
    assert not isinstance(caught.value, KeyPartError)


# ------------------------------------------------------------------------------------- different values differ

DIFFERENT: list[Any] = [
    1, "1", True, 1.0, None, False, 0, "", -1, 0.0, -0.0, 1e300, float("inf"), "None", "True", b"1", "b'1'",
    bytearray(b"1"),
    1j, 10**30, -(10**30), "unset", [], (), {}, set(), frozenset(), [1], [[1]], (1,), {1}, frozenset({1}), {1: 1},
    {1: "1"}, {"1": 1},
    [1, 2], [2, 1], [12], ["1,2"], ["1", "2"], ["1','2"], [None], [[], []], [[[]]], "list(1)", "'", "''", "a,b=1",
    "%27", "{", "}", " ",
    "\n", "\x00", "é", "e\u0301", "\ud800", "\U0001f600", "x" * 41, "x" * 5000, range(3), range(4), Ellipsis,
    Colour.RED, Colour.BLUE, Level.RED, Rights.READ, Rights.READ | Rights.WRITE, Point(1), Point(1, 2), Point("1"),
    OtherPoint(1),
    Model(x=1), Model(x="1"), Model(x=1, y=1), OpenModel(x=1), OpenModel(x=1, z=2), Struct(1), Struct(1, 1),
    Pair(1, 0), Celsius(1.0),
    uuid.UUID(int=1), uuid.UUID(int=2), str(uuid.UUID(int=1)), decimal.Decimal("1.0"), decimal.Decimal("1.00"),
    decimal.Decimal(1),
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, fold=1),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Paris")), datetime.datetime(2024, 1, 1,
    tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    datetime.time(1), datetime.time(1, tzinfo=datetime.UTC), datetime.timedelta(1), datetime.timedelta(seconds=1),
    pathlib.PurePosixPath("/a"), pathlib.PureWindowsPath("/a"), pydantic.SecretStr("a"), pydantic.SecretStr("b"), "a",
    type("Url", (pydantic.RootModel[int],), {})(1),
]  # fmt: skip


def test_values_that_differ_in_value_or_type_never_share_a_key() -> None:
    keys: dict[str, Any] = {}
    for value in DIFFERENT:
        key = key_of(value)
        assert key not in keys, f"{value!r} and {keys[key]!r} share a key"
        keys[key] = value


@pytest.mark.parametrize("value", DIFFERENT, ids=[str(number) for number in range(len(DIFFERENT))])
def test_every_key_may_stand_in_a_hash_tag_and_is_short(value: Any) -> None:
    async def function_with_quite_a_long_name_that_has_to_be_trimmed_somewhere(
        a: Any, b: Any, an_uncommonly_long_parameter_name_such_as_generated_code_has_them: Any
    ) -> None: ...

    function = function_with_quite_a_long_name_that_has_to_be_trimmed_somewhere
    key = KeyBuilder(function).build((value, value, value), {})
    assert len(key) <= LONGEST_KEY
    assert re.fullmatch(r"[!-z|~]+", key), key
    assert "{" not in key


def test_the_order_of_dicts_and_sets_does_not_count_but_that_of_sequences_does() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert key_of({3, 1, "2"}) == key_of({"2", 3, 1})
    assert key_of([1, 2]) != key_of([2, 1])


def test_equal_values_of_records_share_a_key() -> None:
    assert key_of(Point([1], {"a": 1})) == key_of(Point([1], {"a": 1}))
    assert key_of(Model(x=1)) == key_of(Model(x=1, y=0))
    assert key_of(Struct(1)) == key_of(Struct(1, 0))


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=60), st.binary(max_size=30),
    st.uuids(), st.dates(), st.datetimes(), st.timedeltas(), st.decimals(allow_nan=False),
)  # fmt: skip
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=3), max_leaves=5
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(hashables, inner,
    max_size=3),
    max_leaves=8,
)  # fmt: skip


def shape(value: Any) -> Any:
    """What makes a value itself: equality with the types of everything in it."""
    if isinstance(value, list | tuple):
        return type(value), tuple(shape(item) for item in value)
    if isinstance(value, frozenset):
        return frozenset, frozenset(shape(item) for item in value)
    if isinstance(value, dict):
        return dict, frozenset((shape(key), shape(item)) for key, item in value.items())
    return type(value), repr(value)


@given(st.lists(values, min_size=2, max_size=2), st.lists(values, min_size=2, max_size=2))
@example(["a','b"], ["a", "b"])
@example([[1, 2], []], [[1], [2]])
def test_two_calls_share_a_key_only_if_their_arguments_are_equal_and_of_equal_types(
    one: list[Any], other: list[Any]
) -> None:
    async def function(*args: Any) -> None: ...

    build = KeyBuilder(function).build
    assert (build(tuple(one), {}) == build(tuple(other), {})) == (shape(one) == shape(other))


def test_keys_are_the_same_in_another_process() -> None:
    script = (
        "import datetime, uuid\n"
        "from tests.values.test_keys import KeyBuilder, Colour, Model, anything\n"
        "value = [{'b', 'a', 'c'}, {'k': Colour.RED}, Model(x=1), uuid.UUID(int=1), datetime.date(2024, 1, 1)]\n"
        "print(KeyBuilder(anything).build((value,), {}))\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in "ab"
    ]
    value = [{"b", "a", "c"}, {"k": Colour.RED}, Model(x=1), uuid.UUID(int=1), datetime.date(2024, 1, 1)]
    assert {run.stdout.strip() for run in runs} == {key_of(value)}


def test_a_secret_is_told_apart_and_not_told() -> None:
    secret = pydantic.SecretStr("hunter2")
    builder = KeyBuilder(anything)
    assert "hunter2" not in builder.build((secret,), {}) + str(builder.describe((secret,), {}))


# ----------------------------------------------------------------------------------------- what cannot be a part


@pytest.mark.parametrize(
    "value",
    [object(), Plain(), lambda: 1, len, (number for number in ()), io.StringIO(), Plain, asyncio.Event,
    {"a": [Plain()]}, Point(Plain()), {Plain(): 1}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_without_stable_text_is_an_error_that_names_the_parameter_and_what_to_write(
    value: Any,
) -> None:
    with pytest.raises(KeyPartError) as caught:
        key_of(value)
    assert caught.value.parameter == "value"
    for expected in ("'value'", "anything()", 'unkeyed=("value",)', 'resources={"value": factory}', "key="):
        assert expected in str(caught.value)


def test_the_error_tells_the_types_and_not_the_values() -> None:
    with pytest.raises(KeyPartError) as caught:
        key_of({"password": "hunter2", "session": Plain()})
    assert "hunter2" not in str(caught.value)
    assert "Plain" in str(caught.value)
    assert "inside a dict" in str(caught.value)


def test_a_value_that_holds_itself_is_an_error_and_not_a_crash() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(KeyPartError, match="holds itself"):
        key_of(endless)


def test_an_object_with_attributes_of_its_own_beside_its_content_is_refused() -> None:
    class Tagged(str):
        pass

    value = Tagged("a")
    assert key_of(value) != key_of("a")
    value.__dict__["tenant"] = 1
    with pytest.raises(KeyPartError, match="attributes of its own"):
        key_of(value)


Session = foreign("sqlalchemy.orm.session", "Session")
LIVE = [
    Request,
    HTTPConnection,
    StreamingResponse,
    BackgroundTasks,
    UploadFile,
    Session,
    foreign("app.db", "OurSession", Session),
    foreign("sqlalchemy.ext.asyncio.session", "AsyncSession"),
    foreign("asyncpg.pool", "Pool"),
    foreign("asyncpg.connection", "Connection"),
    foreign("redis.asyncio.client", "Redis"),
]


@pytest.mark.parametrize("kind", LIVE, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@pytest.mark.parametrize("form", ["bare", "Optional", "Annotated", "list"])
def test_an_annotation_that_cannot_be_a_part_is_an_error_at_decoration(kind: Any, form: str) -> None:
    async def endpoint(project: int, db: Any) -> None: ...

    forms = {
        "bare": kind,
        "Optional": kind | None,
        "Annotated": Annotated[kind, Depends(anything)],
        "list": list[kind],
    }
    endpoint.__annotations__["db"] = forms[form]
    with pytest.raises(KeyPartError, match="'db'") as caught:
        KeyBuilder(endpoint)
    assert caught.value.parameter == "db"
    # What says who is asking is never proposed to be left out.
    assert ('unkeyed=("db",)' in str(caught.value)) == (kind not in (Request, HTTPConnection))
    KeyBuilder(endpoint, unkeyed=("db",))
    KeyBuilder(endpoint, resources=("db",))
    KeyBuilder(endpoint, key=lambda project, db: str(project))


def test_an_annotation_that_is_a_string_is_read_too() -> None:
    async def endpoint(request: Request) -> None: ...  # a string, in this module

    assert endpoint.__annotations__["request"] == "Request"
    with pytest.raises(KeyPartError, match="key=lambda request: request"):
        KeyBuilder(endpoint)


def test_a_name_known_only_to_type_checkers_does_not_hide_the_other_annotations() -> None:
    async def endpoint(a: OnlyForTypeCheckers, request: Request) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(KeyPartError, match="'request'"):
        KeyBuilder(endpoint)
    assert KeyBuilder(endpoint, unkeyed=("request",)).build((1, None), {})


def test_a_dependency_counts_like_any_other_parameter() -> None:
    def current_user() -> str: ...  # type: ignore[empty-body]

    async def by_default(user: str = Depends(current_user)) -> None: ...

    async def by_metadata(user: Annotated[str, Depends(current_user)]) -> None: ...

    for function in (by_default, by_metadata):
        build = KeyBuilder(function).build
        assert build((), {"user": "ann"}) != build((), {"user": "bob"})


@pytest.mark.parametrize("default", [Depends(anything), Depends(), Query(5)])
def test_a_marker_of_fastapi_is_not_taken_for_a_value(default: Any) -> None:
    async def endpoint(user: Any = default) -> None: ...

    with pytest.raises(KeyPartError, match="only means something to FastAPI"):
        KeyBuilder(endpoint).build((), {})


# --------------------------------------------------------------------------------------------------- the options


def test_unkeyed_parameters_do_not_count() -> None:
    build = KeyBuilder(quality, unkeyed=("deep",)).build
    assert build((7,), {"deep": True}) == build((7,), {"deep": False})
    assert build((7,), {}) != build((8,), {})


def test_resources_do_not_count_and_may_be_omitted_from_the_call() -> None:
    async def function(db: Any, project: int, extra: int = 1) -> None: ...

    build = KeyBuilder(function, resources=("db",)).build
    assert build((7,), {}) == build((), {"project": 7, "db": object()})
    assert build((7,), {}) != build((8,), {})


@pytest.mark.parametrize("option", ["unkeyed", "resources"])
def test_naming_a_parameter_that_does_not_exist_is_an_error_that_lists_those_that_do(option: str) -> None:
    with pytest.raises(KeyPartError, match=r"'databse'.*project, category, deep"):
        KeyBuilder(quality, **{option: ("databse",)})  # type: ignore[arg-type]


def test_a_string_where_a_tuple_of_names_belongs_is_an_error_that_shows_the_tuple() -> None:
    with pytest.raises(KeyPartError, match=re.escape("unkeyed=('deep',)")):
        KeyBuilder(quality, unkeyed="deep")


def test_name_version_and_the_shape_of_the_result_separate_entries() -> None:
    async def other(project: int, category: str = "all", *, deep: bool = False) -> None: ...

    builders = [
        KeyBuilder(quality),
        KeyBuilder(other),
        KeyBuilder(quality, name="q"),
        KeyBuilder(quality, version="2"),
        KeyBuilder(quality, fingerprint="ab"),
        KeyBuilder(quality, key=lambda project, category, deep: f"project={project}"),
    ]
    assert len({builder.build((7,), {}) for builder in builders}) == len(builders)


def test_a_name_from_outside_is_escaped() -> None:
    key = KeyBuilder(quality, name="my {report}\n").build((7,), {})
    assert not set("{} \n") & set(key)


@pytest.mark.parametrize("nameless", [lambda: None, functools.partial(lambda one: None, 1)])
def test_a_function_without_a_name_of_its_own_must_be_given_one(nameless: Any) -> None:
    with pytest.raises(KeyPartError, match="name="):
        KeyBuilder(nameless)
    assert KeyBuilder(nameless, name="report").build((), {})


def test_key_replaces_the_arguments() -> None:
    async def endpoint(request: Request) -> None: ...

    build = KeyBuilder(endpoint, key=lambda request: (request["path"], request["n"])).build
    one, other = {"path": "/a", "n": 1, "noise": 1}, {"path": "/a", "n": 1, "noise": 2}
    assert build((one,), {}) == build((), {"request": other})
    assert build((one,), {}) != build(({"path": "/a", "n": "1"},), {})


def test_what_key_returns_must_be_keyable_and_a_coroutine_is_not() -> None:
    async def late(value: Any) -> str:
        return "x"

    with pytest.raises(KeyPartError, match="key= of"):
        KeyBuilder(anything, key=late).build((1,), {})
    with pytest.raises(KeyPartError, match="key= of"):
        KeyBuilder(anything, key=lambda value: Plain()).build((1,), {})


def test_named_context_variables_count_and_an_unset_one_is_a_value_of_its_own() -> None:
    tenant: ContextVar[Any] = ContextVar("tenant")
    build = KeyBuilder(quality, context=(tenant,)).build

    def within(value: Any) -> str:
        tenant.set(value)
        return build((7,), {})

    keys = [build((7,), {}), *(copy_context().run(within, value) for value in ("a", "b", None, "unset", 1))]
    assert len(set(keys)) == len(keys)
    assert "@tenant='a'" in keys[1]


def test_a_context_variable_that_holds_an_object_is_an_error_that_names_it() -> None:
    tenant: ContextVar[Any] = ContextVar("tenant")

    def within() -> str:
        tenant.set(Plain())
        return KeyBuilder(quality, context=(tenant,)).build((7,), {})

    with pytest.raises(KeyPartError, match="context variable 'tenant'"):
        copy_context().run(within)


def test_describe_shows_an_operator_the_parts_at_full_length() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="acme")
    builder = KeyBuilder(quality, version="2", fingerprint="ab", context=(tenant,))
    assert builder.describe((7, "x" * 100), {}) == {
        ":name": "tests.values.test_keys.quality",
        ":version": "2",
        ":fingerprint": "ab",
        "project": "7",
        "category": f"'{'x' * 100}'",
        "deep": "False",
        "@tenant": "'acme'",
    }


def test_recognising_other_libraries_imports_none_of_them() -> None:
    script = (
        "import sys\n"
        "from stampede_guard.values.keys import KeyBuilder\n"
        "from stampede_guard.values.codec import codec_for, return_annotation\n"
        "import stampede_guard.values.failures as failures\n"
        "async def f(a: int) -> dict[str, int]: ...\n"
        "KeyBuilder(f).build((1,), {})\n"
        "codec_for(return_annotation(f)).encode({'a': 1})\n"
        "failures.decode_failure(failures.encode_failure(ValueError('x')))\n"
        "print(sorted({'starlette', 'fastapi', 'pydantic', 'redis', 'sqlalchemy'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_key_that_an_error_proposes_works_when_it_is_copied() -> None:
    async def endpoint(request: Request, project: int) -> int:
        return project

    with pytest.raises(KeyPartError) as refused:
        KeyBuilder(endpoint)
    proposed = (
        'lambda request, project: (request.url, request.headers.get("authorization"), request.headers.get("cookie"), '
        "project)"
    )
    assert f"key={proposed}" in str(refused.value)
    key = KeyBuilder(endpoint, key=eval(proposed))

    def of(url: str, user: str, project: int) -> str:
        headers = [(b"host", b"shop"), (b"authorization", user.encode())]
        scope = {"type": "http", "path": url, "query_string": b"q=1", "headers": headers, "method": "GET"}
        return key.build((), {"request": Request(scope), "project": project})

    assert of("/a", "ann", 1) == of("/a", "ann", 1)
    assert len({of("/a", "ann", 1), of("/b", "ann", 1), of("/a", "bob", 1), of("/a", "ann", 2)}) == 4
