"""Mode `shadow`: every caller computes for itself. A look finds out what the guard would have served.

The caller gets the plain function's result, at the time when the function returns. No error of the store reaches the
caller. A look reads the stored value when the call begins and compares it with the computed one. Values are also
stored, so that later looks find some. They are stored under a name of their own (`kept_name`), which only looks read.
They were computed in their caller's context, with that caller's tenant and user. So they must not be served: not in
mode `on`, and not later.

In the protocol, a token comes before the computation whose value it admits. Otherwise a value read before an
invalidation could be stored after it. In this mode no caller waits for a token. A look that finds nothing gets a token
for the next call of the same entry. So a key's first stored value is that of its second call in a process. A kept value
carries the token of its entry. It does not count when the entry's record does not admit this token. So an invalidation
needs no knowledge of kept values.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Granted
from stampede_guard.core.tags import Versions, is_current, resealed
from stampede_guard.engine.calls import unchanged
from stampede_guard.engine.modes.kept import closed, kept_name, opened
from stampede_guard.engine.putting import admits, granted_ahead, publish, stored
from stampede_guard.engine.tags.versions import VersionsAsked, ensure, tags_of
from stampede_guard.engine.verdict import Verdict, judge
from stampede_guard.errors import StampedeError, StoreError, Undecodable
from stampede_guard.events import Compared, Comparison
from stampede_guard.values.codec.likeness import same

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run
    from stampede_guard.policy import Policy

__all__ = ["Look", "Shadow", "ShadowCounts", "on_its_loop"]

log = logging.getLogger("stampede_guard")

MOST_LOOKS = 64
"""Concurrent looks per event loop. Calls beyond this number are not looked at."""
MOST_TOKENS = 1024
"""Limit of tokens kept for the next call of an entry. The oldest is dropped first."""
MOST_TITLES = 256
"""Functions with counts of their own. All other functions are counted together as `OTHERS`."""
OTHERS = "(others)"
CLOSE_SECONDS = 1.0
LOG_SECONDS = 60.0
"""Minimum time between two log lines about differences of one function."""


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """Calls of one function, by the value that the guard would have served.

    `same`, `different`: a fresh value, compared with the computed one. `stale_same`, `stale_different`: a stale one.
    `missing`: no value; the guard would have computed. `unseen`: no look, because the store was away or too many looks
    were running. `unsupported`: the result cannot or must not be stored. `stored`: results that were stored.
    """

    same: int = 0
    different: int = 0
    stale_same: int = 0
    stale_different: int = 0
    missing: int = 0
    unseen: int = 0
    unsupported: int = 0
    stored: int = 0

    def __add__(self, other: ShadowCounts) -> ShadowCounts:
        names = [field.name for field in fields(self)]
        return ShadowCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


class _Token(NamedTuple):
    """The permission to store a value whose computation begins after the token was obtained, and before `until`.

    `grant` belongs to the entry. `place` belongs to the name under which the value is kept.
    """

    grant: Granted
    place: Granted
    flight: str
    versions: Versions
    until: float


class _Found(NamedTuple):
    """`outdated`: token of the entry's value if its tags are outdated. `kept_outdated`: the same for the kept value."""

    reading: Reading | None
    outdated: int = 0
    kept_outdated: int = 0


class Look:
    """One look at one call. Created before the computation, in any thread. The rest runs on the guard's event loop."""

    def __init__(self, shadow: Shadow, plan: Plan, name: str, tags: tuple[str, ...] = ()) -> None:
        self.plan = plan
        self.name = name
        self.tags = tags
        self.kept = kept_name(name)
        self.token = shadow.take_token(name)
        self.verdict: asyncio.Future[Verdict | None] | None = None
        """The encoded result of the call. None if it cannot be encoded."""
        self._shadow = shadow

    def start(self) -> None:
        self.verdict = self._shadow.admit(self)

    def judged(self, value: Any) -> Verdict | None:
        """Judge the value at once, before the caller gets it and may change it."""
        try:
            return judge(self.plan, value, None)
        except StampedeError as error:
            self._shadow.warn_unsupported(self.plan, str(error))
        except KeyboardInterrupt:
            self.failed()
            raise
        except BaseException as error:  # a user's error about the value: do not log its text
            self._shadow.warn_unsupported(self.plan, type(error).__name__)
        return None

    def computed(self, verdict: Verdict | None) -> None:
        if self.verdict is not None and not self.verdict.done():
            self.verdict.set_result(verdict)

    def failed(self) -> None:
        if self.verdict is not None:
            self.verdict.cancel()


class Shadow:
    """The looks of one event loop's runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self.counts: dict[str, ShadowCounts] = {}
        self._runtime = runtime
        self._looks: set[asyncio.Task[None]] = set()
        self._tokens: dict[str, _Token] = {}
        self._asking: set[str] = set()
        self._logged: dict[str, float] = {}

    async def call(self, plan: Plan, name: str, run: Run) -> Any:
        """The result or error of the plain function."""
        look = Look(self, plan, name, tags_of(run))
        look.start()
        try:
            value = await run()
        except BaseException:
            look.failed()
            raise
        if look.verdict is not None:
            look.computed(look.judged(value) if unchanged(run) else None)
        return value

    async def call_many(
        self,
        plan: Plan,
        entries: Mapping[Any, tuple[str, tuple[str, ...]]],
        run: Run,
        absent: Any,
    ) -> Any:
        """The same for a function of many ids. `entries`: names and tags of the ids that are looked at."""
        looks = {id: Look(self, plan, name, tags) for id, (name, tags) in entries.items()}
        for look in looks.values():
            look.start()
        try:
            values = await run()
        except BaseException:
            for look in looks.values():
                look.failed()
            raise
        known = isinstance(values, Mapping)
        for id, look in looks.items():
            if look.verdict is not None:
                look.computed(look.judged(values.get(id, absent)) if known else None)
        return values

    # --- looks ---------------------------------------------------------------------------------

    def admit(self, look: Look) -> asyncio.Future[Verdict | None] | None:
        """Begin to look. None if too many looks are running."""
        runtime = self._runtime
        if len(self._looks) >= MOST_LOOKS or runtime.closing or runtime.away_for(look.name, look.tags):
            self._report(look, "unseen")
            return None
        verdict: asyncio.Future[Verdict | None] = runtime.loop.create_future()
        # An empty context: the look may live longer than its caller.
        task = runtime.loop.create_task(
            self._look(look, verdict), name="stampede_guard shadow", context=Context()
        )
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        return verdict

    async def _look(self, look: Look, computed: asyncio.Future[Verdict | None]) -> None:
        plan, seen = look.plan, True
        found = _Found(None)
        try:
            found = await self._find(look)
        except StoreError:
            seen = False
        reading = found.reading
        fresh = reading is not None and reading.is_fresh
        if seen and not fresh and look.token is None:
            await self._get_token(look, found)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({computed})
            if computed.cancelled():
                return
            verdict = computed.result()
            if verdict is None or verdict.policy is None:
                self._report(look, "unsupported")
                return
            self._report(look, _compared(plan, reading, verdict.body) if seen else "unseen", reading)
            if seen and not fresh and look.token is not None:
                await self._store(look, look.token, verdict.body, verdict.policy)

    async def _find(self, look: Look) -> _Found:
        """The value that mode `on` would have found, or a kept one; and the tokens of outdated values."""
        runtime = self._runtime
        versions = VersionsAsked(runtime, look.tags) if look.tags else None
        served, kept = await stored(runtime, look.name, look.kept)
        outdated = kept_outdated = 0
        compared = opened(kept) if kept is not None else None
        if kept is not None and (compared is None or not await admits(runtime, look.name, compared.grant)):
            kept_outdated, compared = kept.token, None
        reading = compared.reading if compared is not None else None
        if versions is not None:
            now = await versions.answer()
            if served is not None and not is_current(served.body, now):
                outdated, served = served.token, None
            if reading is not None and kept is not None and not is_current(reading.body, now):
                kept_outdated, reading = kept.token, None
        found = [one for one in (reading, served) if one is not None]
        # A value that mode `on` has stored, in this process or another, is the one that it would serve.
        found.sort(key=lambda one: (one.is_fresh, one is served))
        return _Found(found[-1] if found else None, outdated, kept_outdated)

    def take_token(self, name: str) -> _Token | None:
        """A token obtained before now. A computation that begins now may be stored with it."""
        token = self._tokens.pop(name, None)
        return token if token is not None and self._runtime.loop.time() < token.until else None

    async def _get_token(self, look: Look, found: _Found) -> None:
        """Get a token of the entry and of the kept name. Release each lease at once: no caller should wait for it."""
        name = look.name
        if name in self._asking or name in self._tokens:
            return
        runtime, flight, policy = self._runtime, self._runtime.new_id(), _lasting(look.plan.policy)
        self._asking.add(name)
        try:
            grant = await granted_ahead(runtime, name, flight, policy, newer_than=found.outdated)
            if grant is None:
                return
            place = await granted_ahead(runtime, look.kept, flight, policy, newer_than=found.kept_outdated)
            if place is None:
                return
            versions = await ensure(runtime, look.tags, policy) if look.tags else ()
            # `take_token` is called in other threads.
            if len(self._tokens) >= MOST_TOKENS:
                self._tokens.pop(next(iter(list(self._tokens)), ""), None)
            until = runtime.loop.time() + policy.compute_timeout
            self._tokens[name] = _Token(grant, place, flight, versions, until)
        except StoreError:
            pass
        finally:
            self._asking.discard(name)

    async def _store(self, look: Look, token: _Token, body: bytes, policy: Policy) -> None:
        if look.tags:
            body = resealed(body, token.versions)
        runtime, body = self._runtime, closed(body, token.grant)
        with contextlib.suppress(StoreError):
            if await admits(runtime, look.name, token.grant) and await publish(
                runtime, look.kept, token.flight, token.place, body, policy
            ):
                title = self._title(look.plan)
                self.counts[title] = self.counts.get(title, ShadowCounts()) + ShadowCounts(stored=1)

    # --- reports ---------------------------------------------------------------------------------

    def _report(self, look: Look, found: Comparison, reading: Reading | None = None) -> None:
        """The only place that reports the result of a look."""
        plan = look.plan
        if self._runtime.hooks:
            self._runtime.hooks.tell(Compared(plan.title, look.name, found))
        title = self._title(plan)
        counts = self.counts.get(title, ShadowCounts()) + ShadowCounts(**{found: 1})
        self.counts[title] = counts
        if reading is None or found not in ("different", "stale_different"):
            return
        now = self._runtime.loop.time()
        if now < self._logged.get(title, now):
            return
        self._logged[title] = now + LOG_SECONDS
        # Do not log the key or the values: they may be private.
        log.warning(
            "%s: mode shadow would have served a %s value, stored %.1f s ago, that differs from the computed one "
            "(so far %d of %d found values differ)",
            plan.title,
            "fresh" if reading.is_fresh else "stale",
            max(0, reading.total_ms - reading.remaining_ms) / 1000,
            counts.different + counts.stale_different,
            counts.different + counts.stale_different + counts.same + counts.stale_same,
        )

    def _title(self, plan: Plan) -> str:
        return plan.title if plan.title in self.counts or len(self.counts) < MOST_TITLES else OTHERS

    def warn_unsupported(self, plan: Plan, why: str) -> None:
        self._runtime.warn_once(plan, "shadow", f"{plan.title}: could not be cached in mode on: {why}")

    async def aclose(self) -> None:
        looks = list(self._looks)
        for look in looks:
            look.cancel()
        if looks:
            await asyncio.wait(looks, timeout=CLOSE_SECONDS)


def on_its_loop(runtime: Runtime, look: Look, compute: Callable[[], Any]) -> Any:
    """`Shadow.call` for a plain function, in its caller's thread."""
    tell = runtime.loop.call_soon_threadsafe
    tell(look.start)
    try:
        value = compute()
    except BaseException:
        tell(look.failed)
        raise
    tell(look.computed, look.judged(value))
    return value


def _compared(plan: Plan, reading: Reading | None, body: bytes) -> Comparison:
    if reading is None:
        return "missing"
    try:
        equal = reading.body == body or same(plan.decode(reading.body), plan.decode(body))
    except Undecodable:
        return "missing"
    except BaseException:  # from a property of a user's class; it must end neither the look nor the loop
        equal = False
    if reading.is_fresh:
        return "same" if equal else "different"
    return "stale_same" if equal else "stale_different"


def _lasting(policy: Policy) -> Policy:
    """The policy with a record that lives as long as the value could be served, because the next call may be late."""
    seconds = min(max(policy.compute_timeout, policy.ttl + policy.stale_ttl), 366 * 86_400.0)
    return policy.replace(compute_timeout=max(policy.compute_timeout, seconds))
