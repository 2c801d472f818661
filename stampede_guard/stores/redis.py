"""One Redis or Valkey server (7.0 and later), through connections of the session's own.

A session keeps three connections: one for reads and scripts, one for renewals (a renewal never waits behind a large
value), one subscription. They are made with the settings of the user's client or URL (TLS, user, password, credential
provider), except for time-outs, retries and decoding, which are ours: no retries, `deadline` seconds for everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from contextvars import Context
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from stampede_guard.core import breaker
from stampede_guard.core.breaker import PROBE_SECONDS, Breaker
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, Found, Granted, Outcome
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.policy import Policy
from stampede_guard.stores.calls import READS_PER_CALL as _MOST_READS
from stampede_guard.stores.calls import ProbeCall, ReadCall, Script, ScriptCall
from stampede_guard.stores.inbox import Inbox
from stampede_guard.stores.lane import Lane, stop
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.wire import HEADER, entry_keys, name_bytes, parse_answer, value_bytes

__all__ = ["RedisSession", "RedisStore"]

DEADLINE = 0.5
"""Seconds for connecting and for each answer."""

# On the hit path a look-up counts.
_Future = asyncio.Future

_ACQUIRE = Script("acquire")
_RENEW = Script("renew")
_PUBLISH = Script("publish")
_INVALIDATE = Script("invalidate")
_RELEASE = Script("release")
_FALLBACK = Script("fallback")


class RedisStore:
    """`client` gives the connection settings; its pool is not used, so a full pool delays nobody."""

    shared = True

    def __init__(self, client: Redis, *, deadline: float = DEADLINE) -> None:
        # Kept, because a sentinel's pool is named weakly in its own settings.
        self._client = client
        pool = client.connection_pool
        self._connection_class = pool.connection_class
        self._settings = {
            **pool.connection_kwargs,
            "socket_timeout": None,
            "socket_connect_timeout": None,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
            "health_check_interval": 0,
            "decode_responses": False,
            "protocol": 2,
        }
        self.deadline = deadline

    @classmethod
    def from_url(cls, url: str, *, deadline: float = DEADLINE) -> RedisStore:
        return cls(Redis.from_url(url), deadline=deadline)

    def connect(self) -> AbstractConnection:
        return self._connection_class(**self._settings)

    def open_session(self, listener: Listener) -> RedisSession:
        return RedisSession(self, listener)


class RedisSession:
    """See `stores.protocol.Session`."""

    def __init__(self, store: RedisStore, listener: Listener) -> None:
        self._listener = listener
        self._deadline = store.deadline
        self._loop = asyncio.get_running_loop()
        self._breaker = Breaker()
        self._away = False
        self._closing = False
        self._probe: asyncio.Task[None] | None = None
        self._reads: ReadCall | None = None
        self._forgotten: set[asyncio.Task[None]] = set()
        self._lane = Lane(store.connect, deadline=store.deadline, on_change=self._changed)
        self._renewals = Lane(store.connect, deadline=store.deadline, on_change=self._changed)
        self._inbox = Inbox(
            f"stampede_guard:inbox:{uuid.uuid4().hex}",
            store.connect,
            deadline=store.deadline,
            on_message=listener.heard,
            on_gap=listener.gap,
        )

    @property
    def away(self) -> bool:
        return self._away

    # --- reads: the hit path ----------------------------------------------------------------------

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        future: asyncio.Future[Reading | None] = _Future(loop=self._loop)
        call = self._reads
        if call is not None:
            waiting = call.waiting.get(name)
            if waiting is not None:
                waiting.append(future)
                return future
            if len(call.waiting) < _MOST_READS:
                call.waiting[name] = [future]
                return future
        self._reads = call = ReadCall(self._reads_closed, self._lane.send)
        call.waiting[name] = [future]
        self._lane.send(call)
        return future

    def _reads_closed(self, call: ReadCall) -> None:
        if self._reads is call:
            self._reads = None

    # --- scripts ----------------------------------------------------------------------------------

    async def acquire(self, name: str, *, flight: str, policy: Policy, newer_than: int = 0) -> Answer:
        await self._inbox.ready()
        args = [
            flight.encode(),
            self._inbox.confirmed_name.encode(),
            uuid.uuid4().hex.encode(),
            _ms(policy.lease_ttl),
            b"%d" % policy.record_ms,
            _ms(policy.takeover_gap),
            b"%d" % newer_than,
        ]
        answer = parse_answer(await self._run(_ACQUIRE, name, args))
        if isinstance(answer, Denied):
            raise StoreRefused("the acquire script gave an answer of the fallback script")
        return answer

    async def renew(self, name: str, *, flight: str, token: int, policy: Policy) -> bool:
        args = [
            flight.encode(),
            b"%d" % token,
            self._inbox.confirmed_name.encode(),
            _ms(policy.lease_ttl),
            b"%d" % policy.record_ms,
        ]
        return bool(await self._run(_RENEW, name, args, lane=self._renewals))

    async def publish(
        self, name: str, *, flight: str, grant: Granted, outcome: Outcome, body: bytes, policy: Policy
    ) -> bool:
        total_ms = policy.total_ms
        if outcome == "failure":
            total_ms = round(policy.error_ttl * 1000)
        else:
            body = value_bytes(body, token=grant.token, total_ms=total_ms, stale_ms=policy.stale_ms)
        args = [
            flight.encode(),
            b"%d" % grant.token,
            grant.epoch.encode(),
            outcome.encode(),
            body,
            b"%d" % total_ms,
            b"%d" % policy.record_ms,
            b"%d" % (policy.inline_bytes + HEADER),
            name_bytes(name),
        ]
        return bool(await self._run(_PUBLISH, name, args))

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        args = [uuid.uuid4().hex.encode(), b"%d" % policy.record_ms, name_bytes(name)]
        return int(await self._run(_INVALIDATE, name, args))

    async def release(self, name: str, *, flight: str) -> bool:
        return bool(await self._run(_RELEASE, name, [flight.encode(), name_bytes(name)]))

    async def fallback(self, name: str, *, flight: str, policy: Policy) -> Found | Granted | Denied:
        args = [
            flight.encode(),
            uuid.uuid4().hex.encode(),
            b"%d" % policy.fallback_limit,
            _ms(policy.fallback_timeout + policy.lease_ttl),
            b"%d" % policy.record_ms,
        ]
        answer = parse_answer(await self._run(_FALLBACK, name, args))
        if isinstance(answer, Found | Granted | Denied):
            return answer
        raise StoreRefused("the fallback script gave an answer of the acquire script")

    def forget(self, name: str, *, flight: str) -> None:
        if self._closing or len(self._forgotten) >= 1000:
            return
        task = self._loop.create_task(self._forget(name, flight))
        self._forgotten.add(task)
        task.add_done_callback(self._forgotten.discard)

    async def _forget(self, name: str, flight: str) -> None:
        # The unanswered command may still lie unread in the server's socket. Once now, once when every command that was
        # sent before has either run or been lost; after that the lease's own deadline decides.
        for pause in (0.0, 2 * self._deadline):
            await asyncio.sleep(pause)
            try:
                await self.release(name, flight=flight)
            except StoreError:
                continue

    async def _run(self, script: Script, name: str, args: list[bytes], *, lane: Lane | None = None) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        chosen = lane or self._lane
        chosen.send(ScriptCall(script, entry_keys(name), args, future, chosen.send))
        return await future

    # --- breaker ----------------------------------------------------------------------------------

    def _changed(self, ok: bool) -> None:
        if ok and self._breaker.failures == 0:
            return
        self._breaker = breaker.succeeded(self._breaker) if ok else breaker.failed(self._breaker)
        if self._breaker.is_open == self._away or self._closing:
            return
        self._away = self._breaker.is_open
        self._listener.breaker_changed(away=self._away)
        if self._away and self._probe is None:
            self._probe = self._loop.create_task(
                self._look_for_store(), name="stampede_guard probe", context=Context()
            )

    async def _look_for_store(self) -> None:
        while self._away:
            await asyncio.sleep(PROBE_SECONDS)
            future: asyncio.Future[Any] = self._loop.create_future()
            self._lane.send(ProbeCall(future))
            with contextlib.suppress(StoreError):
                await future
        self._probe = None

    # --- the end ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        self._closing = True
        for task in [*self._forgotten, self._probe]:
            await stop(task)
        await self._inbox.aclose()
        await self._lane.aclose()
        await self._renewals.aclose()

    def abandon(self) -> None:
        self._closing = True
        self._inbox.abandon()
        self._lane.abandon()
        self._renewals.abandon()


def _ms(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1000)
