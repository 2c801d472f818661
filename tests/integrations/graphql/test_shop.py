"""Cached resolvers and a DataLoader: one computation for a herd, and no user sees what is another's."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import strawberry

from bench.herd.valkey import free_port
from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, UnsupportedValue
from tests.chaos.journal import Journal
from tests.integrations.graphql.shop import shop
from tests.support import gunicorn
from tests.support.sessions import patient

ROOT = Path(__file__).resolve().parents[3]
BURST = 24
PRODUCTS = "{products(first: 4) {id title maker reviews(first: 2) {stars}}}"
ORDERS = "{orders(year: 2026)}"
REVIEWS = [f"reviews of {one}" for one in (1, 2, 3, 4)]
COMPUTED = dict.fromkeys(["products", *REVIEWS, "maker 0", "maker 1", "maker 2"], 1)


async def asked(client: httpx.AsyncClient, query: str, user: str = "nobody") -> Any:
    answer = await client.post("/graphql", json={"query": query}, headers={"user": user})
    assert answer.status_code == 200, answer.text
    return answer.json()


def products(answer: Any) -> list[tuple[Any, ...]]:
    return [
        (one["id"], one["title"], one["maker"], [review["stars"] for review in one["reviews"]])
        for one in answer["data"]["products"]
    ]


EXPECTED = [(one, f"Product {one}", f"maker {one % 3}", [one, one]) for one in (1, 2, 3, 4)]


async def test_a_herd_of_queries_computes_each_field_once(valkey_url: str, namespace: str) -> None:
    """Two guards on one server are two workers."""
    computed: Counter[str] = Counter()

    async def compute(what: str) -> None:
        computed[what] += 1
        await asyncio.sleep(0)

    guards = [StampedeGuard.from_url(patient(valkey_url), namespace=namespace) for _ in range(2)]
    clients = [
        httpx.AsyncClient(transport=httpx.ASGITransport(shop(guard, compute)), base_url="http://shop")
        for guard in guards
    ]
    answers = await asyncio.gather(*(asked(client, PRODUCTS) for client in clients for _ in range(20)))
    assert all(products(answer) == EXPECTED for answer in answers)
    assert computed == COMPUTED

    users = [f"user {number % 5}" for number in range(20)]
    for client in clients:
        orders = await asyncio.gather(*(asked(client, ORDERS, user) for user in users))
        assert [answer["data"]["orders"] for answer in orders] == [[f"{user} in 2026"] for user in users]
    assert {computed[f"orders of {user}"] for user in users} == {1}

    failed = await asyncio.gather(*(asked(client, "{broken}") for client in clients))
    assert {answer["errors"][0]["message"] for answer in failed} == {"no such thing"}
    for client in clients:
        await client.aclose()
    for guard in guards:
        await guard.aclose()


@pytest.mark.parametrize(
    "info", [strawberry.Info, strawberry.Info[dict[str, int], None]], ids=["plain", "generic"]
)
def test_info_is_refused_as_part_of_a_key_with_the_cure_that_cannot_mix_up_users(info: Any) -> None:
    async def orders(info: Any, year: int) -> list[str]:
        return []

    orders.__annotations__["info"] = info
    guard = StampedeGuard.from_url("memory://", namespace="graphql")
    with pytest.raises(KeyPartError, match="whatever tells two users apart") as refused:
        guard.locked_cache(ttl=300)(orders)
    assert "unkeyed=" not in str(refused.value)


def test_a_type_with_field_resolvers_names_the_cure_where_pydantic_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @strawberry.type
    class Product:
        id: int

        @strawberry.field
        def title(self) -> str:
            return ""

    async def product(id: int) -> object: ...

    product.__annotations__["return"] = Product
    guard = StampedeGuard.from_url("memory://", namespace="graphql")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pydantic", None)
        with pytest.raises(UnsupportedValue, match=r"'title' has no type, .* install pydantic"):
            guard.locked_cache(ttl=300)(product)
    guard.locked_cache(ttl=300)(product)


async def test_eight_workers_compute_once(valkey_url: str, namespace: str, tmp_path: Path) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    child = gunicorn.start(
        "--preload",
        "--worker-class",
        "uvicorn.workers.UvicornWorker",
        "tests.integrations.graphql.worker:app",
        port=port,
        place=tmp_path,
        SHOP_URL=valkey_url,
        SHOP_NAMESPACE=namespace,
        SHOP_JOURNAL=str(journal.path),
    )
    try:
        async with gunicorn.client_of(port) as client, asyncio.timeout(240.0):
            await gunicorn.all_at_work(client, child)
            answers = await asyncio.gather(*(asked(client, PRODUCTS) for _ in range(BURST)))
            assert all(products(answer) == EXPECTED for answer in answers), child.last_words()
            assert {what: len(journal.computations(what)) for what in COMPUTED} == COMPUTED
            users = [f"user {number % 3}" for number in range(BURST)]
            orders = await asyncio.gather(*(asked(client, ORDERS, user) for user in users))
            assert [answer["data"]["orders"] for answer in orders] == [[f"{user} in 2026"] for user in users]
            assert {len(journal.computations(f"orders of {user}")) for user in users} == {1}
    finally:
        child.kill()
