"""Runs a namespace's scripts on Redis (standalone, sentinel or cluster), through separate connections.

All keys of a namespace are in one slot, `{namespace.leases}`, so that one script can read all that it needs. Leases are
few and change slowly, so one master of a cluster can serve them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from stampede_guard.core.scripts import Message
from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.clustersession import ClusterSession
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.patience import patiently
from stampede_guard.stores.connections.wire import changes_channel, name_bytes
from stampede_guard.stores.protocol import Store
from stampede_guard.values.forks import abandon_in_children

__all__ = ["DEADLINE", "Scripts", "foreign", "lease_script", "reading"]

DEADLINE = 2.0
"""Seconds without an answer until a connection is closed. All requests on it fail then."""
_FOREIGN = re.compile(r"WRONGTYPE|user_script:\d+: ")
"""A key of another type, or a row that a script cannot read."""
FIRST_RETRY = 0.05
LONGEST_RETRY = 5.0
CALL = "\0call\0"
"""The prefix of messages that list called waiters. Other messages contain a lease name in that place."""


def foreign(name: str, why: str) -> StoreRefused:
    """The error if keys hold what none of our scripts wrote."""
    return StoreRefused(
        f"the keys '{{{name}}}:*' hold what this library did not write, so nothing is decided by them: give the other "
        f"program another namespace, and delete what it wrote ({why})"
    )


@contextlib.contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Decode what one of our scripts wrote. `what` it is, for the error if it is something else."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise foreign(name, f"{what}: {type(error).__name__}") from None


def lease_keys(name: str) -> tuple[bytes, ...]:
    tag = b"{%b}:" % name_bytes(name)
    words = (b"rows", b"old", b"life", b"audits", b"queue", b"places", b"until", b"since")
    return tuple(tag + word for word in words)


def lease_script(name: str) -> Script:
    return Script(name, keys_of=lease_keys, package="stampede_guard.leases.redis")


class _Session(Protocol):
    async def run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any: ...

    def hears_changes(self, name: str) -> bool: ...

    async def aclose(self) -> None: ...

    def abandon(self) -> None: ...


class Scripts:
    """`tag` names the slot. Messages of scripts call `on_freed(name)` and `on_called(holder, ahead)`.

    This needs the subscription. `on_gap()` is called when the subscription may have been interrupted. Raises `Misuse`
    for a store that is not Redis.
    """

    def __init__(
        self,
        store: Store,
        tag: str,
        on_freed: Callable[[str], None],
        on_called: Callable[[str, int], None] = lambda holder, ahead: None,
        on_gap: Callable[[], None] = lambda: None,
    ) -> None:
        if not store.shared:
            raise Misuse(
                "RedisLeases need a redis:// URL or a client: write MemoryLeases() for leases in this process's memory"
            )
        self.tag = tag
        self.channel = changes_channel(tag)
        self._store = store
        self._on_freed = on_freed
        self._on_called = on_called
        self._on_gap = on_gap
        self._opened: _Session | None = None
        self._listening = False
        self._closed = False
        self._answered_at = -math.inf
        self._retry: asyncio.TimerHandle | None = None
        abandon_in_children(self)

    @property
    def _session(self) -> _Session:
        if self._closed:
            raise StoreUnavailable("the connections to the store are closed")
        if self._opened is None:
            # Open it only now: earlier there may be no event loop.
            opened: Any = self._store.open_session(self)
            if not hasattr(opened, "run"):
                raise Misuse(f"leases need a Redis store, not {type(self._store).__name__}")
            self._opened = opened
        return self._opened

    async def run(
        self, script: Script, *args: bytes, timeout: float, renewal: bool = False, name: str = ""
    ) -> Any:
        """Run one script and return its answer. `name`: a name in another slot than the leases.

        `timeout`: fail if no request at all was answered for this many seconds. A queue of requests before ours is not
        an outage. Raises `StoreUnavailable` or `StoreRefused`.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._session.run(script, name or self.tag, list(args), renewal=renewal))
        try:
            while not task.done():
                began = loop.time()
                try:
                    async with patiently(timeout):
                        await asyncio.wait({task})
                except TimeoutError:
                    if not task.done() and (renewal or self._answered_at < began):
                        raise StoreUnavailable(f"no answer from the store within {timeout:g} s") from None
            try:
                found = task.result()
            except StoreRefused as error:
                raise self._explained(error, name or self.tag) from None
            self._answered_at = loop.time()
            return found
        finally:
            task.cancel()

    def _explained(self, error: StoreRefused, name: str) -> StoreRefused:
        """With what to do about it, if the keys of the script hold what none of our scripts wrote."""
        if error.may_pass or error.kind != "other" or not _FOREIGN.search(str(error)):
            return error
        return foreign(name.partition("\0")[0], str(error))

    def listen(self) -> None:
        """Subscribe to freed leases and calls, and stay subscribed."""
        if not self._listening:
            self._listening = True
            self._try_to_listen(FIRST_RETRY)

    def _try_to_listen(self, retry: float) -> None:
        """Retry until the subscription is confirmed: a cluster must be discovered first, and a server may be away."""
        self._retry = None
        if self._listening and not self._session.hears_changes(self.tag):
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(retry, self._try_to_listen, min(2 * retry, LONGEST_RETRY))

    @property
    def hears(self) -> bool:
        """Whether the subscription is confirmed."""
        return self._listening and self._opened is not None and self._opened.hears_changes(self.tag)

    @property
    def in_slots(self) -> bool:
        """Whether this is a cluster, where names are in different slots."""
        return isinstance(self._session, ClusterSession)

    @property
    def witness(self) -> bytes:
        """The inbox that shows the server that this process lives. Empty while its subscription is not confirmed."""
        inbox: Callable[[str], bytes] | None = getattr(self._opened, "_inbox_at", None)
        return inbox(self.tag) if inbox is not None and self._listening else b""

    async def aclose(self) -> None:
        self._listening, self._closed = False, True
        if self._retry is not None:
            self._retry.cancel()
        if self._opened is not None:
            await self._opened.aclose()

    def abandon(self) -> None:
        """Called in a forked child. The next step opens a new session, in the event loop that runs then."""
        self._listening = False
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.abandon()

    # --- calls from the session: see `stores.protocol.Listener` -----------------------------------

    def heard(self, name: str, message: Message) -> None:
        """Ignored: no script writes to this inbox."""

    def gap(self) -> None:
        self._on_gap()
        # Also after the first subscription. In a cluster the slot may have another master now: subscribe there again.
        if self._listening and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(0, self._try_to_listen, FIRST_RETRY)

    def changed(self, name: str, fence: int) -> None:
        if not self._listening:
            return
        if not name.startswith(CALL):
            self._on_freed(name)
            return
        for ahead, holder in enumerate(name.removeprefix(CALL).split("\0")):
            self._on_called(holder, ahead)

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        """Ignored: leases retry by themselves, and report their own loss."""

    def not_kept(self, name: str, error: StoreError) -> None:
        """Ignored: leases store no values."""
