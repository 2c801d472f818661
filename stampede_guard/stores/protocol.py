"""What the guard needs of a store, and what a store tells the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, Found, Granted, Message, Outcome
from stampede_guard.core.switch import Switch
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import Policy

__all__ = ["Listener", "Session", "Store"]


class Listener(Protocol):
    """How a session speaks to the guard: short calls, made on the event loop, that must not raise or block."""

    def heard(self, name: str, message: Message) -> None:
        """A message for the flight of this entry."""

    def gap(self) -> None:
        """The subscription was lost or came back: messages may be missing, and the inbox's name may have changed."""

    def changed(self, name: str, fence: int) -> None:
        """Copies of this entry's value with a token below the fence are outdated."""

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        """The store counts as away from now on, or no longer. `part`: only this one of its servers. `why`: what it
        failed with, where that is known."""

    def not_kept(self, name: str, error: StoreRefused) -> None:
        """A value was published and told to the waiters, and the store would not keep it."""


class Session(Protocol):
    """A store as one event loop uses it. Names are complete entry names (namespace and key).

    Every method may raise `StoreUnavailable` (not reached, or no answer in time: what was asked may still be carried
    out) or `StoreRefused` (it answered, and the answer was no).
    """

    @property
    def away(self) -> bool:
        """Whether any of it is away; `away_for` says which entries. Changes with `breaker_changed` only."""

    def away_for(self, name: str) -> bool:
        """Whether the server that holds this entry is away. Nothing should be asked about it then."""

    def hears_changes(self, name: str) -> bool:
        """Whether `Listener.changed` is told of this entry: True until the next `gap`.

        To ask for it begins the subscription, so the first answer is mostly no.
        """

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        """One round trip, no lock. The future is the caller's own: cancelling it harms nobody else.

        Reads of one tick of the event loop travel as one command; a read is registered before that command is sent.
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
    ) -> bool:
        """Returns whether it was stored. `took_ms`: how long a value's computation took; travels with it."""

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        """Returns the new fence."""

    async def fence(self, name: str) -> tuple[str, int] | None:
        """The record's epoch and fence; None without one. Every invalidation changes it. Writes nothing."""

    async def release(self, name: str, *, flight: str) -> bool: ...

    async def admits(self, name: str, grant: Granted) -> bool:
        """Whether a value computed with this grant could still be stored, but for a newer value. Changes nothing."""

    async def fallback(
        self, name: str, *, flight: str, policy: Policy, newer_than: int = 0
    ) -> Found | Granted | Denied: ...

    async def ensure_tag(self, name: str, *, policy: Policy) -> bytes:
        """The version of a tag; a new one if it had none. It outlives any value that is computed now."""

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        """As `read`, and with the reads of entries of the same tick: the version is the body."""

    async def drop_tag(self, name: str) -> None:
        """From now on the tag has another version than it had."""

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        """The fleet's switches of a namespace, by title. From then on the listener hears of changes, with messages
        about `{namespace}:modes`."""

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        """Set one, or take it back; how many sessions were told. Raises `StoreRefused` where there are too many."""

    def forget(self, name: str, *, flight: str) -> None:
        """Give back, some time soon, a lease that an unanswered command may have got for a flight that has ended."""

    async def aclose(self) -> None:
        """Closes every connection. Nothing may be asked afterwards."""

    def abandon(self) -> None:
        """After a fork, in the child: let go of the copied sockets without a word to the server."""


class Store(Protocol):
    """Opens sessions; holds nothing that is tied to an event loop."""

    shared: bool
    """Whether other processes see it. False for memory: other workers are not covered."""

    def open_session(self, listener: Listener, *, namespace: str = "") -> Session:
        """A session for the running event loop. Connects when it is first used.

        `namespace`: of the guard that it is for, so that operators can count its processes; empty for anybody else.
        """
