"""A namespace's scripts on whatever Redis it is: standalone, sentinel or cluster, through connections of their own.

Everything of a namespace is in one slot, `{namespace.leases}`: leases are few and slow, and so one script can see all
that it needs. On a cluster one master has them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from stampede_guard.core.scripts import Message
from stampede_guard.errors import Misuse, StoreUnavailable
from stampede_guard.leases.forked import let_go_in_children
from stampede_guard.stores.calls import Script
from stampede_guard.stores.patience import patiently
from stampede_guard.stores.protocol import Store
from stampede_guard.stores.wire import changes_channel, name_bytes

__all__ = ["DEADLINE", "Scripts", "lease_script"]

DEADLINE = 2.0
"""Seconds without an answer after which a connection is given up, and everything on it."""


FIRST_RETRY = 0.05
LONGEST_RETRY = 5.0


def lease_keys(name: str) -> tuple[bytes, ...]:
    tag = b"{%b}:" % name_bytes(name)
    return (tag + b"rows", tag + b"old", tag + b"life", tag + b"audits")


def lease_script(name: str) -> Script:
    return Script(name, keys_of=lease_keys, package="stampede_guard.leases.redis")


class _Session(Protocol):
    async def run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any: ...

    def hears_changes(self, name: str) -> bool: ...

    async def aclose(self) -> None: ...

    def abandon(self) -> None: ...


class Scripts:
    """`tag` names the slot. `on_freed(name)` hears what scripts have told of, while the subscription stands.

    Raises `Misuse` for a store that is not of Redis.
    """

    def __init__(self, store: Store, tag: str, on_freed: Callable[[str], None]) -> None:
        if not store.shared:
            raise Misuse(
                "leases in this process's memory are MemoryLeases: give RedisLeases a redis:// URL or client"
            )
        self.tag = tag
        self.channel = changes_channel(tag)
        self._store = store
        self._on_freed = on_freed
        self._opened: _Session | None = None
        self._listening = False
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        let_go_in_children(self)

    @property
    def _session(self) -> _Session:
        if self._closed:
            raise StoreUnavailable("the connections to the store are closed")
        if self._opened is None:
            # Not before: there may be no event loop yet.
            opened: Any = self._store.open_session(self)
            if not hasattr(opened, "run"):
                raise Misuse(f"leases need a store of Redis itself, not {type(self._store).__name__}")
            self._opened = opened
        return self._opened

    async def run(
        self, script: Script, *args: bytes, timeout: float, renewal: bool = False, name: str = ""
    ) -> Any:
        """The answer of one script. `name`: of another slot than the leases'.

        Raises `StoreUnavailable` or `StoreRefused`.
        """
        try:
            async with patiently(timeout):
                return await self._session.run(script, name or self.tag, list(args), renewal=renewal)
        except TimeoutError:
            raise StoreUnavailable(f"no answer from the store within {timeout:g} s") from None

    def listen(self) -> None:
        """Begin to hear what is freed, and go on with it."""
        if not self._listening:
            self._listening = True
            self._try_to_listen(FIRST_RETRY)

    def _try_to_listen(self, retry: float) -> None:
        """Until the subscription stands: a cluster has to be looked at first, a server may be away."""
        self._retry = None
        if self._listening and not self._session.hears_changes(self.tag):
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(retry, self._try_to_listen, min(2 * retry, LONGEST_RETRY))

    async def aclose(self) -> None:
        self._listening, self._closed = False, True
        if self._retry is not None:
            self._retry.cancel()
        if self._opened is not None:
            await self._opened.aclose()

    def abandon(self) -> None:
        """After a fork, in the child. The next step opens anew, in the event loop that runs then."""
        self._listening = False
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.abandon()

    # --- what the session tells: see `stores.protocol.Listener` -----------------------------------

    def heard(self, name: str, message: Message) -> None:
        """Nobody writes to this inbox."""

    def gap(self) -> None:
        # Also after the first subscription. In a cluster the master may be another one now, on which to listen anew.
        if self._listening and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(0, self._try_to_listen, FIRST_RETRY)

    def changed(self, name: str, fence: int) -> None:
        if self._listening:
            self._on_freed(name)

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        """Leases ask again by themselves, and say so when they are lost."""
