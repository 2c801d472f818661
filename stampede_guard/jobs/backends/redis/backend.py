"""Slots and runs in Redis or Valkey, through the connections of the leases' back end.

If a restart empties the server, the workers register their jobs again. Then no slot from before the start of the server
gets an outcome, because it may have had one. But the server cannot detect that an older snapshot or a promoted replica
lacks the last writes. Such a slot may run twice. Keep runs in PostgreSQL if that must not happen.

A script blocks every client of the server, so no script reads more than `AT_ONCE` runs. Each outcome has a sorted set
of its slots, so a query for a rare outcome does not read the others. Workers of an older version do not write these
sets. Then the sizes of the sets do not add up, and the next query for an outcome rebuilds them, some runs at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from stampede_guard.errors import StoreRefused
from stampede_guard.jobs.backends.redis.reading import job_of, run_of, text_of
from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobPoll,
    JobView,
    Outcome,
    Outdated,
    Paused,
    PollAnswer,
    Registration,
    RunView,
    Taken,
)
from stampede_guard.jobs.rules import LONGEST_BY, LONGEST_ERROR, MOST_RUNS
from stampede_guard.leases.redis.scripts import Scripts
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.wire import name_bytes

__all__ = ["RedisRuns"]

log = logging.getLogger("stampede_guard")

AT_ONCE = 100
"""The most runs that one script reads. For more, call it again; other clients get their turn in between."""
PRUNED_AT_ONCE = 40
"""The most runs that one script writes or deletes, because that is more work."""
_INDEXED: tuple[Outcome, ...] = ("completed", "failed", "missed", "skipped", "abandoned")
"""Outcomes that have a sorted set of their own, in the order of the KEYS."""
_LOOKED_AT = 100
"""The most jobs in one call of `look.lua`."""
_MARKED = 5
"""The most vanished runs of one job that `look.lua` marks."""
_SWEPT = 20
"""The most runs that `sweep.lua` marks in one call."""


def _keys(name: str) -> tuple[bytes, ...]:
    tag = b"{%b}:" % name_bytes(name)
    words = (b"job", b"runs", b"slots", b"running", b"again", *(word.encode() for word in _INDEXED))
    return tuple(tag + word for word in words)


def _keys_of_all(names: str) -> tuple[bytes, ...]:
    return tuple(key for name in names.split("\0") for key in _keys(name))


def _script(name: str, keys_of: Callable[[str], tuple[bytes, ...]] = _keys) -> Script:
    return Script(name, keys_of=keys_of, package="stampede_guard.jobs.backends.redis")


_REGISTER = _script("register")
_FOLLOW = _script("follow")
_TAKE_OVER = _script("take_over")
_LOOK = _script("look", _keys_of_all)
_CLAIM = _script("claim")
_PAUSE = _script("pause")
_RESUME = _script("resume")
_BEAT = _script("beat")
_FINISH = _script("finish")
_RECORD = _script("record")
_SWEEP = _script("sweep")
_RETRIABLE = _script("retriable")
_VIEW = _script("view")
_HISTORY = _script("history")
_INDEX = _script("index")
_PRUNE = _script("prune")
_FORGET = _script("forget")
_TITLES = _script("titles")


class RedisRuns:
    """A `RunBackend`. `scripts` belong to the leases' back end, which closes them. `trusts`: see `RedisBackend`."""

    def __init__(self, scripts: Scripts, *, trusts: bool) -> None:
        self._scripts = scripts
        self._trusts = b"1" if trusts else b"0"

    async def register(self, registration: Registration, *, timeout: float) -> JobView:
        # Add the name first. If a job were not listed, no operator would see that it does not run.
        await self._titles(b"add", name_bytes(registration.job), timeout=timeout)
        args = (*_schedule(registration), self._trusts)
        return job_of(registration.job, await self._run(_REGISTER, registration.job, *args, timeout=timeout))

    async def follow(self, registration: Registration, *, timeout: float) -> JobView | None:
        job = registration.job
        reply = await self._run(_FOLLOW, job, *_schedule(registration), timeout=timeout)
        return job_of(job, reply) if reply else None

    async def register_all(self, registrations: Sequence[Registration], *, timeout: float) -> list[JobView]:
        found: list[JobView] = []
        # A worker does this once. It sends some at a time, so that a deployment does not send thousands at once.
        for begin in range(0, len(registrations), _LOOKED_AT):
            some = registrations[begin : begin + _LOOKED_AT]
            found += await asyncio.gather(*[self.register(one, timeout=timeout) for one in some])
        return found

    async def look(self, looks: Sequence[JobPoll], *, again: int, timeout: float) -> list[PollAnswer]:
        # In a cluster, jobs are in different hash slots, and a script can use only one hash slot.
        at_once = 1 if self._scripts.in_slots else _LOOKED_AT
        found: list[PollAnswer] = []
        for begin in range(0, len(looks), at_once):
            found += await self._looked(looks[begin : begin + at_once], again, timeout)
        return found

    async def _looked(self, looks: Sequence[JobPoll], again: int, timeout: float) -> list[PollAnswer]:
        args: list[bytes] = []
        for look in looks:
            args += [*_schedule(look.registration), b"%d" % _MARKED, b"%d" % look.attempts, b"%d" % again]
        names = "\0".join(f"{look.registration.job}.job" for look in looks)
        reply = await self._scripts.run(_LOOK, *args, name=names, timeout=timeout)
        found: list[PollAnswer] = []
        for look, (view, marked, tried, more) in zip(looks, reply, strict=True):
            job = look.registration.job
            seen = PollAnswer(
                job_of(job, view) if view else None,
                tuple(sorted((run_of(job, row) for row in marked), key=lambda row: row.slot)),
                tuple(run_of(job, row) for row in tried),
            )
            found.append(await self._rest(look, seen, again, timeout) if more else seen)
        return found

    async def _rest(self, look: JobPoll, seen: PollAnswer, again: int, timeout: float) -> PollAnswer:
        """Fetch the rest of one job: `look.lua` reached its limits."""
        job = look.registration.job
        vanished = sorted((*seen.vanished, *await self.sweep(job, timeout=timeout)), key=lambda run: run.slot)
        tried = seen.again
        if look.attempts > 1:
            tried = tuple(await self.retriable(job, attempts=look.attempts, limit=again, timeout=timeout))
        return PollAnswer(await self.view(job, timeout=timeout), tuple(vanished), tried)

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
                return Outdated(text_of(schedule))
            case [b"paused", bytes(by)]:
                return Paused(text_of(by))
        raise StoreRefused("a script of the runs gave an answer of an unknown shape")

    async def pause(self, job: str, *, by: str, timeout: float) -> JobView | None:
        reply = await self._run(_PAUSE, job, name_bytes(by[:LONGEST_BY]), timeout=timeout)
        return job_of(job, reply) if reply else None

    async def resume(self, job: str, *, timeout: float) -> JobView | None:
        reply = await self._run(_RESUME, job, timeout=timeout)
        return job_of(job, reply) if reply else None

    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float
    ) -> bool:
        args = (b"%d" % slot, run.encode(), _us(alive_for), b"%d" % token)
        return bool(await self._run(_BEAT, job, *args, timeout=timeout, renewal=True))

    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float) -> bool:
        if ending.outcome == "running":
            raise ValueError("a run cannot end with the outcome 'running'")
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
        recorded = 0
        for begin in range(0, len(slots), PRUNED_AT_ONCE):
            some = (b"%d" % slot for slot in slots[begin : begin + PRUNED_AT_ONCE])
            args = (outcome.encode(), name_bytes(error[:LONGEST_ERROR]), *some)
            recorded += int(await self._run(_RECORD, job, *args, timeout=timeout))
        return recorded

    async def sweep(self, job: str, *, timeout: float) -> list[RunView]:
        rows: list[RunView] = []
        while True:
            marked = await self._run(_SWEEP, job, timeout=timeout)
            rows += [run_of(job, text) for text in marked]
            if len(marked) < _SWEPT:
                break
        return sorted(rows, key=lambda row: row.slot)

    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float) -> list[RunView]:
        found: list[RunView] = []
        offset = 0
        while len(found) < limit:
            args = (b"%d" % attempts, b"%d" % (limit - len(found)), b"%d" % offset, b"%d" % AT_ONCE)
            looked, *texts = await self._run(_RETRIABLE, job, *args, timeout=timeout)
            found += [run_of(job, text) for text in texts]
            offset += looked
            if looked < AT_ONCE:
                break
        return found

    async def view(self, job: str, *, timeout: float) -> JobView | None:
        reply = await self._run(_VIEW, job, timeout=timeout)
        return job_of(job, reply) if reply else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[JobView]:
        titles, cursor = set[str](), b"0"
        while True:
            cursor, *some = await self._titles(b"some", cursor, timeout=timeout)
            titles.update(name for name in map(text_of, some) if name.startswith(prefix))
            if cursor == b"0":
                break
        names = sorted(titles)[:limit]
        found = await asyncio.gather(*[self._listed(name, timeout) for name in names])
        return [view for view in found if view is not None]

    async def _listed(self, job: str, timeout: float) -> JobView | None:
        try:
            return await self.view(job, timeout=timeout)
        except StoreRefused as error:
            if error.kind != "other" or error.may_pass:
                raise
            # One job whose keys another program uses must not hide all others.
            log.error("job %s is not listed: %s", job, error)
            return None

    async def history(
        self,
        job: str,
        *,
        limit: int,
        before: int | None = None,
        outcomes: Sequence[Outcome] = (),
        timeout: float,
    ) -> list[RunView]:
        found: list[RunView] = []
        indexed = False
        while len(found) < limit:
            some = min(limit - len(found), AT_ONCE)
            args = (
                b"%d" % some,
                b"" if before is None else b"%d" % before,
                b"1" if indexed else b"0",
                *(word.encode() for word in outcomes),
            )
            lacking, *texts = await self._run(_HISTORY, job, *args, timeout=timeout)
            if lacking == b"1":
                await self._index(job, timeout=timeout)
                indexed = True
                continue
            rows = [run_of(job, text) for text in texts]
            found += [row for row in rows if not outcomes or row.outcome in outcomes]
            if len(rows) < some:
                break
            before = rows[-1].slot
        return found

    async def _index(self, job: str, *, timeout: float) -> None:
        """Put every run into the sorted set of its outcome, and remove the slots whose runs are gone."""
        for order in (b"", *(word.encode() for word in _INDEXED)):
            before = b""
            while True:
                before = await self._run(_INDEX, job, order, before, b"%d" % PRUNED_AT_ONCE, timeout=timeout)
                if not before:
                    break

    async def prune(
        self, job: str, *, keep: int, older_than: float, most: int = MOST_RUNS, timeout: float
    ) -> int:
        pruned: int = 0
        offset = 0
        while True:
            args = (b"%d" % keep, _us(older_than), b"%d" % most, b"%d" % offset, b"%d" % PRUNED_AT_ONCE)
            gone, passed, more = await self._run(_PRUNE, job, *args, timeout=timeout)
            pruned, offset = pruned + gone, offset + passed
            if not more:
                return pruned

    async def forget(self, job: str, *, timeout: float) -> bool:
        known = bool(await self._run(_FORGET, job, timeout=timeout))
        await self._titles(b"drop", name_bytes(job), timeout=timeout)
        return known

    async def aclose(self) -> None:
        """Nothing to close: the connections belong to the leases, and are closed with them."""

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
