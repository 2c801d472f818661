"""Options of most commands: the store, the namespace, and the output format."""

from __future__ import annotations

from typing import Annotated

import typer

from stampede_guard.errors import UrlError

__all__ = ["Json", "Namespace", "Url", "given"]

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The store: a URL for StampedeGuard.from_url. Never printed with its password.",
        envvar=["STAMPEDE_GUARD_URL", "REDIS_URL"],
    ),
]
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", help="The guard's namespace.", envvar="STAMPEDE_GUARD_NAMESPACE"),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


def given(url: str | None) -> str:
    """The URL. Raises `UrlError` with instructions if there is none."""
    if not url:
        raise UrlError(
            "no store given: write --url redis://host:6379/0, or set $STAMPEDE_GUARD_URL or $REDIS_URL"
        )
    return url
