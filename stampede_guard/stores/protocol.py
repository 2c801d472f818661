"""The port of a store: the calls that the guard makes, and the events that a store reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, Found, Granted, Message, Outcome
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import Policy
from stampede_guard.stores.fleet.series import Series
from stampede_guard.stores.fleet.stream import HAPPENED, StreamName
from stampede_guard.stores.switch import Switch

__all__ = ["Listener", "Session", "Store"]


class Listener(Protocol):
    """The session's callbacks to the guard: short calls on the event loop that must not raise or block.

    It may also have `answered_within(part, seconds)`: a sample of the time from a command to its answer, up to 20 a
    second for each connection. Without it, nothing is measured.
    """

    def heard(self, name: str, message: Message) -> None:
        """A message for the flight of this entry."""

    def gap(self) -> None:
        """The subscription was lost or came back. Messages may be missing; the inbox's name may have changed."""

    def changed(self, name: str, fence: int) -> None:
        """Copies of this entry's value with a token below the fence are outdated."""

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        """The store now counts as away, or counts as back. `part`: only this one of its servers. `why`: the error,
        if it is known."""

    def not_kept(self, name: str, error: StoreRefused) -> None:
        """A value was published and sent to the waiters, but the store did not keep it."""


class Session(Protocol):
    """A store as one event loop uses it. Names are complete entry names (namespace and key).

    Every method may raise `StoreUnavailable`: the store was not reached or did not answer in time, and may still run
    the command. Every method may raise `StoreRefused`: the store answered and refused.
    """

    @property
    def away(self) -> bool:
        """Whether a part of the store is away. `away_for` decides per entry. Changes only with `breaker_changed`."""

    def away_for(self, name: str) -> bool:
        """Whether the server that holds this entry is away. The guard then sends no command for it."""

    def hears_changes(self, name: str) -> bool:
        """Whether `Listener.changed` is called for changes of this entry. A True holds until the next `gap`.

        The call starts the subscription, so the first answer is usually False.
        """

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        """One round trip, no lock. Each caller has its own future, and cancelling it does not affect other callers.

        Reads of one tick of the event loop travel as one command. A read is registered before that command is sent.
        """

    async def acquire(self, name: str, *, flight: str, policy: Policy, newer_than: int = 0) -> Answer: ...

    async def renew(self, name: str, *, flight: str, token: int, policy: Policy) -> bool: ...

    async def publish(
        self,
        name: str,
        *,
        flight: str,
        grant: Granted,
        outcome: Outcome,
        body: bytes,
        policy: Policy,
        took_ms: int = 0,
        trace: str = "",
    ) -> bool:
        """Returns whether the store keeps it. `took_ms`: the duration of the computation; stored with the value.

        `trace`: the computation's traceparent, for the waiters' messages, or nothing. It is not stored.
        """

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        """Returns the new fence."""

    async def fence(self, name: str) -> tuple[str, int] | None:
        """The record's epoch and fence, or None without a record. Every invalidation changes it. Writes nothing."""

    async def release(self, name: str, *, flight: str) -> bool: ...

    async def admits(self, name: str, grant: Granted) -> bool:
        """Whether a value with this grant could still be stored, apart from a newer value. Changes nothing."""

    async def stamp(self, name: str, *, policy: Policy) -> Granted:
        """A token for a value that a caller has already, for `publish`. It takes no lease and no place."""

    async def fallback(
        self, name: str, *, flight: str, policy: Policy, newer_than: int = 0
    ) -> Found | Granted | Denied: ...

    async def ensure_tag(self, name: str, *, policy: Policy) -> bytes:
        """The version of a tag, or a new one if it has none. It outlives every value that is computed now."""

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        """Like `read`, and together with the reads of the same tick. The version is the body."""

    async def drop_tag(self, name: str) -> None:
        """Give the tag another version from now on."""

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        """The fleet's switches of a namespace, by title. From then on the listener receives a message about
        `{namespace}:modes` for each change."""

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        """Set or remove a switch. Returns how many sessions were notified. Raises `StoreRefused` for too many."""

    async def count(self, namespace: str, series: Series, slot: int, numbers: Mapping[str, int]) -> int:
        """Add numbers to the fields of a slot of the fleet. Returns the server's own slot.

        If that is more than one slot apart, nothing was added. Memory keeps no sums: no other process could ask.
        """

    async def tell(
        self, namespace: str, happenings: Sequence[tuple[int, str]], *, stream: StreamName = HAPPENED
    ) -> None:
        """Add to a stream of what happened in the fleet: milliseconds ago, and a text. Memory keeps no streams."""

    def forget(self, name: str, *, flight: str) -> None:
        """Release soon a lease of an ended flight. A command without an answer may have acquired it."""

    async def aclose(self) -> None:
        """Closes every connection. The session accepts no calls afterwards."""

    def abandon(self) -> None:
        """After a fork, in the child: close the copied sockets without sending anything to the server."""


class Store(Protocol):
    """Opens sessions. Holds nothing that belongs to one event loop."""

    shared: bool
    """Whether other processes share it. False for memory: other workers are not covered."""

    def open_session(self, listener: Listener, *, namespace: str = "") -> Session:
        """A session for the running event loop. Connects when it is first used.

        `namespace`: that of the guard, so that operators can count its processes. Empty for other users.
        """
