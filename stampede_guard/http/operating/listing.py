"""Which URLs the HTTP cache has responses for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.api.names import names_stored
from stampede_guard.http.requests.addresses import Addresses, prefix_of, url_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["stored_urls"]


@takes_options("stored_urls")
async def stored_urls(
    guard: StampedeGuard, *, prefix: str = "/", name: str = "stampede_guard"
) -> dict[str, int]:
    """The URLs that `StampedeMiddleware` has stored with this guard, and how many entries each has: variants, users,
    bodies, keys of routes. Fresh and stale ones, and those that are computed right now.

    `prefix`: only those that begin so, as for `purge`. `name`: the middleware's, if it has one. It walks the names
    of the store with SCAN, about a second per million.

    Raises `Misuse`, `StoreUnavailable` and `StoreRefused` as `purge` does.
    """
    wanted, begins = Addresses.of(prefix=prefix), prefix_of(name)
    found: dict[str, int] = {}
    async for entry in names_stored(guard, begins):
        url = url_of(entry, begins)
        if url is not None and wanted.include(entry, begins):
            url = url.removesuffix("?")
            found[url] = found.get(url, 0) + 1
    return dict(sorted(found.items()))
