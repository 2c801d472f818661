"""Slots and runs in Redis or Valkey, through the connections of the leases' back end.

A server that forgets everything in a restart has jobs registered anew by their workers, and then no slot of before its
own start gets an outcome, because it may have had one. What an older snapshot or a promoted replica lacks of the last
writes it cannot know: such a slot may run twice. Keep runs in PostgreSQL where that must not be.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stampede_guard.errors import StoreRefused
from stampede_guard.leases.redis.scripts import Scripts
from stampede_guard.leases.runs.rules import LONGEST_ERROR
from stampede_guard.leases.runs.words import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobView,
    Outcome,
    Outdated,
    Registration,
    RunView,
    Taken,
)
from stampede_guard.leases.words import Owner
from stampede_guard.stores.calls import Script
from stampede_guard.stores.wire import name_bytes

__all__ = ["RedisRuns"]


def _keys(name: str) -> tuple[bytes, ...]:
    tag = b"{%b}:" % name_bytes(name)
    return (tag + b"job", tag + b"runs", tag + b"slots", tag + b"running", tag + b"again")


def _script(name: str) -> Script:
    return Script(name, keys_of=_keys, package="stampede_guard.leases.runs.redis")


_REGISTER = _script("register")
_FOLLOW = _script("follow")
_TAKE_OVER = _script("take_over")
_CLAIM = _script("claim")
_BEAT = _script("beat")
_FINISH = _script("finish")
_RECORD = _script("record")
_SWEEP = _script("sweep")
_RETRIABLE = _script("retriable")
_VIEW = _script("view")
_HISTORY = _script("history")
_PRUNE = _script("prune")
_FORGET = _script("forget")
_TITLES = _script("titles")


class RedisRuns:
    """A `RunBackend`. `scripts` belong to the leases' back end, which closes them. `trusts`: see `RedisBackend`."""

    def __init__(self, scripts: Scripts, *, trusts: bool) -> None:
        self._scripts = scripts
        self._trusts = b"1" if trusts else b"0"

    async def register(self, registration: Registration, *, timeout: float) -> JobView:
        # First the name: of a job that is not listed nobody would see that it does not run.
        await self._titles(b"add", name_bytes(registration.job), timeout=timeout)
        args = (*_schedule(registration), self._trusts)
        return _job(registration.job, await self._run(_REGISTER, registration.job, *args, timeout=timeout))

    async def follow(self, registration: Registration, *, timeout: float) -> JobView | None:
        job = registration.job
        reply = await self._run(_FOLLOW, job, *_schedule(registration), timeout=timeout)
        return _job(job, reply) if reply else None

    async def take_over(self, registration: Registration, *, timeout: float) -> bool:
        args = _schedule(registration)
        return bool(await self._run(_TAKE_OVER, registration.job, *args, timeout=timeout))

    async def claim(self, claim: Claim, *, timeout: float) -> ClaimAnswer:
        reply = await self._run(
            _CLAIM,
            claim.job,
            b"%d" % claim.slot,
            claim.run.encode(),
            name_bytes(claim.fingerprint),
            json.dumps(asdict(claim.owner)).encode(),
            _us(claim.alive_for),
            b"%d" % claim.attempts,
            b"1" if claim.by_hand else b"0",
            timeout=timeout,
        )
        match reply:
            case [b"claimed", bytes(attempt), bytes(late), bytes(success), bytes(began)]:
                return Claimed(int(attempt), int(late) / 1e6, int(success) / 1e6, int(began) / 1e6)
            case [b"early", bytes(late)]:
                return Early(-int(late) / 1e6)
            case [b"taken", bytes(outcome)]:
                return Taken(outcome.decode())  # type: ignore[arg-type]
            case [b"outdated", bytes(schedule)]:
                return Outdated(_str(schedule))
        raise StoreRefused("a script of the runs gave an answer of an unknown shape")

    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float
    ) -> bool:
        args = (b"%d" % slot, run.encode(), _us(alive_for), b"%d" % token)
        return bool(await self._run(_BEAT, job, *args, timeout=timeout, renewal=True))

    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float) -> bool:
        if ending.outcome == "running":
            raise ValueError("a run does not end by running")
        reply = await self._run(
            _FINISH,
            job,
            b"%d" % slot,
            run.encode(),
            ending.outcome.encode(),
            name_bytes(ending.error[:LONGEST_ERROR]),
            b"%d" % ending.token,
            json.dumps(dict(ending.counters)).encode(),
            timeout=timeout,
        )
        return bool(reply)

    async def record(
        self, job: str, *, slots: Sequence[int], outcome: Outcome, error: str, timeout: float
    ) -> int:
        args = (outcome.encode(), name_bytes(error[:LONGEST_ERROR]), *(b"%d" % slot for slot in slots))
        return int(await self._run(_RECORD, job, *args, timeout=timeout))

    async def sweep(self, job: str, *, timeout: float) -> list[RunView]:
        rows = [_row(job, text) for text in await self._run(_SWEEP, job, timeout=timeout)]
        return sorted(rows, key=lambda row: row.slot)

    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float) -> list[RunView]:
        args = (b"%d" % attempts, b"%d" % limit)
        return [_row(job, text) for text in await self._run(_RETRIABLE, job, *args, timeout=timeout)]

    async def view(self, job: str, *, timeout: float) -> JobView | None:
        reply = await self._run(_VIEW, job, timeout=timeout)
        return _job(job, reply) if reply else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[JobView]:
        titles = sorted(map(_str, await self._titles(b"all", timeout=timeout)))
        names = [name for name in titles if name.startswith(prefix)][:limit]
        found = await asyncio.gather(*[self.view(name, timeout=timeout) for name in names])
        return [view for view in found if view is not None]

    async def history(
        self,
        job: str,
        *,
        limit: int,
        before: int | None = None,
        outcomes: Sequence[Outcome] = (),
        timeout: float,
    ) -> list[RunView]:
        args = (
            b"%d" % limit,
            b"" if before is None else b"%d" % before,
            *(word.encode() for word in outcomes),
        )
        return [_row(job, text) for text in await self._run(_HISTORY, job, *args, timeout=timeout)]

    async def prune(self, job: str, *, keep: int, older_than: float, timeout: float) -> int:
        return int(await self._run(_PRUNE, job, b"%d" % keep, _us(older_than), timeout=timeout))

    async def forget(self, job: str, *, timeout: float) -> bool:
        known = bool(await self._run(_FORGET, job, timeout=timeout))
        await self._titles(b"drop", name_bytes(job), timeout=timeout)
        return known

    async def aclose(self) -> None:
        """The connections are the leases', and are closed with them."""

    async def _run(
        self, script: Script, job: str, *args: bytes, timeout: float, renewal: bool = False
    ) -> Any:
        return await self._scripts.run(script, *args, name=f"{job}.job", timeout=timeout, renewal=renewal)

    async def _titles(self, *args: bytes, timeout: float) -> Any:
        return await self._scripts.run(_TITLES, *args, timeout=timeout)


def _us(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1_000_000)


def _schedule(given: Registration) -> tuple[bytes, ...]:
    return (
        name_bytes(given.schedule),
        name_bytes(given.fingerprint),
        repr(given.rhythm).encode(),
        b"%d" % given.version,
        _us(given.seen_for),
    )


def _str(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _job(name: str, reply: list[bytes]) -> JobView:
    found = json.loads(_str(reply[0]))
    times = ("registered_at", "scheduled_at", "seen_at", "seen_for", "last_success_at", "last_failure_at")
    return JobView(
        job=name,
        schedule=found["schedule"],
        fingerprint=found["fingerprint"],
        rhythm=float(found["rhythm"]),
        version=int(found["version"]),
        at=int(reply[1]) / 1e6,
        last_slot=int(found["last_slot"]),
        last_error=found["last_error"],
        running=tuple(sorted(map(int, reply[2:]))),
        **{field: int(found[field]) / 1e6 for field in times},
    )


def _row(job: str, text: bytes) -> RunView:
    found = json.loads(_str(text))
    return RunView(
        job=job,
        slot=int(found["slot"]),
        run=found["run"],
        outcome=found["outcome"],
        attempt=int(found["attempt"]),
        attempts=int(found["attempts"]),
        owner=Owner(**json.loads(found["owner"])) if found["owner"] else None,
        token=int(found["token"]),
        started_at=int(found["started_at"]) / 1e6,
        finished_at=int(found["finished_at"]) / 1e6,
        error=found["error"],
        counters=json.loads(found["counters"]),
    )
