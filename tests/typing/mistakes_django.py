"""The same as `mistakes.py`, for Django."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import assert_type

from stampede_guard.integrations.django import locked_cache


@locked_cache(ttl=300, using="default")
def shelf(number: int) -> float: ...


@locked_cache(ttl=300)
async def later(number: int) -> float: ...


async def calls_keep_their_types() -> None:
    assert_type(shelf(7), float)
    assert_type(await later(7), float)

    shelf("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shelf.invalidate()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await later.refresh("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def options() -> None:
    locked_cache(tll=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locked_cache(using=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(mode="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
