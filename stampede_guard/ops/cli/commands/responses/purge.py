"""`stampede-guard purge`: drops responses of the HTTP cache, as `stampede_guard.purge` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse
from stampede_guard.http.operating.purging import drop, drop_path, matching
from stampede_guard.http.operating.purging import purge as purged
from stampede_guard.ops.cli.known import told_namespaces
from stampede_guard.ops.cli.options import Json, Namespace, Url, given
from stampede_guard.ops.cli.running import FAILED, answer, run
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at

if TYPE_CHECKING:
    from stampede_guard.engine.engine import Invalidation
    from stampede_guard.stores.console.console import Console

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command()(purge)


def purge(
    address: Annotated[
        str | None, typer.Argument(help="One URL, in all its variants; or its path, on all hosts.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="All URLs, or paths on all hosts, that begin so.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="A group, as responses name it in Cache-Groups.")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="The name of the middleware, if it has one.")
    ] = "stampede_guard",
    url: Url = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """Drop responses of the HTTP cache, and print how many. No request that comes later is served an older one.

    With `--tag` it is one command for all of them, so they are not counted. The namespace of a tenant is
    `shop:tenant`.
    """

    async def work() -> int:
        store = store_from_url(given(url))
        if not store.shared:
            raise Misuse("a memory:// store exists inside one process only: give the URL of a server")
        if (address is not None) + (prefix is not None) + (tag is not None) != 1:
            raise Misuse("purge takes one of an address, --prefix and --tag")
        space, _, tenant = namespace.partition(":")
        async with StampedeGuard(store, namespace=space) as guard:
            owner = guard.within(tenant) if tenant else guard
            if tag is not None:
                told, count = await purged(owner, tag=tag, name=name), None
            else:
                async with console_at(url) as console:
                    told, count = await _dropped(owner, console, address, prefix, name)
        hint = "" if count != 0 or as_json else await _nothing(url, namespace, address or prefix or "")
        if as_json:
            answer({"purged": told} | ({} if count is None else {"responses": count}))
        elif told != "done":
            say("pending: the store is away, run the command again")
        else:
            say(hint or _said(count))
        return 0 if told == "done" else FAILED

    run(work, url=url, as_json=as_json)


async def _dropped(
    guard: StampedeGuard, console: Console, address: str | None, prefix: str | None, name: str
) -> tuple[Invalidation, int]:
    """The answer, and how many responses were stored. A computation under way is dropped without being counted."""
    answers: set[Invalidation] = await drop_path(guard, url=address, prefix=prefix)
    count = 0
    async for entries in matching(guard, url=address, prefix=prefix, name=name):
        views = await console.look([guard.engine.prefix + entry for entry in entries])
        count += sum(view.value is not None for view in views)
        answers |= await drop(guard, entries)
    return "pending" if "pending" in answers else "done", count


def _said(count: int | None) -> str:
    if count is None:
        return "done"
    return f"{count} response{'' if count == 1 else 's'} dropped"


async def _nothing(url: str | None, namespace: str, wanted: str) -> str:
    """What to try next. Lists other namespaces only if this one has no entries."""
    told = f"nothing was stored under {wanted!r} in namespace {namespace!r}"
    if "*" in wanted:
        begin = wanted.partition("*")[0]
        return f"{told}: a * is an ordinary character here; for all that begin so, use --prefix {begin!r}"
    async with console_at(url) as console:
        async for _ in console.names(namespace):
            return told
        return f"{told}, which has no entries. {await told_namespaces(console)}".strip()
