"""Which URLs the HTTP cache has responses for."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from stampede_guard.api.names import names_stored
from stampede_guard.http.requests.addresses import Addresses, prefix_of, url_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["first_urls", "stored_urls"]


@takes_options("stored_urls")
async def stored_urls(
    guard: StampedeGuard, *, prefix: str = "/", name: str = "stampede_guard"
) -> dict[str, int]:
    """The URLs that `StampedeMiddleware` has stored with this guard, and how many entries each has: variants, users,
    bodies, keys of routes. Fresh and stale ones, those that are computed right now, and those that were dropped or
    refused a short time ago, until their records expire.

    `prefix`: only those that begin so, as for `purge`. `name`: the middleware's, if it has one. It walks the names
    of the store with SCAN, about a second per million.

    Raises `Misuse`, `StoreUnavailable` and `StoreRefused` as `purge` does.
    """
    return (await first_urls(guard, prefix=prefix, name=name))[0]


async def first_urls(
    guard: StampedeGuard, *, prefix: str, name: str, limit: int | None = None
) -> tuple[dict[str, int], bool]:
    """The same for the first so many URLs in alphabetical order, in memory for so many; and whether there are more."""
    wanted, begins = Addresses.of(prefix=prefix), prefix_of(name)
    found: dict[str, int] = {}
    order: list[str] = []
    more = False
    async for entry in names_stored(guard, begins):
        url = url_of(entry, begins)
        if url is None or not wanted.include(entry, begins):
            continue
        url = url.removesuffix("?")
        if url in found:
            found[url] += 1
            continue
        if limit is not None and len(order) == limit:
            more = True
            if url > order[-1]:
                continue
            # It never returns: those that are kept only become smaller. So the others are counted from their first.
            del found[order.pop()]
        found[url] = 1
        insort(order, url)
    return {url: found[url] for url in order}, more
