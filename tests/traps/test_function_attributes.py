"""Two functions of one name that differ only in an attribute of a function are two."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stampede_guard import KeyPartError, StampedeGuard
from stampede_guard.api.identity.sameness import Parts
from stampede_guard.stores.memory import MemoryStore
from tests.support.heap import collect
from tests.support.inside import functions_of

ROWS = {"users": {7: "ann"}, "orders": {7: "3 apples"}}
Make = Callable[[StampedeGuard, str], Any]


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t")


def its_own_attribute(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[read.table][id]  # type: ignore[attr-defined]

    read.table = table  # type: ignore[attr-defined]
    return read


def its_own_attribute_that_the_caller_sets(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[read.table][id]  # type: ignore[attr-defined]

    return read


def its_own_attribute_read_by_name(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[vars(read)["table"]][id]

    return read


def its_own_attribute_read_further_inside(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return next(ROWS[read.table][at] for at in [id])  # type: ignore[attr-defined]

    read.table = table  # type: ignore[attr-defined]
    return read


def its_own_attribute_set_before(guard: StampedeGuard, table: str) -> Any:
    async def read(id: int) -> str:
        return ROWS[table_of()][id]

    def table_of() -> str:
        return "users"

    read.table = table  # type: ignore[attr-defined]
    return guard.locked_cache(ttl=60)(read)


def its_own_attribute_in_a_batch(guard: StampedeGuard, table: str) -> Any:
    @guard.cached_many(ttl=60)
    async def read(ids: list[int]) -> dict[int, str]:
        return {id: ROWS[read.table][id] for id in ids}  # type: ignore[attr-defined]

    read.table = table  # type: ignore[attr-defined]
    return read


def its_own_attribute_in_a_plain_function(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60)
    def read(id: int) -> str:
        return ROWS[read.table][id]  # type: ignore[attr-defined]

    read.table = table  # type: ignore[attr-defined]
    return read


def a_helpers_attribute(guard: StampedeGuard, table: str) -> Any:
    def settings() -> None: ...

    settings.table = table  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[settings.table][id]  # type: ignore[attr-defined]

    return read


def a_helpers_attribute_read_by_a_function_of_the_module(guard: StampedeGuard, table: str) -> Any:
    def settings() -> None: ...

    settings.table = table  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[vars(settings)["table"]][id]

    return read


def a_helpers_attribute_set_later(guard: StampedeGuard, table: str) -> Any:
    def settings() -> None: ...

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[settings.table][id]  # type: ignore[attr-defined]

    settings.table = table  # type: ignore[attr-defined]
    return read


def a_helpers_attribute_set_again_later(guard: StampedeGuard, table: str) -> Any:
    def settings() -> None: ...

    settings.table = ""  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[settings.table][id]  # type: ignore[attr-defined]

    settings.table = table  # type: ignore[attr-defined]
    return read


def a_helpers_default_set_later(guard: StampedeGuard, table: str) -> Any:
    def table_of(name: str = "") -> str:
        return name

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[table_of()][id]

    table_of.__defaults__ = (table,)
    return read


def a_helpers_attribute_set_by_another_function(guard: StampedeGuard, table: str) -> Any:
    def settings() -> None: ...

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[vars(settings).get("table", "users")][id]

    setattr(settings, "table", table)  # noqa: B010
    read.settings = settings  # type: ignore[attr-defined]  # it lives as long as the function
    return read


def the_attribute_of_a_cached_helper(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60, name="rows")
    async def rows() -> None: ...

    rows.table = table  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[rows.table][id]  # type: ignore[attr-defined]

    return read


def the_attribute_of_a_cached_helper_set_later(guard: StampedeGuard, table: str) -> Any:
    @guard.locked_cache(ttl=60, name="rows")
    async def rows() -> None: ...

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return ROWS[rows.table][id]  # type: ignore[attr-defined]

    rows.table = table  # type: ignore[attr-defined]
    return read


def an_attribute_of_the_function_that_makes_the_key(guard: StampedeGuard, table: str) -> Any:
    def by_id(id: int) -> int:
        return id

    by_id.table = table  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60, key=by_id)
    async def read(id: int) -> str:
        return ROWS["users"][id]

    return read


@pytest.mark.parametrize(
    "make",
    [
        its_own_attribute, its_own_attribute_that_the_caller_sets, its_own_attribute_read_by_name,
        its_own_attribute_read_further_inside, its_own_attribute_set_before, its_own_attribute_in_a_batch,
        its_own_attribute_in_a_plain_function, a_helpers_attribute,
        a_helpers_attribute_read_by_a_function_of_the_module, a_helpers_attribute_set_later,
        a_helpers_attribute_set_again_later, a_helpers_default_set_later, the_attribute_of_a_cached_helper,
        the_attribute_of_a_cached_helper_set_later, an_attribute_of_the_function_that_makes_the_key,
    ],
)  # fmt: skip
@pytest.mark.parametrize("kept", [True, False])
def test_two_functions_that_differ_in_an_attribute_are_two(
    make: Make, kept: bool, guard: StampedeGuard
) -> None:
    first = make(guard, "users")
    if not kept:
        del first
        collect()
    with pytest.raises(KeyPartError, match="name='"):
        make(guard, "orders")


def test_a_helper_that_was_changed_after_the_decoration_may_be_changed_again(guard: StampedeGuard) -> None:
    first = a_helpers_attribute_set_by_another_function(guard, "users")
    with pytest.raises(KeyPartError, match="two functions of one guard"):
        a_helpers_attribute_set_by_another_function(guard, "orders")
    assert first.settings.table == "users"


# --- ordinary code ------------------------------------------------------------------------------------------


def with_equal_attributes(guard: StampedeGuard, user: str) -> Any:
    async def read(id: int) -> int:
        return id

    read.roles = ["reader", {"of": "rows"}]  # type: ignore[attr-defined]
    return guard.locked_cache(ttl=60)(read)


def with_a_helper_of_equal_attributes(guard: StampedeGuard, user: str) -> Any:
    def load(id: int) -> int:
        return id

    load.unit = "m"  # type: ignore[attr-defined]

    @guard.locked_cache(ttl=60)
    async def read(id: int) -> str:
        return f"{await asyncio.to_thread(load, id)} {load.unit}"  # type: ignore[attr-defined]

    return read


def with_a_mark_that_a_framework_sets_later(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(id: int) -> int:
        return id

    read.endpoint = user  # type: ignore[attr-defined]  # it cannot see itself
    return read


def that_calls_itself_and_its_methods(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60)
    async def read(n: int) -> int:
        if n == 0:
            await read.invalidate(n)
        return n and sum(await asyncio.gather(*(read(at) for at in range(n)))) + len(read.key(n))

    return read


def with_a_wrapper(guard: StampedeGuard, user: str) -> Any:
    @guard.locked_cache(ttl=60, name="inner")
    async def inner(id: int) -> int:
        return id

    @functools.wraps(inner)
    async def outer(id: int) -> int:
        await inner.invalidate(id)
        return await inner(id)

    return guard.locked_cache(ttl=60, name="outer")(outer)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (with_equal_attributes, 1),
        (with_a_helper_of_equal_attributes, 1),
        (with_a_mark_that_a_framework_sets_later, 1),
        (that_calls_itself_and_its_methods, 1),
        (with_a_wrapper, 2),
    ],
)
def test_functions_whose_attributes_are_equal_are_one(make: Make, names: int, guard: StampedeGuard) -> None:
    kept = [make(guard, user) for user in ("alice", "bob", "alice")]
    del kept[1]
    collect()
    make(guard, "carol")
    assert len(functions_of(guard)) == names


def test_a_module_whose_function_has_attributes_may_run_again(
    guard: StampedeGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "attribute_guard", guard)
    (tmp_path / "attributed_module.py").write_text(
        "import sys\nguard = sys.modules['attribute_guard']\n"
        "@guard.locked_cache(ttl=60)\nasync def read(id: int) -> str: return read.table\nread.table = object()\n"
        "def make(table):\n"
        "    @guard.locked_cache(ttl=60)\n    async def of_table(id: int) -> str: return of_table.table\n"
        "    of_table.table = table\nmake('users')\n"
    )
    module = importlib.import_module("attributed_module")
    try:
        importlib.reload(module)
        assert len(functions_of(guard)) == 2
    finally:
        del sys.modules["attributed_module"]


def test_what_the_decorators_set_is_no_attribute_of_the_users(guard: StampedeGuard) -> None:
    async def one(id: int, db: str = "") -> int:
        return id

    def plain(id: int) -> int:
        return id

    async def many(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, 1)

    made: list[Any] = [
        guard.locked_cache(ttl=60, resources={"db": str})(one),
        guard.locked_cache(ttl=60)(plain),
        guard.locked_cache(ttl=60, in_thread=False, name="here")(plain),
        guard.cached_many(ttl=60)(many),
        guard.locked_cache(ttl=60, name="partial")(functools.partial(plain, 7)),
    ]
    assert [Parts([]).attributes(each) for each in made] == [()] * len(made)
