"""Carries out an action: the right, the token, the audit record."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.ops.console.screen import Action, checked
from stampede_guard.ops.fleet.masking import masked_said
from stampede_guard.stores.fleet.telling import tell_operator

if TYPE_CHECKING:
    from starlette.requests import Request

    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["BODY_BYTES", "act", "form_of"]

log = logging.getLogger("stampede_guard.console")

BODY_BYTES = 16_384
MOST_FIELDS = 20


async def form_of(request: Request) -> dict[str, str]:
    """The fields of an URL-encoded form. Raises `Misuse` for anything else."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip()
        != "application/x-www-form-urlencoded"
    ):
        raise Misuse("send a form: application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise Misuse(f"a form has at most {BODY_BYTES} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Misuse("the form cannot be read") from None


async def act(fleet: Fleet, action: Action, form: Mapping[str, str], *, user: str, client: str) -> str:
    """Do it and record it, also if it failed. Returns what was done, in one sentence. Raises `Misuse`, `StoreError`."""
    asked = checked(action.parameters, form)
    try:
        said = await action.do(fleet, {**asked, "by": user})
    except BaseException as error:
        # Also an unknown error, or a request that was cancelled: a part of the action may have been done.
        failed = f"failed: {type(error).__name__}"
        _log(fleet, action, asked, user, client, failed)
        if isinstance(error, Exception):
            await _tell(fleet, action, asked, user, client, failed)
        raise
    _log(fleet, action, asked, user, client, said)
    await _tell(fleet, action, asked, user, client, said)
    return said


def _log(fleet: Fleet, action: Action, asked: Mapping[str, str], user: str, client: str, said: str) -> None:
    # At this level because a program that configures no logging shows it, too. With %r, because parameters are part of
    # what is said: a line end in one of them would begin a false record.
    log.warning(
        "%r at %r used %s %r in namespace %s: %r",
        user or "somebody",
        client,
        action.name,
        dict(asked),
        fleet.namespace,
        said,
    )


async def _tell(
    fleet: Fleet, action: Action, asked: Mapping[str, str], user: str, client: str, said: str
) -> None:
    try:
        await tell_operator(
            (await fleet.reached()).steps,
            fleet.namespace,
            what=action.name,
            function=asked.get("function", ""),
            user=user or "somebody",
            said=said if fleet.shows_names else masked_said(action.name, said),
            client=client,
        )
        fleet.tell_news()
    except (StoreError, Misuse) as error:
        log.warning("the fleet's stream lacks this record: %s", type(error).__name__)
