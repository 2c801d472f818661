"""Drop stored responses by their URL, by the beginning of their URLs, or by a group.

The promise is that of an invalidation: after it has returned, no request that comes later is served an older response.
A URL has more entries than a process can name: the keys of routes, the bodies of requests, what proxies said. So the
names in the store are walked. A computation has a record there from before it begins:

1. It was granted before the walk began: its record is found, and fenced. 2. It was granted later: it is newer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from stampede_guard.api.names import names_stored
from stampede_guard.engine.tasks import together
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.addresses import Addresses, prefix_of
from stampede_guard.http.requests.origin import tag_of_group, tag_of_path
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.engine.engine import Invalidation

__all__ = ["drop", "drop_path", "matching", "purge"]

AT_ONCE = 100


@takes_options("purge")
async def purge(
    guard: StampedeGuard,
    *,
    url: str | None = None,
    prefix: str | None = None,
    tag: str | None = None,
    name: str = "stampede_guard",
) -> Invalidation:
    """Drop the responses that `StampedeMiddleware` has stored with this guard. Give one of `url`, `prefix` and `tag`.

    `url`: one URL with its query, in all variants, for all users, bodies and keys of routes. `prefix`: all URLs that
    begin so. Either is a URL with its host, or a path for all hosts. http and https are the same. `tag`: a group, as
    responses name it in `Cache-Groups`; one command, however many they are. `name`: the middleware's, if it has one.

    `url` and `prefix` walk all names of the store with SCAN, which takes about a second per million: for an operator,
    or a rare change. What changes often needs a group. After `"done"`, no later request is served an older response;
    see `guard.invalidate` for `"pending"`.

    Raises `Misuse` for invalid arguments, `StoreUnavailable` if a server cannot be asked for its names, and
    `StoreRefused` if it denies access.
    """
    if (url is not None) + (prefix is not None) + (tag is not None) != 1:
        raise Misuse("purge takes one of url=, prefix= and tag=")
    if tag is not None:
        return await guard.invalidate_tag(tag_of_group(tag))
    answers = await drop_path(guard, url=url, prefix=prefix)
    async for entries in matching(guard, url=url, prefix=prefix, name=name):
        answers |= await drop(guard, entries)
    return "pending" if "pending" in answers else "done"


async def matching(
    guard: StampedeGuard, *, url: str | None = None, prefix: str | None = None, name: str = "stampede_guard"
) -> AsyncIterator[list[str]]:
    """Names of entries without the namespace, at most 100 at once. Arguments and errors are those of `purge`."""
    wanted, begins = Addresses.of(url=url, prefix=prefix), prefix_of(name)
    part: list[str] = []
    async for entry in names_stored(guard, begins):
        if wanted.include(entry, begins):
            part.append(entry)
        if len(part) == AT_ONCE:
            yield part
            part = []
    if part:
        yield part


async def drop_path(
    guard: StampedeGuard, *, url: str | None = None, prefix: str | None = None
) -> set[Invalidation]:
    """All responses of its path with No-Vary-Search, unless whole paths are named. What is equal to it under a rule
    has another name, and so may a computation under way whose rule is not known yet.
    """
    wanted, engine = Addresses.of(url=url, prefix=prefix), guard.engine
    if not wanted.whole and not wanted.query:
        return set()
    return {await engine.invalidate_tag(engine.prefix + tag_of_path(quote(wanted.path)))}


async def drop(guard: StampedeGuard, entries: list[str]) -> set[Invalidation]:
    """The distinct answers."""
    engine, policy = guard.engine, guard.policy
    return set(await together(engine.invalidate(engine.prefix + entry, policy) for entry in entries))
