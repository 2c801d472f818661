"""The cached functions of the soak, one of each face, and how each is called and invalidated."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from stampede_guard import Policy, StampedeGuard
from stampede_guard.policy import Limits
from tests.soak.journal import Computation, Journal, now
from tests.soak.source import ITEMS, USERS, Source, key_of

__all__ = ["LIMITS", "POLICY", "Functions", "SourceFailed"]

POLICY = Policy(
    ttl=1.5,
    stale_ttl=1.0,
    error_ttl=0.3,
    lease_ttl=1.0,
    wait_timeout=4.0,
    compute_timeout=5.0,
    fallback_timeout=1.0,
    poll_interval=0.3,
)
LIMITS = Limits(drain_timeout=2.0)
L1_SECONDS = 0.5
FAILS, SLOW = 0.04, 0.1
"""Shares of computations."""


class SourceFailed(Exception):
    """The failure of a source; its text is the key."""


class Functions:
    """All of them on one guard. `label` is the process, for the journal."""

    def __init__(self, guard: StampedeGuard, source: Source, journal: Journal, label: str, seed: int) -> None:
        self.guard = guard
        self._source = source
        self._journal = journal
        self._label = label
        self._draw = random.Random(seed)
        self._numbers = itertools.count(1)
        self._tenants = {user: guard.within(user) for user in USERS}
        self._make()

    def _begin(self, key: str, *, fresh_for: float = POLICY.ttl) -> tuple[Computation, float]:
        version = self._source.read(key)
        began = Computation(
            self._label,
            next(self._numbers),
            key,
            now(),
            version,
            fresh_for,
            judged=not key.startswith("aside"),
        )
        self._journal.write(began)
        return began, self._draw.random() * (0.5 if self._draw.random() < SLOW else 0.12)

    def _end(self, began: Computation) -> dict[str, Any]:
        # The failure of one id would be that of every id of its batch.
        failed = self._draw.random() < FAILS and not began.key.startswith("many")
        self._journal.write(replace(began, ended=now(), failed=failed))
        if failed:
            raise SourceFailed(began.key)
        return {"key": began.key, "version": began.version}

    async def _compute(self, key: str) -> dict[str, Any]:
        began, seconds = self._begin(key)
        try:
            await asyncio.sleep(seconds)
        except BaseException:
            self._journal.write(replace(began, ended=now(), failed=True))
            raise
        return self._end(began)

    def _make(self) -> None:
        guard, options = self.guard, {"ttl": POLICY.ttl}

        @guard.locked_cache(name="quality", tags=("item:{item}",), **options)
        async def quality(user: str, item: int) -> dict[str, Any]:
            return await self._compute(key_of("quality", user, item))

        @guard.locked_cache(name="l1", l1_ttl=L1_SECONDS, **options)
        async def l1(user: str, item: int) -> dict[str, Any]:
            return await self._compute(key_of("l1", user, item))

        @guard.locked_cache(name="plain", **options)
        def plain(user: str, item: int) -> dict[str, Any]:
            began, seconds = self._begin(key_of("plain", user, item))
            time.sleep(seconds)
            return self._end(began)

        @guard.locked_cache(name="aside", **options)
        async def aside(user: str, item: int) -> dict[str, Any]:
            return await self._compute(key_of("aside", user, item))

        @guard.cached_many(name="many", **options)
        async def many(ids: list[int], user: str) -> dict[int, dict[str, Any]]:
            made = await asyncio.gather(*(self._compute(key_of("many", user, item)) for item in ids))
            return dict(zip(ids, made, strict=True))

        self.quality, self.l1, self.plain, self.aside, self.many = quality, l1, plain, aside, many

    # --- calling -----------------------------------------------------------------------------------

    def call(self, function: str, user: str, item: int) -> Awaitable[Any]:
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "quality": lambda: self.quality(user, item),
            "l1": lambda: self.l1(user, item),
            "plain": lambda: asyncio.to_thread(self.plain, user, item),
            "many": lambda: self._one_of_many(user, item),
            "report": lambda: self.guard.get_or_compute(
                f"report:{user}:{item}", lambda: self._compute(key_of("report", user, item)), ttl=POLICY.ttl
            ),
            "block": lambda: self._block(user, item),
            "tenant": lambda: self._tenants[user].get_or_compute(
                f"tenant:{item}", lambda: self._compute(key_of("tenant", user, item)), ttl=POLICY.ttl
            ),
            "aside": lambda: self._aside(user, item),
        }
        return ways[function]()

    async def _one_of_many(self, user: str, item: int) -> Any:
        return (await self.many([item], user))[item]

    async def _block(self, user: str, item: int) -> Any:
        async with self.guard.single(f"block:{user}:{item}", ttl=POLICY.ttl) as entry:
            if entry.missing:
                began, seconds = self._begin(key_of("block", user, item))
                try:
                    await asyncio.sleep(seconds)
                    # Before the next holder can begin.
                    self._journal.write(replace(began, ended=now()))
                    await entry.set({"key": began.key, "version": began.version})
                except BaseException:
                    self._journal.write(replace(began, ended=now(), failed=True))
                    raise
        return entry.value

    async def _aside(self, user: str, item: int) -> Any:
        with self.guard.bypassed():
            return await self.aside(user, item)

    def refresh(self, function: Literal["quality", "l1"], user: str, item: int) -> Awaitable[Any]:
        refreshed: Awaitable[Any] = getattr(self, function).refresh(user, item)
        return refreshed

    # --- invalidating ------------------------------------------------------------------------------

    async def invalidate(self, function: str, user: str, item: int) -> str:
        if function in ("quality", "l1", "aside"):
            return str(await getattr(self, function).invalidate(user, item))
        if function == "plain":
            return str(await asyncio.to_thread(self.plain.invalidate, user, item))
        if function == "many":
            return str(await self.many.invalidate([item], user))
        if function == "tenant":
            return str(await self._tenants[user].invalidate(f"tenant:{item}"))
        key = f"{function}:{user}:{item}"
        if self._draw.random() < 0.3:
            return str(await asyncio.to_thread(self.guard.sync.invalidate, key))
        return str(await self.guard.invalidate(key))

    async def invalidate_tag(self, item: int) -> str:
        """Of `quality`, for all users."""
        return str(await self.guard.invalidate_tag(f"item:{item}"))

    async def warm(self) -> None:
        """Each function once, so that `invalidate` knows what kinds of key there are."""
        for user in USERS:
            for item in ITEMS[:1]:
                for function in ("report", "block", "tenant"):
                    with suppress(SourceFailed):
                        await self.call(function, user, item)
