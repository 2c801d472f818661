"""Function identity: no two functions share entries, and one function that is defined again stays one."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import anyio.to_thread
import pytest
from fastapi import APIRouter, Depends, FastAPI
from starlette.concurrency import run_in_threadpool

from stampede_guard import KeyPartError, Misuse, StampedeGuard, configure, locked_cache
from stampede_guard.api.defaults import default_guard
from stampede_guard.api.identity.registry import MOST_NAMES
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.codec import codec_for
from tests.support.heap import collect
from tests.support.inside import definitions_of, functions_of, plans_of, tenants_of

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
Make = Callable[[StampedeGuard], None]


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t")


@pytest.fixture
def bare() -> Iterator[None]:
    configure(None)
    yield
    configure(None)


# --- a second function of the same name -------------------------------------------------------------------


def two_endpoints(guard: StampedeGuard) -> None:
    app = FastAPI()

    @app.get("/orders")
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return f"order {id}"

    @app.get("/users")
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:  # noqa: F811
        return f"user {id}"


def router_factory(guard: StampedeGuard) -> None:
    def crud(table: str) -> APIRouter:
        router = APIRouter(prefix=f"/{table}")

        @router.get("/{id}")
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{table} {id}"

        return router

    crud("orders")
    crud("users")


def factory_whose_first_function_is_gone(guard: StampedeGuard) -> None:
    def crud(table: str) -> weakref.ref[Any]:
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{table} {id}"

        return weakref.ref(read)

    gone = crud("orders")
    collect()
    assert gone() is None
    crud("users")


def factory_of_defaults(guard: StampedeGuard) -> None:
    for table in ("orders", "users"):

        @guard.locked_cache(ttl=60, unkeyed=("table",))
        async def read(id: int, table: str = table) -> str:
            return f"{table} {id}"


def factory_of_keyword_defaults(guard: StampedeGuard) -> None:
    for table in ("orders", "users"):

        @guard.locked_cache(ttl=60, unkeyed=("table",))
        async def read(id: int, *, table: str = table) -> str:
            return f"{table} {id}"


def factory_of_dependencies(guard: StampedeGuard) -> None:
    def make(database: str) -> None:
        def connect() -> str:
            return database

        @guard.locked_cache(ttl=60, unkeyed=("db",))
        async def read(id: int, db: Any = Depends(connect)) -> str:
            return f"{db} {id}"

    make("acme")
    make("globex")


def factory_of_annotated_dependencies(guard: StampedeGuard) -> None:
    def make(database: str) -> None:
        def connect() -> str:
            return database

        async def read(id: int, db: Any) -> str:
            return f"{db} {id}"

        read.__annotations__["db"] = Annotated[Any, Depends(connect)]
        guard.locked_cache(ttl=60, unkeyed=("db",))(read)

    make("acme")
    make("globex")


def factory_that_assigns_later(guard: StampedeGuard) -> None:
    def make(table: str) -> None:
        name = None

        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{name} {id}"

        name = table

    make("orders")
    make("users")


def factory_that_assigns_after(guard: StampedeGuard) -> None:
    def make(table: str) -> None:
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{name} {id}"

        name = table

    make("orders")
    make("users")


def factory_whose_function_counts(guard: StampedeGuard) -> None:
    def make() -> None:
        number = 0

        @guard.locked_cache(ttl=60)
        async def read() -> int:
            nonlocal number
            number += 1
            return number

    make()
    make()


def factory_of_lists(guard: StampedeGuard) -> None:
    def make(rows: list[int]) -> None:
        @guard.locked_cache(ttl=60)
        async def read() -> int:
            return len(rows)

    make([1])
    make([1])


def factory_of_objects_that_say_they_are_equal(guard: StampedeGuard) -> None:
    class Database:
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    def make(database: Database) -> None:
        @guard.locked_cache(ttl=60)
        async def read() -> str:
            return database.name

    make(Database("acme"))
    make(Database("globex"))


def factory_of_numbers_that_are_equal(guard: StampedeGuard) -> None:
    def make(number: object) -> None:
        @guard.locked_cache(ttl=60)
        async def read() -> str:
            return repr(number)

    make(1)
    make(True)


def decorator_without_wraps(guard: StampedeGuard) -> None:
    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @guard.locked_cache(ttl=60)
    @timed
    async def orders(id: int) -> str:
        return f"order {id}"

    @guard.locked_cache(ttl=60)
    @timed
    async def users(id: int) -> str:
        return f"user {id}"


def decorator_with_wraps_that_changes_the_result(guard: StampedeGuard) -> None:
    def of_tenant(tenant: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return tenant, await function(*args, **kwargs)

        return wrapper

    async def read(id: int) -> int:
        return id

    guard.locked_cache(ttl=60)(of_tenant("acme", read))
    guard.locked_cache(ttl=60)(of_tenant("globex", read))


def function_and_its_wrapper(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    @functools.wraps(read)
    async def twice(id: int) -> int:
        return 2 * await read(id)

    guard.locked_cache(ttl=60)(read)
    guard.locked_cache(ttl=60)(twice)


def one_function_with_the_resources_of_two_tenants(guard: StampedeGuard) -> None:
    async def read(id: int, db: str) -> str:
        return f"{db} {id}"

    for tenant in ("acme", "globex"):
        guard.locked_cache(ttl=60, resources={"db": lambda tenant=tenant: tenant})(read)


def one_function_with_two_lifetimes(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    guard.locked_cache(ttl=5)(read)
    guard.locked_cache(ttl=300)(read)


def one_function_with_two_keys(guard: StampedeGuard) -> None:
    async def read(id: int, lang: str) -> str:
        return f"{id} {lang}"

    guard.locked_cache(ttl=5, key=lambda id, lang: id)(read)
    guard.locked_cache(ttl=5, key=lambda id, lang: lang)(read)


def one_function_with_two_sets_of_tags(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    guard.locked_cache(ttl=5)(read)
    guard.locked_cache(ttl=5, tags=("all",))(read)


def one_function_with_and_without_a_variable(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    guard.locked_cache(ttl=5, context=(TENANT,))(read)
    guard.locked_cache(ttl=5, context=(OTHER,))(read)


def one_name_given_twice(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, name="shop.read")
    async def orders(id: int) -> str:
        return f"order {id}"

    @guard.locked_cache(ttl=60, name="shop.read")
    async def users(id: int) -> str:
        return f"user {id}"


def a_name_that_is_another_functions(guard: StampedeGuard) -> None:
    async def orders(id: int) -> str:
        return f"order {id}"

    async def users(id: int) -> str:
        return f"user {id}"

    guard.locked_cache(ttl=60)(orders)
    guard.locked_cache(ttl=60, name=f"{__name__}.{orders.__qualname__}")(users)


def a_name_in_two_spellings_of_unicode(guard: StampedeGuard) -> None:
    guard.locked_cache(ttl=60, name="caf\u00e9")(lambda: 1)
    guard.locked_cache(ttl=60, name="cafe\u0301")(lambda: 2)


def results_of_two_shapes(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, name="shop.read")
    async def orders(id: int) -> str:
        return f"order {id}"

    @guard.locked_cache(ttl=60, name="shop.read")
    async def users(id: int) -> list[int]:
        return [id]


def plain_and_async(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, name="shop.read")
    async def orders(id: int) -> str:
        return f"order {id}"

    @guard.locked_cache(ttl=60, name="shop.read")
    def users(id: int) -> str:
        return f"user {id}"


def many_and_one(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, name="shop.read")
    async def orders(ids: list[int]) -> dict[int, str]:
        return {}

    @guard.cached_many(ttl=60, name="shop.read")
    async def users(ids: list[int]) -> dict[int, str]:
        return {}


def two_of_many(guard: StampedeGuard) -> None:
    def make(table: str) -> None:
        @guard.cached_many(ttl=60)
        async def read(ids: list[int]) -> dict[int, str]:
            return dict.fromkeys(ids, table)

    make("orders")
    make("users")


def lambdas(guard: StampedeGuard) -> None:
    guard.locked_cache(ttl=60, name="shop.read")(lambda: 1)
    guard.locked_cache(ttl=60, name="shop.read")(lambda: 2)


def partials(guard: StampedeGuard) -> None:
    async def read(table: str, id: int) -> str:
        return f"{table} {id}"

    guard.locked_cache(ttl=60)(functools.partial(read, "orders"))
    guard.locked_cache(ttl=60)(functools.partial(read, "users"))


def partials_by_keyword(guard: StampedeGuard) -> None:
    async def read(id: int, *, table: str) -> str:
        return f"{table} {id}"

    guard.locked_cache(ttl=60, unkeyed=("table",))(functools.partial(read, table="orders"))
    guard.locked_cache(ttl=60, unkeyed=("table",))(functools.partial(read, table="users"))


def a_function_and_its_partial(guard: StampedeGuard) -> None:
    async def read(table: str, id: int = 7) -> str:
        return f"{table} {id}"

    guard.locked_cache(ttl=60)(read)
    guard.locked_cache(ttl=60)(functools.partial(read, "users"))


class Repository:
    def __init__(self, table: str) -> None:
        self.table = table

    def __cache_key__(self) -> str:
        return self.table

    async def read(self, id: int) -> str:
        return f"{self.table} {id}"

    async def __call__(self, id: int) -> str:
        return f"{self.table} {id}"


def methods_of_two_objects(guard: StampedeGuard) -> None:
    orders, users = Repository("orders"), Repository("users")
    guard.locked_cache(ttl=60)(orders.read)
    guard.locked_cache(ttl=60)(users.read)


def two_callable_objects(guard: StampedeGuard) -> None:
    orders, users = Repository("orders"), Repository("users")
    guard.locked_cache(ttl=60)(orders)
    guard.locked_cache(ttl=60)(users)


def class_factory(guard: StampedeGuard) -> None:
    def make(name: str) -> type:
        class Repository:
            table = name

            @guard.locked_cache(ttl=60, unkeyed=("self",))
            async def read(self, id: int) -> str:
                return f"{self.table} {id}"

        return Repository

    make("orders")
    make("users")


def class_factory_of_class_methods(guard: StampedeGuard) -> None:
    def make(name: str) -> type:
        class Repository:
            table = name

            @classmethod
            @guard.locked_cache(ttl=60, unkeyed=("cls",))
            async def read(cls, id: int) -> str:
                return f"{cls.table} {id}"

        return Repository

    make("orders")
    make("users")


def types_made_by_hand(guard: StampedeGuard) -> None:
    for table in ("orders", "users"):

        async def read(self: Any, id: int, *, table: str = table) -> str:
            return f"{table} {id}"

        read.__qualname__ = "Repository.read"
        type("Repository", (), {"read": guard.locked_cache(ttl=60, unkeyed=("self", "table"))(read)})


def code_run_in_two_namespaces(guard: StampedeGuard) -> None:
    source = "@guard.locked_cache(ttl=60)\nasync def read(id: int) -> str: return f'{TABLE} {id}'\n"
    code = compile(source, "<template>", "exec")
    for table in ("orders", "users"):
        exec(code, {"guard": guard, "TABLE": table, "__name__": "shop.generated"})


def code_copied_to_other_globals(guard: StampedeGuard) -> None:
    async def read(id: int) -> str:
        return f"{TABLE} {id}"  # type: ignore[name-defined] # noqa: F821

    for table in ("orders", "users"):
        copied = types.FunctionType(read.__code__, {"TABLE": table, "__name__": __name__}, "read")
        copied.__qualname__ = read.__qualname__
        guard.locked_cache(ttl=60)(copied)


def decorated_twice_over(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60)
    @guard.locked_cache(ttl=5)
    async def read(id: int) -> int:
        return id


def made_in_another_thread(guard: StampedeGuard) -> None:
    def make(table: str) -> None:
        with contextlib.suppress(KeyPartError):

            @guard.locked_cache(ttl=60)
            async def read(id: int) -> str:
                return f"{table} {id}"

    threads = [threading.Thread(target=make, args=(table,)) for table in ("orders", "users")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    make_third = functools.partial(router_factory, guard)
    make_third()


def within_a_tenant(guard: StampedeGuard) -> None:
    router_factory(guard.within("acme"))


def in_two_guards_of_one_tenant(guard: StampedeGuard) -> None:
    first = guard.within("acme")
    tenants_of(guard).clear()  # as when 1,024 others have been asked for
    assert guard.within("acme") is not first
    guard_of = iter((first, guard.within("acme")))

    def crud(table: str) -> None:
        @next(guard_of).locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{table} {id}"

    crud("orders")
    crud("users")


TENANT: ContextVar[str] = ContextVar("tenant")
OTHER: ContextVar[str] = ContextVar("tenant")

SECOND_FUNCTIONS: list[Make] = [
    two_endpoints, router_factory, factory_whose_first_function_is_gone, factory_of_defaults,
    factory_of_keyword_defaults, factory_of_dependencies, factory_of_annotated_dependencies,
    factory_that_assigns_later, factory_that_assigns_after, factory_whose_function_counts, factory_of_lists,
    factory_of_objects_that_say_they_are_equal, factory_of_numbers_that_are_equal, decorator_without_wraps,
    decorator_with_wraps_that_changes_the_result, function_and_its_wrapper,
    one_function_with_the_resources_of_two_tenants, one_function_with_two_lifetimes, one_function_with_two_keys,
    one_function_with_two_sets_of_tags, one_function_with_and_without_a_variable, one_name_given_twice,
    a_name_that_is_another_functions, a_name_in_two_spellings_of_unicode, results_of_two_shapes, plain_and_async,
    many_and_one, two_of_many, lambdas, partials, partials_by_keyword, a_function_and_its_partial,
    methods_of_two_objects, two_callable_objects, class_factory, class_factory_of_class_methods, types_made_by_hand,
    code_run_in_two_namespaces, code_copied_to_other_globals, decorated_twice_over, made_in_another_thread,
    within_a_tenant, in_two_guards_of_one_tenant,
]  # fmt: skip


@pytest.mark.parametrize("make", SECOND_FUNCTIONS)
def test_a_second_function_of_one_name_is_an_error_at_decoration(make: Make, guard: StampedeGuard) -> None:
    with pytest.raises(KeyPartError, match="name='"):
        make(guard)


@pytest.mark.parametrize("make", [router_factory, two_endpoints, two_of_many, plain_and_async])
@pytest.mark.parametrize("configured", [False, True])
def test_so_it_is_for_bare_decorators_whether_a_guard_is_configured_or_not(
    make: Make, configured: bool, guard: StampedeGuard, bare: None
) -> None:
    from stampede_guard import cached_many

    if configured:
        configure(guard)
    without_guard: Any = types.SimpleNamespace(locked_cache=locked_cache, cached_many=cached_many)
    with pytest.raises(KeyPartError, match="name='"):
        make(without_guard)


def test_the_error_shows_both_places_and_what_to_write(guard: StampedeGuard) -> None:
    with pytest.raises(KeyPartError) as caught:
        two_endpoints(guard)
    begin = inspect.getsourcelines(two_endpoints)[1]
    name = f"{__name__}.two_endpoints.<locals>.read"
    for part in (name, f"{__file__}:{begin + 3}", f"{__file__}:{begin + 8}", "name='"):
        assert part in str(caught.value)
    assert caught.value.parameter == "name"


def test_places_that_are_one_are_told_apart_by_who_called(guard: StampedeGuard) -> None:
    with pytest.raises(KeyPartError) as caught:
        router_factory(guard)
    lines, begin = inspect.getsourcelines(router_factory)
    calls = [begin + at for at, line in enumerate(lines) if line.strip().startswith('crud("')]
    for line in calls:
        assert f"{__file__}:{line})" in str(caught.value)
    assert "make it a parameter" in str(caught.value)


async def test_the_name_proposed_ends_it(guard: StampedeGuard) -> None:
    def crud(table: str) -> Any:
        @guard.locked_cache(ttl=60, name=f"{table}.read")
        async def read(id: int) -> str:
            return f"{table} {id}"

        return read

    orders, users = crud("orders"), crud("users")
    assert [await orders(7), await users(7)] == ["orders 7", "users 7"]


def test_a_bare_function_with_the_name_of_one_of_the_guards_own_is_an_error_when_they_meet(
    guard: StampedeGuard, bare: None
) -> None:
    @locked_cache(ttl=60, name="shop.read")
    async def orders(id: int) -> str:
        return f"order {id}"

    @guard.locked_cache(ttl=60, name="shop.read")
    async def users(id: int) -> str:
        return f"user {id}"

    with pytest.raises(KeyPartError, match=r"two functions of one guard are called shop\.read"):
        configure(guard)
    other = StampedeGuard(MemoryStore())
    configure(other)
    configure(guard)  # forgotten by now; it is told at the call
    with pytest.raises(KeyPartError, match=r"two functions of one guard are called shop\.read"):
        orders.key(7)


# --- the same function again ------------------------------------------------------------------------------


async def test_two_tenants_and_two_guards_have_functions_of_their_own(guard: StampedeGuard) -> None:
    def make(of: StampedeGuard, whose: str) -> Any:
        @of.locked_cache(ttl=60)
        async def read() -> str:
            return whose

        return read

    guards = [guard, guard.within("acme"), guard.within("globex"), StampedeGuard(MemoryStore())]
    cached = [make(each, str(number)) for number, each in enumerate(guards)]
    assert [await read() for read in cached] == ["0", "1", "2", "3"]


def test_one_function_decorated_again_with_the_same_options_is_one(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    def by_id(id: int) -> int:
        return id

    for _ in range(3):
        guard.locked_cache(ttl=60, key=by_id, tags=("all",), context=(TENANT,))(read)
        guard.locked_cache(ttl=60, name="lambda", key=lambda id: id, should_cache=bool)(read)
        guard.locked_cache(ttl=60, name="partial")(functools.partial(read, 7))
    assert len(functions_of(guard)) == 3


def in_a_request(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int, *, deep: bool = False) -> str:
        return f"{id} {deep}"

    return read


def in_a_request_by_name(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60, name=f"report of {user}")
    async def read(id: int) -> str:
        return f"{user} {id}"

    return read


def in_a_request_by_a_name_that_is_made_there(guard: StampedeGuard, user: str) -> Any:
    whose = user.upper()

    @guard.locked_cache(ttl=60, name=f"report of {whose}")
    async def read(id: int) -> str:
        return f"{whose} {id}"

    return read


def in_a_request_wrapped(guard: StampedeGuard, user: str) -> Any:
    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @guard.locked_cache(ttl=60)
    @timed
    async def read(id: int) -> int:
        return id

    return read


def in_a_request_recursive(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def fibonacci(n: int) -> int:
        return n if n < 2 else await fibonacci(n - 1) + await fibonacci(n - 2)

    return fibonacci


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (in_a_request, 1),
        (in_a_request_by_name, 2),
        (in_a_request_by_a_name_that_is_made_there, 2),
        (in_a_request_wrapped, 1),
        (in_a_request_recursive, 1),
    ],
)
def test_a_function_made_in_each_request_is_one_where_nothing_about_it_can_differ(
    make: Callable[..., Any], names: int, guard: StampedeGuard
) -> None:
    seen = weakref.WeakSet[Any]()
    for user in ["alice", "bob"] * 50:
        seen.add(make(guard, user).__wrapped__)
    collect()
    assert len(functions_of(guard)) == names
    assert not seen, "none of them is kept"


def test_one_that_sees_its_request_is_an_error_at_the_second_one(guard: StampedeGuard) -> None:
    class Request:
        user = "alice"

    def handler(request: Request) -> None:
        @guard.locked_cache(ttl=60)
        async def inner() -> str:
            return request.user

    request = Request()
    handler(request)
    kept = weakref.ref(request)
    del request
    collect()
    assert kept() is None, "what a function sees is not kept alive"
    with pytest.raises(KeyPartError, match="make it a parameter"):
        handler(Request())


def test_many_tenants_may_have_the_same_function_for_little_memory(guard: StampedeGuard) -> None:
    async def read(id: int) -> int:
        return id

    for number in range(2000):
        guard.within(f"tenant-{number}").locked_cache(ttl=60)(read)
    assert len(functions_of(guard)) == 2000
    assert len({id(definition) for definition in definitions_of(guard)}) == 1


def test_no_name_is_forgotten_so_there_is_an_end_to_them(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_NAMES >= 10_000
    monkeypatch.setattr("stampede_guard.api.identity.registry.MOST_NAMES", 100)
    for number in range(100):
        guard.locked_cache(ttl=60, name=f"n{number}")(lambda: 1)
    with pytest.raises(KeyPartError, match="This is the limit"):
        guard.locked_cache(ttl=60, name="n100")(lambda: 1)
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        guard.locked_cache(ttl=60, name="n0")(lambda: 2)


# --- reloading ----------------------------------------------------------------------------------------------

Write = Callable[..., Path]
HEAD = "from identity_guard import guard\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: StampedeGuard) -> Iterator[Write]:
    """Modules of a user's, and one with the guard of the test, which is not reloaded."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a rewritten file may have the same second
    held = types.ModuleType("identity_guard")
    held.guard = guard  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "identity_guard", held)
    before = set(sys.modules)

    def written(text: str, name: str = "shop_module") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(HEAD + textwrap.dedent(text), "utf-8")
        importlib.invalidate_caches()
        return path

    yield written
    for name in set(sys.modules) - before:
        del sys.modules[name]


READ = """
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return f"order {id}"
    """
READ_MOVED = """
    import math

    def helper():
        return math.pi

    @guard.locked_cache(ttl=300, version=2)
    async def read(id: int, lang: str = "en") -> str:
        return f"the order {id} {lang}"
    """
FACTORY = """
    def timed(function):
        async def wrapper(*args):
            return await function(*args)
        return wrapper

    def crud(table):
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{table} {id}"
        return read

    class Order: pass

    def of(model):
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> str:
            return f"{model} {id}"
        return read

    @guard.locked_cache(ttl=60)
    @timed
    async def late(id): return id

    class Repository:
        @guard.locked_cache(ttl=60, unkeyed=("self",))
        async def read(self, id: int) -> str:
            return super().__repr__()

    orders, models = crud("orders"), of(Order)
    """


def reloaded(name: str) -> None:
    importlib.reload(sys.modules[name])


def deleted_and_imported(name: str) -> None:
    del sys.modules[name]
    importlib.import_module(name)


def loaded_from_its_file(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, sys.modules[name].__file__ or "")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("again", [reloaded, deleted_and_imported, loaded_from_its_file])
@pytest.mark.parametrize(
    ("text", "edited"), [(READ, READ), (READ, READ_MOVED), (FACTORY, FACTORY), (READ_MOVED, FACTORY + READ)]
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_module_that_runs_again_defines_no_second_functions(
    again: Callable[[str], None], text: str, edited: str, kept: bool, write: Write, guard: StampedeGuard
) -> None:
    write(text)
    old = importlib.import_module("shop_module")
    known = vars(old).copy() if kept else None
    for _ in range(2):
        write(edited)
        again("shop_module")
        collect()
    write(text)
    again("shop_module")
    assert known is None or known


@pytest.mark.parametrize("again", [reloaded, deleted_and_imported])
def test_so_it_is_for_what_a_module_makes_with_the_factories_of_another(
    again: Callable[[str], None], write: Write
) -> None:
    write(
        """
        def crud(model):
            @guard.locked_cache(ttl=60)
            async def read(id: int) -> str:
                return f"{model} {id}"
            return read
        """,
        "shop_factory",
    )
    write("from shop_factory import crud\nclass Order: pass\norders = crud(Order)\n")
    importlib.import_module("shop_module")
    again("shop_module")
    again("shop_module")
    write("from shop_factory import crud\nclass User: pass\nusers = crud(User)\n", "shop_other")
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        importlib.import_module("shop_other")


def test_two_functions_of_one_name_are_found_in_a_reloaded_module_too(write: Write) -> None:
    write(READ)
    module = importlib.import_module("shop_module")
    write(READ + READ)
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        importlib.reload(module)


def test_two_functions_of_one_name_in_a_module_are_two_though_it_was_imported_by_one_that_is_reloaded(
    write: Write,
) -> None:
    write("@guard.locked_cache(ttl=60, name='read')\nasync def one(): return 1\n", "shop_one")
    write("import shop_one")
    module = importlib.import_module("shop_module")
    write("@guard.locked_cache(ttl=60, name='read')\nasync def two(): return 2\n", "shop_two")
    write("import shop_one, shop_two")
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        importlib.reload(module)


def test_a_module_of_the_same_name_in_another_folder_is_another(write: Write, tmp_path: Path) -> None:
    path = write(READ)
    importlib.import_module("shop_module")
    other = tmp_path / "other"
    other.mkdir()
    path.rename(other / path.name)
    del sys.modules["shop_module"]
    sys.path.insert(0, str(other))
    try:
        with pytest.raises(KeyPartError, match="two functions of one guard"):
            importlib.import_module("shop_module")
    finally:
        sys.path.remove(str(other))


def plugin(path: Path, text: str) -> types.ModuleType:
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("plugin", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "of_it", [lambda module: module, lambda module: module.Rates, lambda module: module.rates]
)
def test_modules_of_one_name_that_a_program_loads_itself_are_different(
    of_it: Callable[[types.ModuleType], Any], guard: StampedeGuard, tmp_path: Path
) -> None:
    def cached(rates: Any) -> Any:
        @guard.locked_cache(ttl=60)
        async def rate(currency: str) -> float:
            return rates  # type: ignore[no-any-return]

        return rate

    text = "class Rates: pass\ndef rates(): pass\n"
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
    north = plugin(tmp_path / "north" / "plugin.py", text)
    south = plugin(tmp_path / "south" / "plugin.py", text)
    cached(of_it(north))
    cached(of_it(north))
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        cached(of_it(south))


def test_a_bare_function_of_a_reloaded_module_is_one(write: Write, bare: None) -> None:
    write("from stampede_guard import locked_cache\n@locked_cache(ttl=60)\ndef read(id): return id\n")
    old = importlib.import_module("shop_module").read
    new = importlib.reload(sys.modules["shop_module"]).read
    for order in ((old, new), (new, old)):
        configure(StampedeGuard(MemoryStore()))
        assert len({read.key(7).partition(":")[2] for read in order}) == 1


def cell(namespace: dict[str, Any], number: int, text: str) -> None:
    """As IPython does: each statement for itself, in a file that does not exist."""
    import ast

    for statement in ast.parse(textwrap.dedent(text)).body:
        exec(compile(ast.Module([statement], []), f"<ipython-input-{number}>", "exec"), namespace)


@pytest.fixture
def notebook(guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    vars(module)["guard"] = guard
    return vars(module)


def test_a_notebooks_cell_may_be_run_again_and_edited(notebook: dict[str, Any]) -> None:
    for number, text in enumerate([READ, READ, READ_MOVED, READ]):
        cell(notebook, number, text)


def test_a_notebooks_cell_that_makes_functions_may_be_run_again(notebook: dict[str, Any]) -> None:
    made = FACTORY.rpartition("orders, models")[0]
    for number in (0, 10):
        cell(notebook, number, made)
        cell(notebook, number + 1, 'orders = crud("orders")')
        cell(notebook, number + 2, 'orders = crud("orders")')
        cell(notebook, number + 3, "models = of(Order)")


def test_a_notebooks_factory_may_be_edited_and_run_again(notebook: dict[str, Any]) -> None:
    cell(notebook, 0, FACTORY)
    cell(
        notebook, 1, FACTORY.replace("{table} {id}", "{table}: {id}").replace("await fun", "1 and await fun")
    )
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        cell(notebook, 2, 'users = crud("users")')


def test_one_factory_that_makes_either_of_two_is_not_taken_for_an_edited_one(
    notebook: dict[str, Any],
) -> None:
    either = """
    def make(kind):
        if kind == 1:
            @guard.locked_cache(ttl=60)
            async def read(): return "one"
        else:
            @guard.locked_cache(ttl=60)
            async def read(): return "two"
    """
    cell(notebook, 0, either)
    cell(notebook, 1, "make(1)")
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        cell(notebook, 2, "make(2)")


def test_two_cells_that_make_different_functions_of_one_name_are_an_error(notebook: dict[str, Any]) -> None:
    cell(notebook, 0, FACTORY)
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        cell(notebook, 1, 'users = crud("users")')


def test_an_application_made_anew_for_each_test_is_one_if_its_endpoints_see_nothing_of_it(
    guard: StampedeGuard,
) -> None:
    def create_app() -> FastAPI:
        app = FastAPI()

        @app.get("/read")
        @guard.locked_cache(ttl=60, unkeyed=("db",))
        async def read(id: int, db: Any = Depends(default_guard)) -> int:
            return id

        return app

    create_app()
    create_app()


# --- __main__ ------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from stampede_guard import StampedeGuard
guard = StampedeGuard.from_url(sys.argv[1] if len(sys.argv) > 1 else "memory://")

@guard.locked_cache(ttl=60)
async def read(id: int) -> int:
    return id

if __name__ == "__main__":
    print(read.key(7))
"""


def output(*command: str, cwd: Path, text: str | None = None) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, input=text, env=environment, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_script_is_called_by_its_file_and_a_module_by_its_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "shop").mkdir(parents=True)
        (tmp_path / folder / "load.py").write_text(PROGRAM, "utf-8")
        for file in ("__init__", "__main__", "load"):
            (tmp_path / folder / "shop" / f"{file}.py").write_text(
                PROGRAM if file != "__init__" else "", "utf-8"
            )
    a, b = tmp_path / "a", tmp_path / "b"
    keys = [
        output("load.py", cwd=a),
        output("load.py", cwd=b),
        output(str(b / "load.py"), cwd=a),
        output("shop/load.py", cwd=a),
        output("-m", "shop.load", cwd=a),
        output("-m", "shop.load", cwd=b),
        output("-m", "shop", cwd=a),
        output("shop", cwd=a),
        output("-m", "cProfile", "-o", str(tmp_path / "profile"), "load.py", cwd=a),
        output("-c", "import load; print(load.read.key(7))", cwd=a),
    ]
    names = [key.split(":")[1] for key in keys]
    assert [name.partition("@")[0] for name in names] == [
        "load", "load", "load", "load", "shop.load.read", "shop.load.read", "shop.__main__.read", "__main__", "load",
        "load.read",
    ]  # fmt: skip
    assert names[1] == names[2] and names[0] == names[8]
    assert len({names[0], names[1], names[3]}) == 3
    assert all(name.endswith(".read") for name in names)
    assert not any(name.startswith("__main__.") for name in names)


SPAWNING = (
    PROGRAM.replace("import asyncio, sys", "import asyncio, multiprocessing, sys").rpartition("if __name__")[
        0
    ]
    + """
def child(pipe):
    pipe.send(read.key(7))

if __name__ == "__main__":
    keys = [read.key(7)]
    for method in ("spawn", "fork", "forkserver"):
        context = multiprocessing.get_context(method)
        mine, its = context.Pipe()
        process = context.Process(target=child, args=(its,))
        process.start()
        assert mine.poll(60)
        keys.append(mine.recv())
        process.join()
    print(len(set(keys)), keys[0])
"""
)


@pytest.mark.parametrize("command", [("load.py",), ("-m", "load")])
def test_the_processes_that_a_script_starts_have_its_names(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text(SPAWNING, "utf-8")
    said = output(*command, cwd=tmp_path)
    assert said.startswith("1 default:load"), said


def test_what_has_no_file_is_refused_where_others_see_the_store_and_fine_in_memory(
    tmp_path: Path, valkey_url: str
) -> None:
    program = PROGRAM.rpartition("if __name__")[0] + "print(read.key(7))"
    for command in (("-c", program), ("-",), ("-i", "-q", "-")):
        text = None if command[0] == "-c" else program
        assert ":__main__.read:" in output(*command, cwd=tmp_path, text=text)
        shared = program.replace("memory://", valkey_url)
        refused = output(
            *(shared if part == program else part for part in command), cwd=tmp_path, text=text and shared
        )
        if command[0] != "-i":
            assert "KeyPartError" in refused and "name='...'" in refused
        named = shared.replace("ttl=60", "ttl=60, name='shop.read'")
        given = [named if part == program else part for part in command]
        assert ":shop.read:" in output(*given, cwd=tmp_path, text=text and named)


def test_a_bare_function_without_a_file_is_refused_by_the_guard_that_others_see(
    tmp_path: Path, valkey_url: str
) -> None:
    program = (
        "import os\nfrom stampede_guard import locked_cache\n"
        "@locked_cache(ttl=60)\ndef read(id: int) -> int: return id\nprint(read.key(7))"
    )
    assert ":__main__.read:" in output("-W", "ignore", "-c", program, cwd=tmp_path)
    shared = program.replace("import os", f"import os; os.environ['REDIS_URL'] = {valkey_url!r}")
    assert "KeyPartError" in output("-c", shared, cwd=tmp_path)


def test_a_function_of_no_module_must_be_given_a_name(guard: StampedeGuard) -> None:
    names: dict[str, Any] = {}
    exec("async def read(id: int) -> int: return id", names)
    read = names["read"]
    read.__module__ = None
    with pytest.raises(KeyPartError, match="belongs to no module"):
        guard.locked_cache(ttl=60)(read)
    assert guard.locked_cache(ttl=60, name="shop.read")(read).key(7)


# --- names that cannot be ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["=report", "=", "#project:7", "http1:https://shop/", "http:x", "http2:", "http", "*", "modes", "modes:x",
     "stampede-guard-doctor:1", "", " ", "a\nb", "a\0", "a\x7fb", "\ud800"],
)  # fmt: skip
@pytest.mark.parametrize("decorator", ["locked_cache", "cached_many"])
def test_a_name_that_the_library_has_for_itself_is_refused(
    name: str, decorator: str, guard: StampedeGuard
) -> None:
    async def read(ids: list[int]) -> dict[int, int]:
        return {}

    with pytest.raises(KeyPartError, match=r"name='shop\.quality'"):
        getattr(guard, decorator)(ttl=60, name=name)(read)
    with pytest.raises(KeyPartError, match=r"name='shop\.quality'"):
        from stampede_guard import cached_many

        {"locked_cache": locked_cache, "cached_many": cached_many}[decorator](ttl=60, name=name)(read)


def test_names_that_only_resemble_each_other_are_apart(guard: StampedeGuard) -> None:
    names = [
        "a:b",
        "a%3Ab",
        "a.b",
        "a.<locals>.b",
        "a b",
        "a+b",
        "A.b",
        "httpx.read",
        "http.read",
        "a~b",
        "modest",
    ]
    keys = {guard.locked_cache(ttl=60, name=name)(lambda: 1).key() for name in names}
    assert len(keys) == len(names)


async def test_no_key_of_get_or_compute_is_that_of_a_function(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=60, name="shop.read")
    async def read(id: int) -> str:
        return "the function's"

    async def compute() -> str:
        return "the key's"

    assert await read(7) == "the function's"
    own = read.key(7).removeprefix("t:")
    assert await guard.get_or_compute(own, compute) == "the key's"
    assert await guard.get_or_compute(f"shop.read:{own}", compute) == "the key's"
    with pytest.raises(Misuse, match="doctor"):
        await guard.get_or_compute("stampede-guard-doctor:1", compute)
    with pytest.raises(Misuse, match="doctor"):
        guard.single("stampede-guard-doctor:7")


# --- what can be decorated --------------------------------------------------------------------------------


def here() -> int:
    return threading.get_ident()


def asyncify(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await anyio.to_thread.run_sync(functools.partial(function, *args, **kwargs))

    return wrapper


class SyncToAsync:
    """As asgiref has it: an object that says it is a coroutine function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)
        mark = getattr(asyncio.coroutines, "_is_coroutine", None)
        if mark is not None:
            self._is_coroutine = mark
        else:
            inspect.markcoroutinefunction(self)  # type: ignore[attr-defined]

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(self.function, *args, **kwargs)


class AsyncToSync:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(self.function(*args, **kwargs))


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def plain(id: int) -> tuple[int, int]:
    return id, here()


async def coroutine(id: int) -> tuple[int, int]:
    return id, here()


async def two(unit: str, id: int) -> tuple[int, int]:
    return id, here()


async def named(id: int, *, unit: str) -> tuple[int, int]:
    return id, here()


def plain_two(unit: str, id: int) -> tuple[int, int]:
    return id, here()


class Loader:
    async def __call__(self, id: int) -> tuple[int, int]:
        return id, here()

    async def read(self, id: int) -> tuple[int, int]:
        return id, here()

    def plain(self, id: int) -> tuple[int, int]:
        return id, here()


class PlainLoader:
    def __call__(self, id: int) -> tuple[int, int]:
        return id, here()


def collected(function: Callable[..., AsyncIterator[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> Any:
        async for each in function(*args):
            return each

    return wrapper


async def generated(id: int) -> AsyncIterator[tuple[int, int]]:
    yield id, here()


async def unannotated(id: int):  # type: ignore[no-untyped-def]
    yield id, here()


class Disguised:
    """`inspect` takes it for a function, and finds no parameters in its code. So it is with mocks of Python 3.11.2."""

    __name__ = "disguised"
    __defaults__ = ()
    __kwdefaults__: dict[str, Any] = {}  # noqa: RUF012
    __annotations__: dict[str, Any] = {}
    __code__ = mock.NonCallableMock(spec_set=types.CodeType, co_flags=inspect.CO_COROUTINE)

    async def __call__(self, id: int) -> tuple[int, int]:
        return id, here()


class Static:
    @staticmethod
    async def __call__(id: int) -> tuple[int, int]:
        return id, here()


class OfClass:
    @classmethod
    async def __call__(cls, id: int) -> tuple[int, int]:
        return id, here()


class DisguisedStatic(Disguised):
    @staticmethod
    async def __call__(id: int) -> tuple[int, int]:
        return id, here()


LOADER, PLAIN_LOADER = Loader(), PlainLoader()
ASYNC: dict[str, Any] = {
    "partial": functools.partial(two, "m"),
    "partial by keyword": functools.partial(named, unit="m"),
    "partial of a partial": functools.partial(functools.partial(two), "m"),
    "partial of an object": functools.partial(LOADER),
    "callable object": LOADER,
    "bound method": LOADER.read,
    "asyncify": asyncify(plain),
    "asyncify of a partial": asyncify(functools.partial(plain_two, "m")),
    "sync_to_async": SyncToAsync(plain),
    "run_in_threadpool": functools.partial(run_in_threadpool, plain),
    "wrapper that passes a coroutine on": passing_on(coroutine),
    "wrapper that passes asyncify on": passing_on(asyncify(plain)),
    "coroutine around a generator": collected(unannotated),
    "mock": mock.AsyncMock(side_effect=coroutine),
    "mock with a spec": mock.AsyncMock(spec=coroutine, side_effect=coroutine),
    "partial of a mock": functools.partial(mock.AsyncMock(side_effect=coroutine)),
    "object that looks like a function": Disguised(),
    "partial of an object that looks like a function": functools.partial(Disguised()),
    "static call": Static(),
    "partial of a static call": functools.partial(Static()),
    "call of a class": OfClass(),
    "static call of an object that looks like a function": DisguisedStatic(),
}
IN_A_THREAD = {
    "partial of a plain function": functools.partial(plain_two, "m"),
    "plain callable object": PLAIN_LOADER,
    "plain bound method": LOADER.plain,
    "wrapper of a plain function": passing_on(plain),
    "async_to_sync": AsyncToSync(coroutine),
    "lru_cache": functools.lru_cache(plain),
}


@pytest.mark.parametrize("what", ASYNC)
async def test_whatever_gives_a_coroutine_is_awaited(what: str, guard: StampedeGuard) -> None:
    cached: Any = guard.locked_cache(ttl=60)(ASYNC[what])
    assert inspect.iscoroutinefunction(cached)
    id, thread = await cached(7)
    assert id == 7
    outside = ("asyncify", "sync_to_async", "run_in_threadpool")
    assert (thread != here()) == any(word in what for word in outside), "where it computes is its own affair"
    assert await cached(7) == (id, thread)
    assert await cached.invalidate(7) == "done"
    assert (await cached.refresh(7))[0] == 7
    assert (await cached(8))[0] == 8
    await guard.aclose()


@pytest.mark.parametrize("what", IN_A_THREAD)
async def test_whatever_is_plain_computes_in_a_thread(what: str, guard: StampedeGuard) -> None:
    cached: Any = guard.locked_cache(ttl=60)(IN_A_THREAD[what])
    id, thread = await asyncio.to_thread(cached, 7)
    assert id == 7 and thread != here()
    assert await asyncio.to_thread(cached, 7) == (7, thread)
    assert await asyncio.to_thread(cached.invalidate, 7) == "done"
    assert (await asyncio.to_thread(cached, 8))[0] == 8
    await guard.aclose()


@pytest.mark.parametrize("mode", ["on", "off", "bypass", "shadow"])
async def test_what_looks_like_a_coroutine_function_and_is_none_is_a_named_error(
    mode: Any, guard: StampedeGuard
) -> None:
    @functools.wraps(coroutine)
    def wrapper(id: int) -> int:
        return id

    guard.mode = mode
    with pytest.raises(Misuse, match="cannot be awaited"):
        await guard.locked_cache(ttl=60)(wrapper)(7)  # type: ignore[misc]


def lines(id: int) -> Iterator[int]:
    yield id


class Lines:
    def __call__(self, id: int) -> Iterator[int]:
        yield id


@pytest.mark.parametrize(
    "thing",
    [
        Loader,
        lines,
        generated,
        Lines(),
        functools.partial(lines, 7),
        functools.partial(Loader),
        passing_on(lines),
        contextlib.contextmanager(lines),
        functools.partialmethod(plain, 7),
        7,
        "read",
        None,
        functools.lru_cache(coroutine),
        max,
        dict.fromkeys,
        functools.partial(plain, 1, 2, 3),
    ],
    ids=lambda given: type(given).__name__,
)
@pytest.mark.parametrize("decorator", ["locked_cache", "cached_many"])
def test_what_cannot_be_cached_is_a_named_error(thing: Any, decorator: str, guard: StampedeGuard) -> None:
    with pytest.raises(Misuse):
        getattr(guard, decorator)(ttl=60)(thing)


async def test_a_partial_has_what_it_fills_in_in_its_key() -> None:
    guards = [StampedeGuard(MemoryStore(), namespace="t") for _ in range(3)]
    partials = [functools.partial(two, "m"), functools.partial(two, "km"), functools.partial(two, "m")]
    cached = [each.locked_cache(ttl=60)(partial) for each, partial in zip(guards, partials, strict=True)]
    keys = [each.key(7) for each in cached]
    assert keys[0] == keys[2] != keys[1]
    assert all(key.startswith(f"t:{__name__}.two:") for key in keys)


class OfATenant:
    def __init__(self) -> None:
        self.tenant = "one"

    def __cache_key__(self) -> str:
        return self.tenant

    async def __call__(self, id: int) -> str:
        return self.tenant

    async def read(self, id: int) -> str:
        return self.tenant


async def of_tenants(tenants: list[str], id: int) -> str:
    return tenants[-1]


def an_object() -> tuple[Any, Callable[[str], None]]:
    made = OfATenant()
    return made, lambda tenant: setattr(made, "tenant", tenant)


def a_method() -> tuple[Any, Callable[[str], None]]:
    made = OfATenant()
    return made.read, lambda tenant: setattr(made, "tenant", tenant)


def a_partial_of_a_method() -> tuple[Any, Callable[[str], None]]:
    made = OfATenant()
    return functools.partial(made.read), lambda tenant: setattr(made, "tenant", tenant)


def a_partial_of_an_object() -> tuple[Any, Callable[[str], None]]:
    made = OfATenant()
    return functools.partial(made), lambda tenant: setattr(made, "tenant", tenant)


def a_partial_of_a_list() -> tuple[Any, Callable[[str], None]]:
    tenants = ["one"]
    return functools.partial(of_tenants, tenants), tenants.append


def a_partial_of_a_partial() -> tuple[Any, Callable[[str], None]]:
    tenants = ["one"]
    return functools.partial(functools.partial(of_tenants), tenants), tenants.append


class Settings:
    """Its attributes describe it: no text of its own."""

    def __init__(self) -> None:
        self.tenant = "one"


async def of_settings(settings: Settings, id: int) -> str:
    return settings.tenant


def a_partial_of_settings() -> tuple[Any, Callable[[str], None]]:
    made = Settings()
    return functools.partial(of_settings, made), lambda tenant: setattr(made, "tenant", tenant)


def a_partial_of_settings_by_keyword() -> tuple[Any, Callable[[str], None]]:
    made = Settings()

    async def read(id: int, settings: Settings) -> str:
        return settings.tenant

    return functools.partial(read, settings=made), lambda tenant: setattr(made, "tenant", tenant)


@pytest.mark.parametrize(
    "make",
    [
        an_object,
        a_method,
        a_partial_of_settings,
        a_partial_of_settings_by_keyword,
        a_partial_of_a_method,
        a_partial_of_an_object,
        a_partial_of_a_list,
        a_partial_of_a_partial,
    ],
)
async def test_what_a_function_brings_along_may_change_between_calls(
    make: Callable[[], tuple[Any, Callable[[str], None]]], guard: StampedeGuard
) -> None:
    given, change = make()
    cached: Any = guard.locked_cache(name="shop.read")(given)
    assert await cached(1) == "one"
    change("two")
    assert await cached(1) == "two"
    refresh = asyncio.create_task(cached.refresh(1))
    await asyncio.sleep(0)
    change("three")
    await refresh
    assert await cached(1) == "three"


def test_settings_that_change_have_the_same_keys_in_a_process_that_began_with_others() -> None:
    keys = []
    for began_with in ("one", "two"):
        settings = Settings()
        settings.tenant = began_with
        guard = StampedeGuard(MemoryStore(), namespace="t")
        cached = guard.locked_cache(ttl=60)(functools.partial(of_settings, settings))
        settings.tenant = "three"
        keys.append(cached.key(1))
    assert keys[0] == keys[1]


def german(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(product: int, language: str = "de", *, page: int = 1) -> Any:
        return await function(product, language)

    return wrapper


def passed_on(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


async def a_text(product: int, language: str = "en", *, page: int = 1) -> str:
    return f"{product} in {language}"


@pytest.mark.parametrize("decorator", ["locked_cache", "cached_many"])
@pytest.mark.parametrize(
    "wrapped",
    [german(a_text), passed_on(german(a_text)), german(passed_on(a_text))],
)
def test_a_wrapper_with_another_default_than_its_function_is_refused(
    wrapped: Any, decorator: str, guard: StampedeGuard
) -> None:
    for given in (wrapped, functools.partial(wrapped), functools.partial(wrapped, 7)):
        with pytest.raises(Misuse, match=r"'language' of a_text\(\).*another default.*__signature__"):
            getattr(guard, decorator)(ttl=60)(given)


async def test_a_wrapper_that_says_what_its_parameters_are_or_passes_them_on_is_taken(
    guard: StampedeGuard,
) -> None:
    said = german(a_text)
    said.__signature__ = inspect.signature(said, follow_wrapped=False)
    assert await guard.locked_cache(ttl=60, name="said")(said)(7) == "7 in de"
    assert "'de'" in guard.locked_cache(ttl=60, name="said too")(said).key(7)

    assert await guard.locked_cache(ttl=60, name="passing")(passed_on(a_text))(7) == "7 in en"
    filled = functools.partial(german(a_text), language="fr")
    assert await guard.locked_cache(ttl=60, name="filled")(filled)(7) == "7 in fr"


async def test_many_ids_take_partials_and_objects_too(guard: StampedeGuard) -> None:
    async def named(unit: str, ids: list[int]) -> dict[int, str]:
        return {id: f"{id} {unit}" for id in ids}

    class Many:
        async def __call__(self, ids: list[int]) -> dict[int, int]:
            return {id: id for id in ids}

    assert await guard.cached_many(ttl=60)(functools.partial(named, "m"))([7]) == {7: "7 m"}
    assert await guard.cached_many(ttl=60)(Many())([7]) == {7: 7}


async def test_an_endpoint_may_be_a_partial(guard: StampedeGuard) -> None:
    import httpx

    app = FastAPI()
    app.get("/two")(guard.locked_cache(ttl=60)(functools.partial(two, "m")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://t") as client:
        assert (await client.get("/two", params={"id": 7})).json()[0] == 7
        assert (await client.get("/two")).status_code == 422


# --- a key's types: what an invalidation without a type must find ------------------------------------------


class Source:
    """A database with one number."""

    def __init__(self) -> None:
        self.number = 1

    async def read(self) -> int:
        return self.number


async def test_an_invalidation_finds_the_types_of_a_key_however_many_kinds_came_after(
    guard: StampedeGuard,
) -> None:
    source = Source()
    await guard.get_or_compute("report:7", source.read, type=int)
    for number in range(6000):
        await guard.get_or_compute(f"user{number}:7", source.read, type=int)
    source.number = 2
    assert await guard.invalidate("report:7") == "done"
    assert await guard.get_or_compute("report:7", source.read, type=int) == 2
    assert await guard.get_or_compute("user5999:7", source.read, type=int) == 1, "others keep theirs"
    assert await guard.invalidate("user5999:7") == "done"
    assert await guard.get_or_compute("user5999:7", source.read, type=int) == 2
    assert await asyncio.to_thread(guard.sync.invalidate, "user5998:7") == "done"
    assert await guard.get_or_compute("user5998:7", source.read, type=int) == 2
    await guard.aclose()


async def test_an_invalidation_finds_the_types_of_a_tenant_however_many_came_after(
    guard: StampedeGuard,
) -> None:
    source = Source()
    await guard.within("acme").get_or_compute("report:7", source.read, type=int)
    for number in range(1100):
        guard.within(f"tenant{number}")
    assert "acme" not in tenants_of(guard)
    source.number = 2
    assert await guard.within("acme").invalidate("report:7") == "done"
    assert await guard.within("acme").get_or_compute("report:7", source.read, type=int) == 2
    await guard.aclose()


@pytest.mark.parametrize("used_in", ["acme", None])
async def test_what_one_tenant_stores_under_a_type_all_others_drop(used_in: str | None) -> None:
    store, source = MemoryStore(), Source()
    here, there = (StampedeGuard(store, namespace="t") for _ in range(2))
    elsewhere = there.within("globex")
    await elsewhere.get_or_compute("report:7", source.read, type=int)
    await (here.within(used_in) if used_in else here).get_or_compute("report:8", source.read, type=int)
    source.number = 2
    assert await here.within("globex").invalidate("report:7") == "done"
    assert await elsewhere.get_or_compute("report:7", source.read, type=int) == 2
    await here.aclose()
    await there.aclose()


async def test_of_types_without_end_an_invalidation_without_one_is_an_error_and_no_done(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.api.keyed.keytypes.MOST_TYPES", 20)
    source = Source()
    await guard.get_or_compute("report:7", source.read, type=int)
    for number in range(20):
        made = dataclasses.make_dataclass(f"Made{number}", [(f"field{number}", int)])
        await guard.get_or_compute(f"made:{number}", functools.partial(asyncio.sleep, 0, made(7)), type=made)
    with pytest.raises(Misuse, match=r"type=\.\.\."):
        await guard.invalidate("report:7")
    with pytest.raises(Misuse, match=r"type=\.\.\."):
        await asyncio.to_thread(guard.within("acme").sync.invalidate, "report:7")
    source.number = 2
    assert await guard.invalidate("report:7", type=int) == "done"
    assert await guard.get_or_compute("report:7", source.read, type=int) == 2
    await guard.aclose()


async def test_a_plan_is_found_again_without_making_its_codec_anew(
    guard: StampedeGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.api.keyed.plans.MOST_PLANS", 10)
    made = []
    real = codec_for
    monkeypatch.setattr(
        "stampede_guard.api.keyed.plans.codec_for", lambda kind: made.append(kind) or real(kind)
    )
    source = Source()
    for number in range(30):
        await guard.within(f"tenant{number}").get_or_compute(f"user{number}:7", source.read, type=int, ttl=60)
    assert made == [int] and len(plans_of(guard)) == 10
    await guard.aclose()


def with_a_limit(guard: StampedeGuard, limit: int | None = None, *, early: bool = True) -> Any:
    limit = limit or 10
    if limit > 99:
        limit = 99

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> int:
        return id * (limit or 1)

    if not early:
        limit = 7
    return read


def with_a_limit_that_changes(guard: StampedeGuard, limits: tuple[int, ...]) -> Any:
    made = None
    for limit in limits:
        if made is None:

            @guard.locked_cache(ttl=60)
            async def made(id: int) -> int:
                return id * limit  # noqa: B023  # the loop goes on after the decoration: that is the case

    return made


def test_a_variable_that_was_assigned_for_good_is_compared_by_its_value(guard: StampedeGuard) -> None:
    other = StampedeGuard(MemoryStore(), namespace="other")

    def early(guard: StampedeGuard, limit: int | None = None) -> Any:
        limit = limit or 10
        if limit > 99:
            limit = 99

        @guard.locked_cache(ttl=60)
        async def read(id: int) -> int:
            return id * (limit or 1)

        return read

    for limit in (None, 10, None):
        early(guard, limit)
    with pytest.raises(KeyPartError):
        early(guard, 11)
    early(other, 500)
    early(other, 600)
    with_a_limit(guard)
    with pytest.raises(KeyPartError):
        with_a_limit(guard)
    with_a_limit_that_changes(guard, (1, 2))
    with pytest.raises(KeyPartError):
        with_a_limit_that_changes(guard, (1, 3))


def an_application(guard: StampedeGuard, *, inner_ttl: float = 60) -> FastAPI:
    """A factory whose endpoint sees another cached function."""
    app = FastAPI()

    @guard.locked_cache(ttl=inner_ttl)
    async def prices(id: int) -> int:
        return id

    @guard.cached_many(ttl=60)
    async def stocks(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, 1)

    @guard.locked_cache(ttl=60)
    def taxes(id: int) -> int:
        return id

    @app.get("/items/{id}")
    @guard.locked_cache(ttl=60)
    async def item(id: int) -> int:
        return await prices(id) + (await stocks([id]))[id] + len(taxes.__name__)

    return app


def test_an_application_is_made_twice_with_cached_functions_that_see_each_other(guard: StampedeGuard) -> None:
    an_application(guard)
    an_application(guard)
    with pytest.raises(KeyPartError, match="different options"):
        an_application(guard, inner_ttl=30)


def test_what_wraps_a_cached_function_is_another_one(guard: StampedeGuard) -> None:
    """`functools.wraps` copies what a function is marked with."""

    @guard.locked_cache(ttl=60)
    async def prices(id: int) -> int:
        return id

    def in_currency(rate: list[int]) -> Any:
        @functools.wraps(prices)
        async def wrapped(id: int) -> int:
            return rate[0] * await prices(id)

        return wrapped

    def endpoint(load: Any) -> None:
        @guard.locked_cache(ttl=60)
        async def read(id: int) -> int:
            result: int = await load(id)
            return result

    endpoint(in_currency([1]))
    with pytest.raises(KeyPartError, match="two functions"):
        endpoint(in_currency([2]))
