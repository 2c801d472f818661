from __future__ import annotations

import asyncio
import contextvars
import itertools
from contextvars import ContextVar
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import assert_same_in_clean_context

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
locale: ContextVar[str] = ContextVar("locale")


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t")


async def test_a_function_that_reads_a_default_is_found_with_the_variable(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def load(project: int) -> str:
        return f"{project} {tenant.get()}"

    tenant.set("acme")
    locale.set("fr")
    with pytest.raises(AssertionError, match=r"it reads tenant, and context= does not name") as caught:
        await assert_same_in_clean_context(load, args=(7,))
    assert "acme" not in str(caught.value)


async def test_a_variable_without_a_default_is_found_by_its_error(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def load() -> str:
        return locale.get()

    locale.set("fr")
    with pytest.raises(AssertionError, match="it reads locale"):
        await assert_same_in_clean_context(load)


async def test_named_variables_and_functions_that_read_none_pass(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300, context=(tenant,))
    async def load(project: int) -> str:
        return f"{project} {tenant.get()}"

    class Shop:
        @guard.locked_cache(ttl=300, unkeyed=("self",), name="sales")
        async def sales(self, day: str) -> str:
            return day

    @guard.locked_cache(ttl=300)
    def plain(project: int) -> int:
        return project

    tenant.set("acme")
    locale.set("fr")
    assert await assert_same_in_clean_context(load, args=(7,)) == "7 acme"
    assert await assert_same_in_clean_context(Shop().sales, kwargs={"day": "mo"}) == "mo"
    assert await assert_same_in_clean_context(plain, args=(7,)) == 7


async def test_a_plain_function_that_reads_a_variable_is_found(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    def load() -> str:
        return tenant.get()

    tenant.set("acme")
    with pytest.raises(AssertionError, match="it reads tenant"):
        await assert_same_in_clean_context(load)


async def test_what_cannot_be_compared_is_said(guard: StampedeGuard) -> None:
    numbers = itertools.count()

    @guard.locked_cache(ttl=300)
    async def load() -> int:
        return next(numbers)

    async def uncached() -> None: ...

    with pytest.raises(Misuse, match="no context variable is set"):
        await asyncio.create_task(assert_same_in_clean_context(load), context=contextvars.Context())
    tenant.set("acme")
    with pytest.raises(Misuse, match="at each call"):
        await assert_same_in_clean_context(load)
    other: Any = uncached
    with pytest.raises(Misuse, match="not a cached function"):
        await assert_same_in_clean_context(other)
