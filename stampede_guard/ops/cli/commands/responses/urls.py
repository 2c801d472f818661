"""`stampede-guard urls`: the URLs of stored responses, as `stampede_guard.stored_urls` tells them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse
from stampede_guard.http.operating.listing import first_urls
from stampede_guard.ops.cli.known import told_namespaces
from stampede_guard.ops.cli.options import Json, Namespace, Url, given
from stampede_guard.ops.cli.running import answer, run
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at

__all__ = ["register"]

MOST = 10_000
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


def register(app: typer.Typer) -> None:
    app.command()(urls)


def urls(
    prefix: Annotated[
        str, typer.Argument(help="How they begin: a URL with its host, or a path on all hosts.")
    ] = "/",
    name: Annotated[
        str, typer.Option("--name", help="The name of the middleware, if it has one.")
    ] = "stampede_guard",
    url: Url = None,
    namespace: Namespace = "default",
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=MOST, help="The largest number of URLs, in alphabetical order."),
    ] = 100,
    as_json: Json = False,
) -> None:
    """List the URLs of stored responses, and how many entries each has: variants, users, bodies, keys of routes.

    Entries that are stale, just being computed, or dropped a short time ago count, too. It walks all names with SCAN,
    which does not block the server. Queries are shown: they may contain what users typed. The namespace of a tenant is
    `shop:tenant`.
    """

    async def work() -> int:
        store = store_from_url(given(url))
        if not store.shared:
            raise Misuse("a memory:// store exists inside one process only: give the URL of a server")
        space, _, tenant = namespace.partition(":")
        async with StampedeGuard(store, namespace=space) as guard:
            owner = guard.within(tenant) if tenant else guard
            found, more = await first_urls(owner, prefix=prefix, name=name, limit=limit)
        if as_json:
            listed = [{"url": one, "entries": count} for one, count in found.items()]
            answer({"urls": listed, "more": more})
            return 0
        for one, count in found.items():
            # What a client has sent must not be read as commands by the operator's terminal.
            say(f"{count:>7}  {quote(one, safe=_PRINTABLE)}")
        if more:
            say(f"There are more than {limit}: write how they begin, or a larger --limit.")
        if not found:
            say(await _nothing(url, namespace, prefix))
        return 0

    run(work, url=url, as_json=as_json)


async def _nothing(url: str | None, namespace: str, prefix: str) -> str:
    told = f"nothing is stored under {prefix!r} in namespace {namespace!r}"
    async with console_at(url) as console:
        async for _ in console.names(namespace):
            return told
        return f"{told}, which has no entries. {await told_namespaces(console)}".strip()
