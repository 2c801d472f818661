"""The secret of the tokens in forms: one for all processes of a namespace, kept in the store, new every twelve hours.

1. A page comes from one worker, and its form goes to another one, in another pod. So a secret of each process would
refuse most forms. 2. The secret alone permits no action. A Redis user who may only read finds it, but a form also needs
the cookie of a session, the same origin, and the consent of `allow`. Who may write in the store needs no form. 3. If
the store keeps none (it is away, read-only, or does not allow it), a process uses one of its own, and only it accepts
its forms: nothing is ever accepted without a secret.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.ops.console.access import is_own_form

if TYPE_CHECKING:
    from starlette.requests import Request

    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["GENERATION", "FormSecrets"]

GENERATION = 12 * 3600
"""Seconds, by the server's clock. The tokens of a generation are accepted during the next one, too. So a token is
accepted for this long at least, less `REMEMBERED`: a process may still make tokens of the generation before."""
SECRET_BYTES = 32
REMEMBERED = 30.0
"""Seconds until the store is asked again: it may have lost the secret, and another process may have made a new one."""
REMEMBERED_AWAY = 5.0


class FormSecrets:
    """Asks the store twice a minute at most, and once more for each form that does not fit."""

    def __init__(self, fleet: Fleet, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fleet = fleet
        self._clock = clock
        self._own = secrets.token_bytes(SECRET_BYTES)
        self._known: list[bytes] = []
        self._until = 0.0

    async def newest(self) -> bytes:
        """For the tokens of a page that is made now."""
        return (await self._accepted())[0]

    async def fit(self, request: Request, token: str, user: str) -> bool:
        """Whether one of our pages sent this form."""
        if is_own_form(request, token, user, await self._accepted()):
            return True
        self._until = 0.0
        return is_own_form(request, token, user, await self._accepted())

    async def _accepted(self) -> list[bytes]:
        """The newest first."""
        if self._clock() >= self._until:
            try:
                self._known, lasts = [*await self._stored(), self._own], REMEMBERED
            except (StoreError, Misuse):
                self._known, lasts = [self._own], REMEMBERED_AWAY
            self._until = self._clock() + lasts
        return self._known

    async def _stored(self) -> list[bytes]:
        servers = (await self._fleet.reached()).servers
        generation = int(await servers.now()) // GENERATION
        newest, before = (f"{self._fleet.namespace}:console:{one}" for one in (generation, generation - 1))
        offered = secrets.token_hex(SECRET_BYTES)
        found = [await servers.agreed(newest, offered, seconds=2 * GENERATION), await servers.kept(before)]
        return [one for one in found if one]
