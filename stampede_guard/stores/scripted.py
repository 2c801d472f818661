"""The common part of every Redis session, on one server or many: the scripts and their arguments.

A subclass knows where an entry is stored: how to send a script there, and which inbox receives messages from there.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, Found, Granted, Outcome
from stampede_guard.core.tags import version_of
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.policy import Policy
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.lane import stop
from stampede_guard.stores.connections.replies import unkept
from stampede_guard.stores.connections.wire import (
    HEADER,
    changes_channel,
    malformed,
    modes_keys,
    modes_name,
    name_bytes,
    parse_answer,
    parse_fence,
    parse_switches,
    parse_value,
    value_bytes,
    yes_or_no,
)
from stampede_guard.stores.fleet.series import MOST_FIELDS, Series
from stampede_guard.stores.fleet.stream import HAPPENED, KEPT_MS, MOST_KEPT, StreamName, stream_name
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.switch import MOST_SWITCHES, WATCH_TITLE, Switch

__all__ = ["WAKE_BYTES", "ScriptedSession"]

WAKE_BYTES = 8 * 1024 * 1024
"""Limit for the total bytes of wake-ups with a value that a full server cannot store. They wait in its memory."""

_ACQUIRE = Script("acquire")
_RENEW = Script("renew")
_PUBLISH = Script("publish")
_INVALIDATE = Script("invalidate")
_FENCE = Script("fence", prelude=False)
_RELEASE = Script("release")
_ADMITS = Script("admits")
_STAMP = Script("stamp")
_FALLBACK = Script("fallback")
_TAG = Script("tag")
_DROP_TAG = Script("drop_tag")
_MODES = Script("modes", keys_of=modes_keys)
_SWITCH = Script("switch", keys_of=modes_keys)
_COUNT = Script("count", keys_of=modes_keys)
_TELL = Script("tell", keys_of=modes_keys)


class ScriptedSession(ABC):
    """See `stores.protocol.Session`. `deadline`: after these seconds a command has either run or been lost."""

    def __init__(self, *, deadline: float, listener: Listener) -> None:
        self._deadline = deadline
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._forgotten: set[asyncio.Task[None]] = set()

    def _answered_within(self, part: str = "") -> Callable[[float], None] | None:
        """Receives samples of the time that this server's answers take. None if the listener wants none."""
        tell = getattr(self._listener, "answered_within", None)
        return None if tell is None else partial(tell, part)

    @property
    @abstractmethod
    def away(self) -> bool: ...

    @abstractmethod
    def away_for(self, name: str) -> bool: ...

    @abstractmethod
    def hears_changes(self, name: str) -> bool: ...

    @abstractmethod
    def read(self, name: str) -> asyncio.Future[Reading | None]: ...

    @abstractmethod
    async def _listen(self, name: str) -> None:
        """Wait until an inbox is confirmed at this entry's server, or until it is known that this is impossible now."""

    @abstractmethod
    def _inbox_at(self, name: str) -> bytes:
        """The inbox that is confirmed at this entry's server, or nothing."""

    @abstractmethod
    async def _run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any:
        """The script's answer. Raises `StoreError`."""

    async def run(self, script: Script, name: str, args: list[bytes], *, renewal: bool = False) -> Any:
        """Run a script of another module with the keys that it has for this name. Raises `StoreError`.

        `renewal`: use the connection on which a command never waits behind other commands.
        """
        return await self._run(script, name, args, renewal=renewal)

    async def acquire(self, name: str, *, flight: str, policy: Policy, newer_than: int = 0) -> Answer:
        await self._listen(name)
        args = [
            flight.encode(),
            self._inbox_at(name),
            uuid.uuid4().hex.encode(),
            _ms(policy.lease_ttl),
            b"%d" % policy.record_ms,
            _ms(policy.takeover_gap),
            b"%d" % newer_than,
            b"%d" % policy.uncacheable_limit,
            b"%d" % policy.slot_ms,
        ]
        answer = parse_answer(await self._run(_ACQUIRE, name, args))
        if isinstance(answer, Denied):
            raise malformed("the acquire script")
        return answer

    async def renew(self, name: str, *, flight: str, token: int, policy: Policy) -> bool:
        args = [
            flight.encode(),
            b"%d" % token,
            self._inbox_at(name),
            _ms(policy.lease_ttl),
            b"%d" % policy.record_ms,
        ]
        return yes_or_no("the renew script", await self._run(_RENEW, name, args, renewal=True))

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
        total_ms = policy.total_ms
        if outcome == "failure":
            total_ms = round(policy.error_ttl * 1000)
        elif outcome == "pass":
            total_ms, body = round(policy.uncacheable_ttl * 1000), b""
        else:
            body = value_bytes(
                body, token=grant.token, total_ms=total_ms, stale_ms=policy.stale_ms, took_ms=took_ms
            )
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
            b"0" if grant.leased else b"1",
            changes_channel(name),
            _ms(policy.uncacheable_ttl),
            b"%d" % WAKE_BYTES,
        ]
        if trace:
            args.append(trace.encode())
        reply = await self._run(_PUBLISH, name, args)
        if outcome == "value" and (error := unkept(reply)) is not None:
            tell = getattr(self._listener, "not_kept", None)
            if tell is not None:
                tell(name, error)
            return True
        return yes_or_no("the publish script", reply)

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        args = [
            uuid.uuid4().hex.encode(),
            b"%d" % policy.record_ms,
            name_bytes(name),
            changes_channel(name),
        ]
        return parse_fence(await self._run(_INVALIDATE, name, args))

    async def fence(self, name: str) -> tuple[str, int] | None:
        found = await self._run(_FENCE, name, [])
        match found:
            case [bytes(epoch), bytes(fence)] if fence.isdigit():
                return epoch.decode("utf-8", "replace"), int(fence)
            case [None, None] | []:
                return None
        raise malformed("the fence script")

    async def release(self, name: str, *, flight: str) -> bool:
        return yes_or_no(
            "the release script", await self._run(_RELEASE, name, [flight.encode(), name_bytes(name)])
        )

    async def admits(self, name: str, grant: Granted) -> bool:
        return bool(await self._run(_ADMITS, name, [b"%d" % grant.token, grant.epoch.encode()]))

    async def stamp(self, name: str, *, policy: Policy) -> Granted:
        answer = parse_answer(
            await self._run(_STAMP, name, [uuid.uuid4().hex.encode(), b"%d" % policy.record_ms])
        )
        if isinstance(answer, Granted):
            return answer
        raise malformed("the stamp script")

    async def fallback(
        self, name: str, *, flight: str, policy: Policy, newer_than: int = 0
    ) -> Found | Granted | Denied:
        args = [
            flight.encode(),
            uuid.uuid4().hex.encode(),
            b"%d" % policy.fallback_limit,
            _ms(policy.fallback_timeout + policy.lease_ttl),
            b"%d" % policy.record_ms,
            b"%d" % newer_than,
        ]
        answer = parse_answer(await self._run(_FALLBACK, name, args))
        if isinstance(answer, Found | Granted | Denied):
            return answer
        raise malformed("the fallback script")

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        return self.read(name)

    async def ensure_tag(self, name: str, *, policy: Policy) -> bytes:
        version = uuid.uuid4().bytes
        ms = policy.tag_ms
        stored = await self._run(
            _TAG, name, [value_bytes(version, token=1, total_ms=ms, stale_ms=0), b"%d" % ms]
        )
        reading = parse_value(stored, 0) if isinstance(stored, bytes) else None
        found = version_of(reading.body) if reading is not None else None
        if found is None:
            raise malformed("the tag script")
        return found

    async def drop_tag(self, name: str) -> None:
        if await self._run(_DROP_TAG, name, [name_bytes(name), changes_channel(name)]) is not None:
            raise malformed("the script that drops a tag")

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        name = modes_name(namespace)
        # Subscribe first, to receive every change from now on.
        await self._listen(name)
        self._inbox_at(name)
        return parse_switches(await self._run(_MODES, name, []))

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        name = modes_name(namespace)
        left = 0 if switch is None or switch.left is None else max(1, round(switch.left * 1000))
        text = "" if switch is None else str(switch)
        args = [name_bytes(title), text.encode(), b"%d" % left, b"%d" % MOST_SWITCHES, name_bytes(name)]
        args.append(name_bytes(WATCH_TITLE))
        told: Any = await self._run(_SWITCH, name, args)
        if told.__class__ is not int:
            raise malformed("the switch script")
        if told < 0:
            raise StoreRefused(
                f"there are {MOST_SWITCHES} switches already: remove some by setting their mode to default"
            )
        return int(told)

    async def count(self, namespace: str, series: Series, slot: int, numbers: Mapping[str, int]) -> int:
        args = [b"%d" % number for number in (series.seconds, slot, series.kept_ms, MOST_FIELDS)]
        for name, number in numbers.items():
            args += [name_bytes(name), b"%d" % number]
        told = await self._run(_COUNT, series.name(namespace, slot), args)
        if told.__class__ is not int:
            raise malformed("the count script")
        return int(told)

    async def tell(
        self, namespace: str, happenings: Sequence[tuple[int, str]], *, stream: StreamName = HAPPENED
    ) -> None:
        args = [b"%d" % MOST_KEPT, b"%d" % KEPT_MS]
        for ago, text in happenings:
            args += [b"%d" % ago, name_bytes(text)]
        if await self._run(_TELL, stream_name(namespace, stream), args) != b"OK":
            raise malformed("the tell script")

    def forget(self, name: str, *, flight: str) -> None:
        if self._closing or len(self._forgotten) >= 1000:
            return
        task = self._loop.create_task(self._forget(name, flight))
        self._forgotten.add(task)
        task.add_done_callback(self._forgotten.discard)

    async def _forget(self, name: str, flight: str) -> None:
        # The unanswered command may still lie unread in the server's socket. Release now. Release once more when every
        # command sent before has either run or been lost. After that, the lease's own deadline decides.
        for pause in (0.0, 2 * self._deadline):
            await asyncio.sleep(pause)
            try:
                await self.release(name, flight=flight)
            except StoreError:
                continue

    @abstractmethod
    async def aclose(self) -> None:
        self._closing = True
        for task in list(self._forgotten):
            await stop(task)

    @abstractmethod
    def abandon(self) -> None:
        self._closing = True


def _ms(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1000)
