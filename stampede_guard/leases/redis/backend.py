"""Leases in Redis or Valkey: each step is one script on the server's clock.

A server may have forgotten a lease whose holder still believes. Such a lease is not granted again in that time. A
*life* of a server is its `run_id` with its `master_replid`: a promotion begins a new life, also a second promotion of
the same server. Every row contains the life in which it was last confirmed. The answer is `Withheld` if the current
life is shorter than a lease and the row was not confirmed in it. This covers a restart without data, a restart with an
older snapshot, and a server that was promoted without the last writes. A restart that lost nothing causes the same
wait, unless `restart="trust"`; so does a master's first replica.

All data may also be lost within one life: FLUSHALL, deleted keys, or a replica that had received nothing of this
namespace. If only the rows are lost, every acquirer notices it. If all is lost, two kinds of processes notice it. One
has asked before and finds no trace of that. The other is a holder with a token larger than all that the server knows.
Then the answer is `Withheld` for the same time.

Three cases are not covered. In the first, such a loss happens, and all later acquirers ask for the first time, and
before the holder's next renewal. In the second, a server's clock steps forward, which ends leases early. In the third,
a network partition leaves two masters. Tokens grow in all these cases as long as clocks do. Use them as a fence for
writes that must not happen twice.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any, Literal

from stampede_guard.api.urls import store_for, store_from_url
from stampede_guard.errors import Misuse, StoreRefused, StoreUnavailable
from stampede_guard.leases.core import grants
from stampede_guard.leases.core.queue import Place, Queue, named
from stampede_guard.leases.listeners import Listeners
from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseGranted,
    LeaseHeld,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Renewed,
    Withheld,
)
from stampede_guard.leases.redis.reading import (
    audit_of,
    owner_of,
    place_of,
    plain,
    row_of,
    text_of,
    us,
)
from stampede_guard.leases.redis.scripts import DEADLINE, Scripts, lease_script, reading
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.wire import name_bytes
from stampede_guard.stores.protocol import Store

__all__ = ["RedisBackend"]

log = logging.getLogger("stampede_guard")

KEPT_AUDITS = 1000
_YOUNG = "the server was recently started or promoted, and may have forgotten leases"
_NAMES_AT_ONCE = 20
_MOVED_AT_ONCE = 40
PLACES_AT_ONCE = 250
"""Places that one script reads. A queue of a thousand takes four scripts."""
_MOST_STEPS = 1_000
"""Each step removes at least 25 lapsed places of one name."""
_PLACES_IN_A_LIST = 20
"""Waiters shown per name in a list of names. `show` for a single name shows all its waiters."""

_ASK = lease_script("ask")
_RENEW = lease_script("renew")
_RELEASE = lease_script("release")
_CHECK = lease_script("check")
_FORCE = lease_script("force")
_VIEWS = lease_script("views")
_PREFER = lease_script("prefer")
_NAMES = lease_script("names")
_AUDITS = lease_script("audits")
_MEMORY = lease_script("memory")
_WITHHELD = lease_script("withheld")


class RedisBackend:
    """A `Backend` for one event loop. It connects on first use.

    `store`: a Redis store, or a `redis.asyncio` client for its settings. `eviction`: for a server that may evict leases
    when its memory is full (`maxmemory-policy allkeys-*`): `"refuse"` to grant, or `"warn"`. `restart`: `"withhold"` as
    above, or `"trust"` for a server that loses no write (`appendfsync always`) or whose losses do not matter.
    `longest_lease`: seconds. Give it if one name is used with different `lease_ttl`s.
    """

    kind = "redis"

    def __init__(
        self,
        store: Any,
        *,
        namespace: str,
        eviction: Literal["refuse", "warn"] = "refuse",
        restart: Literal["withhold", "trust"] = "withhold",
        longest_lease: float = 0.0,
    ) -> None:
        for field, given, allowed in (
            ("eviction", eviction, ("refuse", "warn")),
            ("restart", restart, ("withhold", "trust")),
        ):
            if given not in allowed:
                raise Misuse(f"{field}={given!r} is not allowed: write {allowed[0]!r} or {allowed[1]!r}")
        self._eviction = eviction
        self._trusts = b"1" if restart == "trust" else b"0"
        self._longest = longest_lease
        self._checked = False
        self._answered = b"0"
        self._listeners = told = Listeners()
        opened: Store = store_for(store)
        self.scripts = Scripts(
            opened, f"{namespace}.leases", told.tell_freed, told.tell_called, told.tell_vouched
        )

    @classmethod
    def from_url(cls, url: str, *, namespace: str, **settings: Any) -> RedisBackend:
        """`redis://`, `rediss://`, `unix://`, `redis+sentinel://` or `redis+cluster://`. Raises `UrlError`."""
        store: Any = store_from_url(url)
        store.deadline = DEADLINE
        return cls(store, namespace=namespace, **settings)

    @classmethod
    def from_client(cls, client: Any, *, namespace: str, **settings: Any) -> RedisBackend:
        """Uses the settings of a `redis.asyncio` client: TLS, credentials, sentinels, cluster. Raises `Misuse`."""
        store: Any = store_for(client, who="RedisLeases")
        if store is not client:
            store.deadline = DEADLINE
        return cls(store, namespace=namespace, **settings)

    # --- steps ------------------------------------------------------------------------------------

    async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
        if not self._checked:
            await self._check_memory(timeout)
        reply = await self._decided(
            _ASK,
            name_bytes(ask.name),
            ask.holder.encode(),
            text_of(ask.owner),
            us(ask.lease_ttl),
            us(ask.place),
            us(max(ask.lease_ttl, self._longest)),
            self._trusts,
            self._answered,
            us(ask.turn),
            self._vouch(ask.name) if ask.handed_over else b"",
            self.scripts.channel,
            timeout=timeout,
        )
        self._answered = b"1"
        match reply:
            case [b"granted", bytes(token)]:
                return LeaseGranted(int(token))
            case [b"held", bytes(owner), bytes(token), bytes(remaining), int(ahead), int(resting)]:
                return LeaseHeld(
                    owner_of(owner), int(token), int(remaining) / 1e6, ahead, resting=bool(resting)
                )
            case [b"withheld", bytes(remaining)]:
                return Withheld(_YOUNG, max(0.0, int(remaining) / 1e6))
        raise _unknown()

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | LeaseRefused:
        witness = self._vouch(name) if name in self._listeners.vouched else b""
        args = (name_bytes(name), holder.encode(), b"%d" % token, us(lease_ttl), witness)
        reply = await self.scripts.run(_RENEW, *args, timeout=timeout, renewal=True)
        match reply:
            case [b"renewed", bytes(asked_to_leave)]:
                return Renewed(plain(asked_to_leave))
            case [b"gone"]:
                self._listeners.vouched.discard(name)
                return LeaseRefused("gone")
            case [b"taken"]:
                self._listeners.vouched.discard(name)
                return LeaseRefused("taken")
        raise _unknown()

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        self._listeners.vouched.discard(name)
        if to:
            await self._prefer(name, holder, token, to, timeout)
        args = (holder.encode(), b"%d" % token, us(at_least_for), self.scripts.channel)
        return bool(await self._decided(_RELEASE, name_bytes(name), *args, timeout=timeout))

    async def _prefer(self, name: str, holder: str, token: int, to: str, timeout: float) -> None:
        """Move the waiters called `to` to the front, in several steps, because there may be a thousand.

        This happens before the release, because the release calls the first waiters."""
        holders = [place.holder.encode() for place in named(await self._queue(name, timeout), to)]
        while holders:
            # Start with the last ones: each step puts its waiters before all others.
            some, holders = holders[-_MOVED_AT_ONCE:], holders[:-_MOVED_AT_ONCE]
            args = (name_bytes(name), holder.encode(), b"%d" % token, *some)
            await self.scripts.run(_PREFER, *args, timeout=timeout)

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        self._listeners.vouched.discard(name)
        await self.release(name, holder=holder, token=0, at_least_for=0.0, timeout=timeout)

    def for_runs(self) -> tuple[Scripts, bool]:
        """For the runs of jobs: the scripts' connections, and whether a young server is trusted (see `restart`)."""
        return self.scripts, self._trusts == b"1"

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        args = (name_bytes(name), holder.encode(), b"%d" % token)
        return bool(await self.scripts.run(_CHECK, *args, timeout=timeout))

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        args = (
            b"%d" % token,
            name_bytes(by),
            b"1" if now else b"0",
            self.scripts.channel,
            b"%d" % KEPT_AUDITS,
            b"1" if audited else b"0",
        )
        reply = await self.scripts.run(_FORCE, name_bytes(name), *args, timeout=timeout)
        match reply:
            case [b"forced", bytes(remaining)]:
                return Forced(int(remaining) / 1e6)
            case [b"no", bytes(current)]:
                return NotForced(int(current))
        raise _unknown()

    async def _decided(self, script: Script, *args: bytes, timeout: float) -> Any:
        """Repeat the script until no lapsed place is before the first live one. A step removes a limited number."""
        for _ in range(_MOST_STEPS):
            reply = await self.scripts.run(script, *args, timeout=timeout)
            if reply not in ([b"again"], -1):
                return reply
        raise StoreUnavailable("places in the queue lapse faster than the scripts remove them")

    # --- reading ----------------------------------------------------------------------------------

    async def show(self, name: str, *, timeout: float) -> LeaseView | None:
        queue = await self._queue(name, timeout)
        now, rows = await self._read([name], 0, 0, timeout)
        views = [self._view(title, row, queue, now) for title, row, _ in rows]
        return views[0] if views and views[0].token else None

    def _view(self, name: str, row: bytes, queue: Queue, now: float) -> LeaseView:
        with reading(self.scripts.tag, f"the row of {name!r}"):
            return grants.view(name, row_of(row, queue), now)

    async def _queue(self, name: str, timeout: float) -> Queue:
        """All waiters of the name, read page by page."""
        queue: dict[str, Place] = {}
        for offset in itertools.count(step=PLACES_AT_ONCE):
            _, rows = await self._read([name], PLACES_AT_ONCE, offset, timeout)
            page = rows[0][2] if rows else ()
            # A waiter that moved in between may be on two pages.
            queue |= {place.holder: place for place in page}
            if len(page) < PLACES_AT_ONCE:
                break
        return tuple(queue.values())

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]:
        names, cursor = set[str](), b"0"
        while True:
            cursor, *some = await self.scripts.run(_NAMES, cursor, timeout=timeout)
            names.update(name for name in map(plain, some) if name.startswith(prefix))
            if cursor == b"0":
                break
        wanted, found = sorted(names)[:limit], list[LeaseView]()
        for begin in range(0, len(wanted), _NAMES_AT_ONCE):
            some = wanted[begin : begin + _NAMES_AT_ONCE]
            now, rows = await self._read(some, _PLACES_IN_A_LIST, 0, timeout)
            for name, row, queue in rows:
                try:
                    found.append(self._view(name, row, queue, now))
                except StoreRefused as error:
                    # One damaged row must not hide all others.
                    log.error("lease %s is not listed: %s", name, error)
        return found

    async def _read(
        self, names: list[str], places: int, offset: int, timeout: float
    ) -> tuple[float, list[tuple[str, bytes, Queue]]]:
        """The server's time, and for each known name its row and some of its waiters."""
        args = (b"%d" % places, b"%d" % offset, *map(name_bytes, names))
        now, *found = await self.scripts.run(_VIEWS, *args, timeout=timeout)
        at = iter(found)
        rows = [
            (plain(name), row, tuple(place_of(next(at), next(at)) for _ in range(int(count))))
            for name, row, count in zip(at, at, at, strict=False)
        ]
        return int(now) / 1e6, rows

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        found = map(audit_of, await self.scripts.run(_AUDITS, timeout=timeout))
        return [audit for audit in found if audit.name.startswith(prefix)][:limit]

    def on_freed(self, call: Callable[[str], None]) -> None:
        self._listeners.freed.append(call)
        self.scripts.listen()

    def on_called(self, call: Callable[[str, int], None]) -> None:
        self._listeners.called.append(call)
        self.scripts.listen()

    @property
    def hears(self) -> bool:
        return self.scripts.hears

    def _vouch(self, name: str) -> bytes:
        self._listeners.vouched.add(name)
        return self.scripts.witness

    # --- the server -------------------------------------------------------------------------------

    async def _check_memory(self, timeout: float) -> None:
        """Check once per back end whether the server may evict leases when its memory is full."""
        policy, limit = map(plain, await self.scripts.run(_MEMORY, timeout=timeout))
        if policy.startswith("allkeys-") and int(limit) > 0:
            problem = (
                f"this server may evict any key when its memory is full (maxmemory-policy {policy}), also a held "
                "lease: use noeviction or volatile-*, or a separate server for leases"
            )
            if self._eviction == "refuse":
                raise StoreRefused(f'{problem}, or write eviction="warn"', may_pass=True)
            log.warning("%s", problem)
        self._checked = True

    async def withheld(self, lease_ttl: float, *, timeout: float) -> Withheld | None:
        """Whether a lease of this length would be withheld now, if it was not confirmed in this life of the server."""
        if self._trusts == b"1":
            return None
        left = await self.scripts.run(_WITHHELD, us(max(lease_ttl, self._longest)), timeout=timeout)
        return Withheld(_YOUNG, int(left) / 1e6) if int(left) else None

    async def aclose(self) -> None:
        self._listeners.freed.clear()
        self._listeners.called.clear()
        await self.scripts.aclose()


def _unknown() -> StoreRefused:
    return StoreRefused("a lease script returned an answer of an unknown shape")
