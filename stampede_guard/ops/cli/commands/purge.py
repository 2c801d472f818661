"""`stampede-guard purge`: drops responses of the HTTP cache, as `stampede_guard.purge` does."""

from __future__ import annotations

from typing import Annotated

import typer

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse
from stampede_guard.http.operating.purging import purge as purged
from stampede_guard.ops.cli.options import Json, Namespace, Url, given
from stampede_guard.ops.cli.running import FAILED, answer, run

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
    """Drop responses of the HTTP cache. No request that comes later is served an older one.

    The namespace of a tenant is `shop:tenant`.
    """

    async def work() -> int:
        store = store_from_url(given(url))
        if not store.shared:
            raise Misuse("a memory:// store exists inside one process only: give the URL of a server")
        space, _, tenant = namespace.partition(":")
        async with StampedeGuard(store, namespace=space) as guard:
            owner = guard.within(tenant) if tenant else guard
            told = await purged(owner, url=address, prefix=prefix, tag=tag, name=name)
        if as_json:
            answer({"purged": told})
        else:
            typer.echo(told if told == "done" else "pending: the store is away, run the command again")
        return 0 if told == "done" else FAILED

    run(work, url=url, as_json=as_json)
