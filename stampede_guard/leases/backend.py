"""What leases need of a back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stampede_guard.leases.words import Answer, Ask, Audit, Forced, LeaseView, NotForced, Refused, Renewed

__all__ = ["Backend", "Fence"]


class Fence(Protocol):
    """A back end whose leases are in the user's own database has this as well."""

    async def fence(self, conn: Any, name: str, *, holder: str, token: int) -> bool:
        """Whether it is held now under this holder and token; and until the transaction of `conn` ends nobody else can
        get it. The statement is run within that transaction and may wait for as long as the connection's own time-outs
        let it."""


class Backend(Protocol):
    """A store of leases as one event loop uses it. Names are complete: namespace and lease name.

    Every method is one atomic step of the store, on the store's clock (the rules are `core.grants`), and has a time-out
    of its own (`timeout`, seconds). It raises `StoreUnavailable` (not reached, or no answer in time: what was asked may
    still be carried out) or `StoreRefused` (it answered, and the answer was no). It never asks twice by itself.
    """

    async def acquire(self, ask: Ask, *, timeout: float) -> Answer:
        """Grant, or say who has it. The token is greater than every token that was ever granted for the name."""

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | Refused:
        """Only what is still held under this holder and token is extended; nothing is ever created."""

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        """Give it back; whether it was still held. It stays out of reach until `at_least_for` seconds after its grant.

        Token 0: whatever token this holder has, as after an acquisition whose answer was lost. The next is woken; of
        those who wait, the ones go first whose owner is called `to` (its process, pod, host or label).
        """

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        """Give up the place in the queue, and the lease if it was granted meanwhile."""

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        """Whether the store says that it is held under this holder and token now."""

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        """Somebody wants it free: compared with the token that he saw. With `now` the holder is not waited for.

        `audited`: it is an operator's deed, and written down; not so what calls do to each other many times a day."""

    async def show(self, name: str, *, timeout: float) -> LeaseView | None: ...

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]: ...

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        """What operators did, newest first; the store keeps the last thousand."""

    def on_freed(self, call: Callable[[str], None]) -> None:
        """`call(name)` is called in the event loop when a lease was freed or its release asked for, as far as the store
        can tell: a hint, which may be lost. Who waits or holds asks again by itself now and then."""

    def on_called(self, call: Callable[[str, int], None]) -> None:
        """`call(holder, ahead)` is called in the event loop when the turn of a waiter may have come, of this process or
        of another: the lease is free, or was, and `ahead` others were called before it. A hint, as above."""

    @property
    def hears(self) -> bool:
        """Whether such calls reach this process at present. Who waits asks less often while they do."""

    async def aclose(self) -> None: ...
