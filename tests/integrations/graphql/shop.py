"""A GraphQL API as people write it: FastAPI, Strawberry, the user in the context, a DataLoader."""

from collections.abc import Awaitable, Callable

import strawberry
from fastapi import FastAPI, Request
from strawberry.dataloader import DataLoader
from strawberry.fastapi import GraphQLRouter

from stampede_guard import StampedeGuard

__all__ = ["Compute", "shop"]

Compute = Callable[[str], Awaitable[None]]
"""Is called by each computation, with its name."""

Context = dict[str, object]


def shop(guard: StampedeGuard, compute: Compute) -> FastAPI:
    @strawberry.type
    class Review:
        stars: int

    @strawberry.type
    class Product:
        id: int
        name: str

        @strawberry.field
        def title(self) -> str:
            return self.name.title()

        @strawberry.field
        @guard.locked_cache(ttl=300)
        async def reviews(self, first: int = 1) -> list[Review]:
            """`self` is in the key: each product has reviews of its own."""
            await compute(f"reviews of {self.id}")
            return [Review(stars=self.id)] * first

        @strawberry.field
        async def maker(self, info: strawberry.Info[Context, None]) -> str:
            loader: DataLoader[int, str] = info.context["makers"]  # type: ignore[assignment]
            return await loader.load(self.id % 3)

    @guard.cached_many(ttl=300)
    async def makers(ids: list[int]) -> dict[int, str]:
        for one in ids:
            await compute(f"maker {one}")
        return {one: f"maker {one}" for one in ids}

    async def load_makers(ids: list[int]) -> list[str]:
        found = await makers(ids)
        return [found[one] for one in ids]

    @strawberry.type
    class Query:
        @strawberry.field
        @guard.locked_cache(ttl=300, unkeyed=("self", "info"))
        async def products(self, info: strawberry.Info[Context, None], first: int) -> list[Product]:
            """Nothing of the request decides the result."""
            await compute("products")
            return [Product(id=number, name=f"product {number}") for number in range(1, first + 1)]

        @strawberry.field
        @guard.locked_cache(ttl=300, key=lambda self, info, year: (info.context["user"], year))
        async def orders(self, info: strawberry.Info[Context, None], year: int) -> list[str]:
            user = info.context["user"]
            await compute(f"orders of {user}")
            return [f"{user} in {year}"]

        @strawberry.field
        @guard.locked_cache(ttl=300)
        async def broken(self) -> int:
            await compute("broken")
            raise LookupError("no such thing")

    async def context(request: Request) -> Context:
        return {"user": request.headers.get("user", "nobody"), "makers": DataLoader(load_fn=load_makers)}

    app = FastAPI()
    guard.install(app)
    schema = strawberry.Schema(Query)
    app.include_router(GraphQLRouter(schema, context_getter=context), prefix="/graphql")
    return app
