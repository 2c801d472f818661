"""`key="user:{user_id}"`: the key has what the template names, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
import re
import uuid
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest
from starlette.requests import Request

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, Misuse
from stampede_guard.values.keys import LONGEST_KEY, KeyBuilder


@pytest.fixture
async def guard() -> AsyncIterator[StampedeGuard]:
    async with StampedeGuard.from_url("memory://", namespace="shop") as made:
        yield made


async def pair(a: Any, b: Any = None) -> None: ...


async def profile(user_id: int, language: str = "en", *, trace: Any = None) -> None: ...


def arguments_of(builder: KeyBuilder, *args: Any, **kwargs: Any) -> str:
    return builder.build(args, kwargs).split(":", 2)[2]


# --- the text -------------------------------------------------------------------------------------------


def test_the_key_reads_as_the_template_with_the_parts_that_keys_are_made_of() -> None:
    assert arguments_of(KeyBuilder(profile, key="user:{user_id}"), 7) == "user:7"
    builder = KeyBuilder(profile, key="user:{user_id}:{language}/end")
    assert arguments_of(builder, 7, "de") == "user:7:'de'/end"
    assert arguments_of(KeyBuilder(pair, key="{a}{b}"), 1, 2) == "1,2"
    assert arguments_of(KeyBuilder(pair, key="{{x}} {a}'"), 1) == "%7Bx%7D%201,%27"


def test_defaults_and_names_count_as_in_any_call() -> None:
    builder = KeyBuilder(profile, key="{user_id}:{language}")
    assert builder.build((7,), {}) == builder.build((), {"language": "en", "user_id": 7})


def test_what_the_template_does_not_name_is_not_in_the_key() -> None:
    builder = KeyBuilder(profile, key="user:{user_id}")
    keys = {builder.build((7, language), {"trace": object()}) for language in ("de", "en")}
    assert len(keys) == 1


def test_a_parameter_that_no_key_can_hold_may_go_unnamed() -> None:
    async def endpoint(request: Request, page: int) -> None: ...

    assert arguments_of(KeyBuilder(endpoint, key="page:{page}"), Request({"type": "http"}), 2) == "page:2"
    with pytest.raises(KeyPartError, match="'request'"):
        KeyBuilder(endpoint, key="page:{page}:{request}")


VALUES = [
    1, 11, "1", "11", "1,1", "1:1", "'", "", ":", "1'", True, None, 1.0, -1, b"1", uuid.UUID(int=1), (1,), (1, 1), [1],
    {"a": 1}, "None", "x" * 100, "x" * 101, "{a}", "%7Ba%7D", "ü", "1:'2'", "'1','2'", 10**30, 111,
]  # fmt: skip


@pytest.mark.parametrize(
    "template", ["{a}{b}", "{a}:{b}", "{a}1{b}", "{a}'{b}", "{a},{b}", "x{b}{a}y", "{a}/{b}1"]
)
def test_two_different_calls_never_have_one_key(template: str) -> None:
    builder = KeyBuilder(pair, key=template)
    calls = list(itertools.product(VALUES, repeat=2))
    keys = [builder.build(call, {}) for call in calls]
    assert len(set(keys)) == len(calls)
    assert max(map(len, keys)) <= LONGEST_KEY
    assert not any(re.search(r"[{}\s]", key) for key in keys)


def test_another_template_is_another_entry() -> None:
    templates = ("{a}", "{b}", "x:{a}", "{a}{b}", "{b}{a}", "{a}:{b}", "{a}{{", "{a}}}", None)
    keys = {KeyBuilder(pair, key=template).build((1, 1), {}) for template in templates}
    assert len(keys) == len(templates)


def test_a_value_that_is_a_secret_is_hashed_and_the_others_stay_readable() -> None:
    async def inbox(folder: str, token: str, code: int) -> None: ...

    assert arguments_of(KeyBuilder(inbox, key="inbox:{folder}"), "sent", "t0p", 1) == "inbox:'sent'"
    both = arguments_of(KeyBuilder(inbox, key="inbox:{folder}:{token}"), "sent", "t0p", 1)
    assert both.startswith("inbox:'sent':~")
    assert "t0p" not in both
    assert arguments_of(KeyBuilder(inbox, key="c:{code}", secret=("code",)), "sent", "t0p", 7).startswith(
        "c:~"
    )


def test_context_variables_follow() -> None:
    tenant: ContextVar[str] = ContextVar("shard", default="a")
    assert arguments_of(KeyBuilder(pair, key="x:{a}", context=(tenant,)), 1) == "x:1,@shard='a'"


def test_operators_see_the_parts_by_their_names() -> None:
    found = KeyBuilder(profile, key="user:{user_id}").describe((7,), {})
    assert {name: text for name, text in found.items() if name[0] != ":"} == {"user_id": "7"}


async def test_operators_can_read_a_key_of_a_template(guard: StampedeGuard) -> None:
    @guard.locked_cache(key="user:{user_id}:{token}")
    async def f(user_id: int, token: str, trace: int) -> None: ...

    @guard.locked_cache(key="user:{user_id}")
    async def g(user_id: str) -> None: ...

    found = guard.explain(f.key(7, "t0p", 1))
    assert (found.kind, found.complete, len(found.parts)) == ("function", True, 1)
    assert found.parts[0].text.startswith("user:7:~")
    assert found.parts[0].hashed
    assert guard.explain(g.key("a")).parts[0].text == "user:'a'"
    assert not guard.explain(g.key("a")).parts[0].hashed


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ("user:{user}", KeyPartError, "(it has: user_id, session, others, options); do you mean {user_id}?"),
        ("user:{zzz}", KeyPartError, "the key names {zzz}, but "),
        ("u:{}", Misuse, "has {} in it"),
        ("u:{0}", Misuse, "has {0} in it"),
        ("u:{user_id!r}", Misuse, "has {user_id!r} in it"),
        ("u:{user_id:>3}", Misuse, "has {user_id:>3} in it"),
        ("u:{user_id.name}", Misuse, "has {user_id.name} in it"),
        ("u:{user_id[0]}", Misuse, "has {user_id[0]} in it"),
        ("u:{user_id", Misuse, "is not a template"),
        ("u:{session}", KeyPartError, "it as unkeyed"),
        ("u:{db}", KeyPartError, "no such parameter"),
        ("u:{others}", KeyPartError, "many arguments"),
        ("u:{options}", KeyPartError, "many arguments"),
        ("user_id", Misuse, "names no parameter, so all calls would share one entry: write 'user_id:{user_id}'"),
        ("", Misuse, "1 to 512 characters"),
        ("{user_id}" + "x" * 512, Misuse, "1 to 512 characters"),
        (7, Misuse, "key= is a template"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_filled_in_is_an_error_at_decoration(
    guard: StampedeGuard, key: Any, error: type[Exception], text: str
) -> None:
    async def f(user_id: int, session: Any, *others: int, db: Any, **options: int) -> None: ...

    with pytest.raises(error, match=re.escape(text)):
        guard.locked_cache(key=key, unkeyed=("session",), resources={"db": object})(f)


async def test_an_argument_that_no_key_can_hold_is_refused_by_its_name(guard: StampedeGuard) -> None:
    @guard.locked_cache(key="x:{thing}")
    async def f(thing: Any) -> None: ...

    with pytest.raises(KeyPartError, match=r"'thing' of .*f") as caught:
        await f(object())
    assert caught.value.parameter == "thing"


# --- in use ---------------------------------------------------------------------------------------------


async def test_a_function_is_cached_invalidated_and_refreshed_by_what_its_template_names(
    guard: StampedeGuard,
) -> None:
    computed: list[tuple[int, str]] = []

    @guard.locked_cache(ttl="5m", key="user:{user_id}")
    async def greet(user_id: int, trace: str) -> str:
        computed.append((user_id, trace))
        return trace

    assert [await greet(7, "a"), await greet(7, trace="b"), await greet(8, "c")] == ["a", "a", "c"]
    assert greet.key(7, "x").startswith("shop:")
    assert greet.key(7, "x").endswith(":user:7")
    await greet.invalidate("7", "anything")  # type: ignore[arg-type]
    assert await greet(7, "d") == "d"
    assert await greet.refresh(7, "e") == "e"
    assert computed == [(7, "a"), (8, "c"), (7, "d"), (7, "e")]


async def test_methods_and_plain_functions_take_a_template(guard: StampedeGuard) -> None:
    @dataclasses.dataclass
    class Shop:
        number: int

        @guard.locked_cache(ttl=300, key="day:{day}")
        async def sales(self, day: str) -> int:
            return self.number

    assert [await Shop(1).sales("mo"), await Shop(2).sales("mo"), await Shop(3).sales("tu")] == [1, 1, 3]

    @guard.locked_cache(ttl=300, key="rate:{currency}")
    def rate(currency: str, trace: int) -> int:
        return trace

    assert rate.key("eur", 1) == rate.key("eur", 2)


async def test_in_a_batch_the_ids_name_one_id(guard: StampedeGuard) -> None:
    asked: list[list[int]] = []

    @guard.cached_many(ttl=300, key="product:{ids}")
    async def products(ids: list[int], trace: str) -> dict[int, int]:
        asked.append(ids)
        return {id: id * 10 for id in ids}

    assert await products([1, 2], "a") == {1: 10, 2: 20}
    assert await products([2, 3], "b") == {2: 20, 3: 30}
    assert asked == [[1, 2], [3]]


def test_a_template_without_the_ids_of_a_batch_is_refused(guard: StampedeGuard) -> None:
    async def products(shop: int, ids: list[int]) -> dict[int, int]: ...

    with pytest.raises(KeyPartError, match=r"the key of .*products\(\) must name \{ids\}"):
        guard.cached_many(ids="ids", key="shop:{shop}:{{ids}}")(products)


async def test_a_computation_sees_its_arguments_as_they_were_when_its_key_was_made(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300, key="page:{filters}")
    async def listing(filters: dict[str, int], trace: object) -> int:
        return filters["page"]

    filters = {"page": 1}
    while filters["page"] < 4:
        assert await listing(filters, object()) == filters["page"]
        filters["page"] += 1
