"""The protocols that a back end of leases implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Renewed,
)

__all__ = ["Backend", "Fence"]


class Fence(Protocol):
    """An extra method of back ends whose leases are in the user's own database."""

    async def fence(self, conn: Any, name: str, *, holder: str, token: int) -> bool:
        """Whether this holder and token have the lease now. If so, it cannot change hands before the transaction ends.

        The statement runs within the transaction of `conn`. Only the connection's own time-outs limit its wait."""


class Backend(Protocol):
    """A store of leases as one event loop uses it. Names are complete: namespace and lease name.

    Every method is one atomic step of the store, on the store's clock (the rules are `core.grants`). Every method has
    its own time-out (`timeout`, seconds) and never retries by itself. It raises `StoreUnavailable` if the store was not
    reached or did not answer in time; the store may still execute the request. It raises `StoreRefused` if the store
    answered with a refusal.
    """

    async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
        """Grant the lease, or return its holder. The token is greater than every earlier token of the name."""

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | LeaseRefused:
        """Extend the lease if this holder and token still have it. Never create one."""

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        """Release the lease. Returns whether it was still held.

        The lease cannot be granted again until `at_least_for` seconds after its grant. Token 0 means any token of this
        holder, for example after an acquisition whose answer was lost. The next waiter is woken. Waiters whose owner is
        called `to` (process, pod, host or label) go first.
        """

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        """Give up the place in the queue, and the lease if it was granted in between."""

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        """Whether the store says that this holder and token have the lease now."""

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        """Ask for the release of the lease, if it still has this `token`. With `now`, do not wait for the holder.

        `audited`: record it, because an operator did it. Calls that replace each other do this often: no record."""

    async def show(self, name: str, *, timeout: float) -> LeaseView | None: ...

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]: ...

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        """The actions of operators, newest first. The store keeps the last thousand."""

    def on_freed(self, call: Callable[[str], None]) -> None:
        """Call `call(name)` in the event loop when a lease was freed, or when its release was requested.

        This is a hint and may be lost. Waiters and holders also ask again from time to time."""

    def on_called(self, call: Callable[[str, int], None]) -> None:
        """Call `call(holder, ahead)` in the event loop when it may be a waiter's turn, of this process or of another.

        The lease is or was free, and `ahead` other waiters were called before it. This is a hint, as above."""

    @property
    def hears(self) -> bool:
        """Whether such calls currently reach this process. Waiters ask less often while they do."""

    async def aclose(self) -> None: ...
