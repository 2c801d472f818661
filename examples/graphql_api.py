"""Strawberry GraphQL: twenty queries at once compute each field once, and each user gets orders of their own.

    python examples/graphql_api.py

needs Redis or Valkey at $REDIS_URL (redis://localhost:6379/0 without it). It prints, the first time:

    20 queries: the products were computed once
    2 loads of makers, for 3 products in 20 queries
    orders: ['ann 2026'] ['bob 2026']
"""

from __future__ import annotations

import asyncio
import os

import strawberry
from strawberry.dataloader import DataLoader

from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url(
    os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="graphql-example"
)
computed: list[str] = []


@guard.cached_many(ttl=300)
async def makers(ids: list[int]) -> dict[int, str]:
    computed.extend(f"maker {id}" for id in ids)
    return {id: f"maker {id}" for id in ids}


async def load_makers(ids: list[int]) -> list[str | None]:
    found = await makers(ids)
    return [found.get(id) for id in ids]


@strawberry.type
class Product:
    id: int

    @strawberry.field
    async def maker(self, info: strawberry.Info) -> str:
        return await info.context["makers"].load(self.id % 2)


@strawberry.type
class Query:
    @strawberry.field
    @guard.locked_cache(ttl=300, unkeyed=("self", "info"))
    async def products(self, info: strawberry.Info, first: int) -> list[Product]:
        computed.append("products")
        return [Product(id=number) for number in range(first)]

    @strawberry.field
    @guard.locked_cache(ttl=300, key=lambda self, info, year: (info.context["user"], year))
    async def orders(self, info: strawberry.Info, year: int) -> list[str]:
        return [f"{info.context['user']} {year}"]


async def main() -> None:
    schema = strawberry.Schema(Query)

    async def asked(query: str, user: str = "nobody") -> dict[str, object]:
        context = {"user": user, "makers": DataLoader(load_fn=load_makers)}
        answer = await schema.execute(query, context_value=context)
        assert answer.errors is None and answer.data is not None
        return answer.data

    async with guard:
        await asyncio.gather(*(asked("{products(first: 3) {id maker}}") for _ in range(20)))
        print(f"20 queries: the products were computed {['never', 'once'][computed.count('products')]}")
        print(f"{len(computed) - 1} loads of makers, for 3 products in 20 queries")
        ann, bob = await asyncio.gather(*(asked("{orders(year: 2026)}", user) for user in ("ann", "bob")))
        print("orders:", ann["orders"], bob["orders"])


asyncio.run(main())
