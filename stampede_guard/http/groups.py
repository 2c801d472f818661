"""The groups of stored responses: which versions of their tags a response carries, and whether they still hold.

A response names its groups when the application has already answered. `stampede_guard.engine.tags.late` says how it
gets the versions from before that.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from stampede_guard.engine.engine import BLANK, WINDOW, Engine, Versions, VersionsAsked
from stampede_guard.errors import StoreError
from stampede_guard.http.judging import lifetimes
from stampede_guard.http.requests.origin import tag_of_url
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import StoredResponse

if TYPE_CHECKING:
    from stampede_guard.policy import Policy

__all__ = ["Groups", "VersionsBefore"]

MOST = 4096
"""Entries whose groups a process remembers, to read both in one round trip."""
AT_ONCE = 64


class VersionsBefore(Struct, frozen=True):
    """What was read before the application was called. `moment` is the process's own count of invalidations.

    `window` is None if the store was not asked, or did not answer.
    """

    moment: int
    window: bytes | None = None
    known: dict[str, bytes] = {}


class Groups:
    """`are_used`: whether this process has seen a response with groups."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self._policy = policy
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._window: bytes | None = None
        self.are_used = False

    # --- a hit ---------------------------------------------------------------------------------

    def ask(self, key: str) -> VersionsAsked | None:
        """Asks for the tags that the entry had last, with the entry itself. None: it had none."""
        tags = self._known.get(key)
        return None if tags is None else self._engine.tags.ask(self._complete(tags))

    async def hold(
        self, key: str, stored: StoredResponse, asked: VersionsAsked | None = None, *, local: bool = False
    ) -> bool:
        """Whether none of its groups was invalidated since it was asked for."""
        if not stored.tags:
            return True
        if self._known.get(key) != stored.tags:
            self._remember(key, stored.tags)
            asked = None
        return await self._engine.tags.hold(self._complete(stored.tags), stored.versions, asked, local=local)

    # --- a new response ------------------------------------------------------------------------

    async def before(
        self,
        request: CacheRequest,
        key: str,
        old: StoredResponse | None,
        *,
        bypassed: bool,
        more: tuple[str, ...] = (),
    ) -> VersionsBefore:
        """Call it before the application is called. `more`: further tags that the response may have.

        Until this process has seen a group, one reading of the window is enough for all responses. Afterwards an
        invalidation between two requests would make the second response useless, so each reads the window.
        """
        door = self._engine.tags
        moment = door.moment
        if bypassed:
            return VersionsBefore(moment)
        tags = self._known.get(key, ()) if old is None or not old.tags else old.tags
        if request.is_one_of_many:
            tags = tuple({*tags, tag_of_url(request.target, request.fields, request.route)})
        tags = tuple({*tags, *more}) if more else tags
        if not self.are_used and not tags and self._window is not None:
            return VersionsBefore(moment, self._window)
        try:
            self._window, *versions = await door.ensure(self._complete((WINDOW, *tags)), self._policy)
        except StoreError:
            return VersionsBefore(moment)
        return VersionsBefore(moment, self._window, dict(zip(tags, versions, strict=True)))

    async def marked(self, key: str, made: StoredResponse, before: VersionsBefore) -> StoredResponse:
        """The response with the versions of its tags."""
        if not made.tags:
            return made
        self._remember(key, made.tags)
        versions: Versions | None = None
        if before.window is not None:
            try:
                versions = await self._since(made, before)
            except StoreError:
                versions = None
        return replace(
            made, versions=versions or self._engine.tags.local(self._complete(made.tags), before.moment)
        )

    async def _since(self, made: StoredResponse, before: VersionsBefore) -> Versions:
        door, policy = self._engine.tags, lifetimes(made, self._policy) or self._policy
        now = await door.ensure(self._complete(made.tags), policy)
        unknown = any(tag not in before.known for tag in made.tags)
        if unknown:
            # After the tags, not with them.
            (self._window,) = await door.ensure(self._complete((WINDOW,)), self._policy)
        proven = unknown and self._window == before.window
        return tuple(
            before.known.get(tag, version if proven else BLANK)
            for tag, version in zip(made.tags, now, strict=True)
        )

    # --- an invalidation -----------------------------------------------------------------------

    async def invalidate(self, tags: Iterable[str]) -> None:
        names = self._complete(tuple(tags))
        for place in range(0, len(names), AT_ONCE):
            await asyncio.gather(*map(self._engine.invalidate_tag, names[place : place + AT_ONCE]))

    def _complete(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        prefix = self._engine.prefix
        return tuple([prefix + tag for tag in tags])

    def _remember(self, key: str, tags: tuple[str, ...]) -> None:
        self.are_used = True
        self._known.pop(key, None)
        self._known[key] = tags
        if len(self._known) > MOST:
            self._known.popitem(last=False)
