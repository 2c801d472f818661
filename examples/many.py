"""A function of many ids: what is there is read in one go, what is missing is computed in one call.

    python examples/many.py

prints, the first time:

    the database is asked for [1, 2, 3]
    [1, 2, 3] -> ['apple', 'bread', 'cheese']
    the database is asked for [4, 99]
    [2, 4, 99] -> ['bread', 'dates']
    [99] -> []
    the database is asked for [5, 6, 7]
    three callers at once -> [['eggs', 'figs'], ['figs', 'grapes'], ['eggs', 'grapes']]
    the database is asked for [2]
    after an invalidation -> ['apple', 'bread']
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="many")
STOCK = dict(enumerate(["apple", "bread", "cheese", "dates", "eggs", "figs", "grapes"], 1))


@guard.cached_many(ttl=300, absent_ttl=10)
async def products(ids: list[int]) -> dict[int, str]:
    print("the database is asked for", sorted(ids))
    return {id: STOCK[id] for id in ids if id in STOCK}  # one query: WHERE id = ANY($1)


async def show(ids: list[int]) -> None:
    print(ids, "->", list((await products(ids)).values()))


async def main() -> None:
    async with guard:
        await show([1, 2, 3])
        await show([2, 4, 99])
        await show([99])  # known not to be there
        found = await asyncio.gather(products([5, 6]), products([6, 7]), products([5, 7]))
        print("three callers at once ->", [list(one.values()) for one in found])
        await products.invalidate([2])
        print("after an invalidation ->", list((await products([1, 2])).values()))


if __name__ == "__main__":
    asyncio.run(main())
