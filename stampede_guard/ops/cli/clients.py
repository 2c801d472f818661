"""Which leases a command concerns: the back end by the URL's scheme, and the namespace."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from stampede_guard.errors import UrlError
from stampede_guard.leases.kinds import PostgresLeases, RedisLeases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stampede_guard.leases.client import Leases

__all__ = ["LeasesUrl", "leases_at", "nobody"]

LeasesUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The back end: postgresql://... or redis://... Never printed with its password.",
        envvar=["STAMPEDE_GUARD_LEASES_URL", "STAMPEDE_GUARD_URL", "DATABASE_URL", "REDIS_URL"],
    ),
]
_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
"""A DATABASE_URL may also name a driver of SQLAlchemy."""
_REDIS = re.compile(r"(?:redis|valkey)s?(?:\+cluster|\+sentinel)?://")


@asynccontextmanager
async def leases_at(url: str | None, namespace: str) -> AsyncIterator[Leases]:
    """Raises `UrlError` with instructions if there is no URL."""
    if not url:
        raise UrlError(
            "no back end given: write --url postgresql://user@host/database or --url redis://host:6379/0, or set "
            "$STAMPEDE_GUARD_LEASES_URL"
        )

    client: Leases
    if _POSTGRES.match(url):
        client = PostgresLeases.from_url(url, namespace=namespace)
    elif _REDIS.match(url):
        client = RedisLeases.from_url(url, namespace=namespace)
    else:
        scheme, separator, _ = url.partition("://")
        given = f"not in {scheme!r}" if separator else "and the URL begins with neither and ://"
        raise UrlError(
            f"leases are kept in PostgreSQL (postgresql) or Redis (redis, rediss, valkey), {given}"
        )
    async with client:
        yield client


def nobody(never: str, name: str, namespace: str) -> str:
    """A name copied from a log or from --json begins with its namespace."""
    bare = name.removeprefix(f"{namespace}:")
    hint = "" if bare == name else f"; names are written without their namespace: {bare}"
    return f"{never} {name!r} in namespace {namespace!r}{hint}"
