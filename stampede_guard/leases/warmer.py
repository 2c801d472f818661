"""Warmers: the elected worker refreshes hot keys before they expire, so that users never wait for a cold key.

    warmer = leases.warmer(guard)           # one per process
    app = FastAPI(lifespan=warmer.lifespan)

Every process learns from its own guard which keys are called most, and how to compute them. The elected process
refreshes the keys that it has learnt. Use `warmer.keep(quality, 7)` for a key that must be warm even if it was never
called in that process.

A key is refreshed `ahead` seconds before its expiry, or earlier if its last computation took longer than half of that.
A warmer learns only functions whose computation may outlive its caller. It does not learn functions with a session of
the request (`unkeyed=`), plain functions in threads, or functions of tenants.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Self, Unpack

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, StampedeError
from stampede_guard.events import Computed, Event
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import TimingOptions
from stampede_guard.leases.election import Election, OnLeader
from stampede_guard.leases.keeping.loop_state import log
from stampede_guard.leases.lease import Lease
from stampede_guard.options import refuse_others
from stampede_guard.values.arguments.signatures import signature_of
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.api.types import CachedFunction
    from stampede_guard.engine.plan import Plan, Run
    from stampede_guard.leases.client import Leases

__all__ = ["Warmer", "WarmerOptions"]

P = ParamSpec("P")

CANDIDATES = 8
"""How many keys are counted, as a multiple of `most`."""
HALVED_EVERY = 10.0
"""Seconds until a call counts half as much. So yesterday's hot keys are replaced."""
SCANNED = 10
"""After this many calls of uncounted keys, as a multiple of the counted keys, all counts are halved."""
AHEAD = 0.1
"""The default of `ahead`, as a part of the key's `ttl`."""


class ElectionOptions(TimingOptions, total=False):
    """Options of the warmer's election."""

    on_lost: OnLeader | None
    lease_ttl: Duration


class WarmerOptions(ElectionOptions, total=False):
    """Options of `leases.warmer(guard)`: see `Warmer`."""

    most: int
    at_once: int
    every: Duration
    ahead: Duration | None
    least: float


@dataclass(slots=True, eq=False)
class _Key:
    plan: Plan
    key: str
    name: str
    run: Run
    calls: float = 0.0
    took: float = 0.0
    look_at: float = 0.0


class Warmer:
    """Made by `Leases.warmer`. `most`: how many keys are kept warm. `at_once`: computations at a time.

    `every`: seconds between two checks of the keys. `ahead`: a key is refreshed this many seconds before it expires
    (default: a tenth of its `ttl`). `least`: a key is hot after about this many calls within `HALVED_EVERY` seconds.
    Raises `PolicyError`, and `Misuse` if `guard` is not a guard.
    """

    def __init__(
        self,
        client: Leases,
        guard: StampedeGuard,
        name: str = "warmer",
        *,
        most: int = 100,
        at_once: int = 4,
        every: Duration = 1.0,
        ahead: Duration | None = None,
        least: float = 2.0,
        **election: Unpack[ElectionOptions],
    ) -> None:
        checks.whole("most", most, least=1)
        checks.whole("at_once", at_once, least=1)
        self._every = checks.seconds("every", every, above=True)
        self._ahead = None if ahead is None else checks.seconds("ahead", ahead)
        checks.count("least", least)
        refuse_others("a warmer", election, WarmerOptions.__annotations__)
        if not hasattr(guard, "engine"):
            raise Misuse(f"leases.warmer(guard) warms a StampedeGuard, not a {type(guard).__name__}")
        self.guard = guard
        self.election: Election = client.election(name, on_elected=self._warm, **election)
        self._most, self._at_once, self._least = most, at_once, least
        self._lock = threading.Lock()
        renew_in_children(self, "_lock")
        self._keys: dict[str, _Key] = {}
        self._kept: dict[str, Callable[[], Any]] = {}
        self._failed: set[str] = set()
        self._turned_away = 0
        self._turns = asyncio.Semaphore(at_once)
        guard.engine.watch(self._called)
        guard.add_hook(self._heard)

    def keep(self, function: CachedFunction[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Keep this call of a cached function warm, even if it is rarely called. May be called at any time.

        All names are the function's own. Raises `Misuse` for a function that this guard does not cache, for a plain
        one, and for arguments that it does not take.
        """
        if not hasattr(function, "refresh") or not hasattr(function, "key"):
            raise Misuse(
                "warmer.keep(function, ...) takes a function decorated with @locked_cache, and its arguments"
            )
        title = getattr(function, "__qualname__", "the function")
        taken = signature_of(function)
        kinds = {parameter.kind for parameter in taken.parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            refuse_others(title, kwargs, taken.parameters)
        try:
            taken.bind(*args, **kwargs)
        except TypeError as error:
            raise Misuse(f"warmer.keep({title}, ...) does not fit {title}{taken}: {error}") from None
        name = function.key(*args, **kwargs)
        if not name.startswith(self.guard.prefix):
            raise Misuse(f"{title} is cached by another guard, and this warmer cannot refresh its entries")
        if not inspect.iscoroutinefunction(function):
            raise Misuse(
                f"{title} is a plain function. A warmer refreshes coroutine functions only (async def)"
            )
        self._kept[name] = lambda: function(*args, **kwargs)

    @property
    def hot(self) -> list[str]:
        """The names of the entries that this process would keep warm now. For operators: names contain parameters."""
        return [key.name for key in self._hottest()]

    # --- learning; these methods run in the thread of the call

    def _called(self, plan: Plan, key: str, run: Run) -> None:
        if plan.request_bound or plan.in_thread:
            return
        name = self.guard.prefix + key
        with self._lock:
            known = self._keys.get(name)
            if known is None:
                if len(self._keys) >= CANDIDATES * self._most and not self._makes_place():
                    return
                known = self._keys[name] = _Key(plan, key, name, run)
            known.calls += 1.0
            known.run = run

    def _makes_place(self) -> bool:
        """Whether a new key finds a place in the full table, after halving if necessary.

        This also works in processes that are not elected: only the elected one halves the counts by time.
        """
        self._turned_away += 1
        if self._turned_away < SCANNED * len(self._keys):
            return False
        self._turned_away = 0
        self._halve_all()
        return len(self._keys) < CANDIDATES * self._most

    def _heard(self, event: Event) -> None:
        if isinstance(event, Computed) and not event.error:
            known = self._keys.get(event.entry)
            if known is not None:
                known.took = max(event.seconds, known.took / 2)

    def _hottest(self) -> list[_Key]:
        with self._lock:
            hot = [key for key in self._keys.values() if key.calls >= self._least or key.name in self._kept]
        hot.sort(key=lambda key: (key.name not in self._kept, -key.calls))
        return hot[: self._most]

    def _halve(self) -> None:
        with self._lock:
            self._halve_all()

    def _halve_all(self) -> None:
        for key in list(self._keys.values()):
            key.calls /= 2
            if key.calls < 0.5 and key.name not in self._kept:
                del self._keys[key.name]

    # --- warming, in the elected process

    async def _warm(self, lease: Lease) -> None:
        part = self.election.part
        assert part is not None
        halving = part.begin(self._forget(part.pause), name="forgets cold keys")
        try:
            while lease.remaining() > 0:
                await self._meet_those_kept()
                await self._look(part.world.now())
                await part.pause(self._every)
        finally:
            halving.cancel()

    async def _meet_those_kept(self) -> None:
        """Call each kept function once: the warmer learns from the call how to compute it."""
        for name, call in list(self._kept.items()):
            if name not in self._keys:
                await self._guarded(name, call)

    async def _forget(self, pause: Callable[[float], Any]) -> None:
        while True:
            await pause(HALVED_EVERY)
            self._halve()

    async def _look(self, now: float) -> None:
        due = [key for key in self._hottest() if key.look_at <= now]
        async with asyncio.TaskGroup() as group:
            for key in due:
                group.create_task(self._one(key, now))

    async def _one(self, key: _Key, now: float) -> None:
        lead = max(2 * key.took, 2 * self._every, self._lead_of(key.plan))
        left = await self._fresh_for(key)
        if left > lead:
            key.look_at = now + min(left - lead, self._lead_of(key.plan) or left)
            return
        key.look_at = now + self._every

        async def refresh() -> Any:
            return await self.guard.engine.refresh(key.plan, key.name, key.run)

        async with self._turns:
            await self._guarded(key.name, refresh)

    def _lead_of(self, plan: Plan) -> float:
        return self._ahead if self._ahead is not None else AHEAD * plan.policy.ttl

    async def _fresh_for(self, key: _Key) -> float:
        """Seconds for which the stored value stays fresh; 0 if there is no value."""
        try:
            return await self.guard.engine.store.fresh_for(key.name)
        except StampedeError:
            # The store is away: do not refresh.
            return float("inf")

    async def _guarded(self, name: str, call: Callable[[], Any]) -> None:
        function = name.removeprefix(self.guard.prefix).partition(":")[0]
        try:
            await call()
            self._failed.discard(function)
        except Exception as error:
            # Log once per function, until one of its keys can be refreshed again.
            if function not in self._failed:
                self._failed.add(function)
                log.warning("the warmer could not refresh a key of %s: %r", function, error)

    # --- life

    async def __aenter__(self) -> Self:
        # The warmer may have been stopped before, perhaps in another event loop.
        self.guard.engine.watch(self._called)
        self._turns = asyncio.Semaphore(self._at_once)
        self.election.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.election.stop()
        self.guard.engine.watch(None)

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """`FastAPI(lifespan=warmer.lifespan)`."""
        async with self:
            yield
