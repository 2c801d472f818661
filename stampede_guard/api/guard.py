"""StampedeGuard: a store, a namespace and a policy. Everything that is cached goes through a guard."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack

from stampede_guard.api import decorators, urls
from stampede_guard.api.apps import fastapi
from stampede_guard.api.defaults import make_with
from stampede_guard.api.environment import (
    DEFAULT_NAMESPACE,
    NAMESPACE,
    NOT_GIVEN,
    given_namespace,
    stats_wanted,
    warn_of_unknown,
    with_environment,
)
from stampede_guard.api.identity.registry import Registry
from stampede_guard.api.keyed.plans import Plans
from stampede_guard.api.keyed.values import KeyedValues
from stampede_guard.api.keywords import (
    OWN_OF_GUARDS,
    OWN_OF_VALUES,
    CacheOptions,
    GuardOptions,
    ManyOptions,
    check_options,
)
from stampede_guard.api.sync import SyncGuard
from stampede_guard.api.tenants import Tenants
from stampede_guard.api.types import (
    NO_RESOURCES,
    CacheDecorator,
    ManyDecorator,
    Opened,
)
from stampede_guard.durations import Duration
from stampede_guard.engine.engine import Engine, ShadowCounts, StoreHealth
from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.tasks import CLOSE_PLAIN, running_loop
from stampede_guard.errors import Misuse
from stampede_guard.events import Event, Hook
from stampede_guard.options import ALL, takes_options
from stampede_guard.policy import Mode, Policy, check_fields, checked_limits, checked_policy
from stampede_guard.values.keys.explained import Explanation, explain_name

if TYPE_CHECKING:
    from stampede_guard.api.identity.definition import Definition

__all__ = ["StampedeGuard"]

T = TypeVar("T")
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
Allow = Callable[[Any], "bool | str | Awaitable[bool | str | None] | None"]
"""Gets Starlette's request."""


class StampedeGuard(KeyedValues):
    """A cache on `client`: your own `redis.asyncio.Redis` or `RedisCluster`, or a store.

    The guard uses the settings of a Redis client, not its pool. Every key begins with the `namespace`, so guards with
    different namespaces never share an entry. Its default is `$STAMPEDE_GUARD_NAMESPACE`, which the command reads too,
    and otherwise `default`. The `policy` is the default for all functions of this guard. The `limits` bound what they
    use together. The `hooks` receive the events: see `stampede_guard.events`. With `encryption`, the store holds only
    ciphertext: see docs/values.md. With `stats=True` or `$STAMPEDE_GUARD_STATS`, this process adds its sums for
    `stampede-guard stats` to the store: see docs/operators.md.
    Raises `Misuse` for a client, namespace, hook or encryption that cannot work.
    """

    _outer: StampedeGuard | None = None
    """For the guard of a tenant: the guard that it is within."""
    _is_named = True
    """Whether the program or the environment names the namespace."""

    @takes_options("StampedeGuard", own=OWN_OF_GUARDS, refuse=check_options)
    def __init__(self, client: Any, **options: Unpack[GuardOptions]) -> None:
        namespace, given_as = given_namespace(options.get("namespace", NOT_GIVEN))
        if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
            raise Misuse(f"{given_as} is not allowed: write 1 to 64 letters, digits, dots, colons, - or _")
        self._is_named = "namespace" in options or namespace != DEFAULT_NAMESPACE
        self.policy = with_environment(checked_policy(options.get("policy")))
        warn_of_unknown()
        self.limits = checked_limits(options.get("limits"))
        store = urls.store_for(client, options.get("encryption"))
        stats = stats_wanted(options.get("stats"))
        engine = Engine(store, namespace, self.limits, Hooks(options.get("hooks", ())), stats=stats)
        self._enter(namespace, engine, Plans(namespace, self.policy), Registry())

    def _enter(self, namespace: str, engine: Engine, plans: Plans, functions: Registry) -> None:
        self.namespace = namespace
        self.prefix = f"{namespace}:"
        self.engine = engine
        self._hits = engine.hits
        self._plans = plans
        self._functions = functions
        self._tenants = Tenants()

    @classmethod
    @takes_options("StampedeGuard", own=OWN_OF_GUARDS, refuse=check_options)
    def from_url(cls, url: str, **options: Unpack[GuardOptions]) -> Self:
        """`memory://`, `redis://`, `rediss://` (TLS), `unix://`, `redis+cluster://` or `redis+sentinel://`.

        Separate several hosts with commas; see docs/redis.md. The guard connects when it is first used.
        Raises `UrlError`.
        """
        return cls(urls.store_from_url(url), **options)

    # --- using it ------------------------------------------------------------------------------

    @takes_options("guard.locked_cache", own=OWN_OF_VALUES, refuse=check_fields)
    def locked_cache(
        self, *misplaced: Never, resources: Opened = NO_RESOURCES, **options: Unpack[CacheOptions]
    ) -> CacheDecorator[Opened]:
        """The decorator for this guard. It has the options of `stampede_guard.locked_cache`."""
        return decorators.locked_cache(*misplaced, guard=self, resources=resources, **options)

    @takes_options("guard.cached_many", own=OWN_OF_VALUES, refuse=check_fields)
    def cached_many(
        self, *misplaced: Never, resources: Opened = NO_RESOURCES, **options: Unpack[ManyOptions]
    ) -> ManyDecorator[Opened]:
        """The decorator for functions of many ids. It has the options of `stampede_guard.cached_many`."""
        return decorators.cached_many(*misplaced, guard=self, resources=resources, **options)

    @property
    def sync(self) -> SyncGuard:
        """The same methods for code without an event loop: `guard.sync.get(key)`. See `SyncGuard`."""
        return SyncGuard(self)

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do not use the store. One flight per key and process remains.

        This also holds for calls within their computations, and for guards `within` this one, but not in mode `off`.
        """
        with self.engine.modes.bypassed():
            yield

    @takes_options("guard.within", own=ALL)
    def within(self, tenant: str) -> StampedeGuard:
        """A guard for one tenant. Its namespace is this guard's plus the tenant's name. It opens no connections.

        It shares everything else with this guard: policy, modes, flights, limits. Raises `Misuse` for a bad name.
        """
        return self._tenants.get(self.namespace, tenant, self._for_tenant)

    def _for_tenant(self, namespace: str) -> StampedeGuard:
        made = StampedeGuard.__new__(StampedeGuard)
        made.policy, made.limits, made._outer = self.policy, self.limits, self
        plans = Plans(namespace, self.policy, self._plans)
        made._enter(namespace, self.engine.within(namespace), plans, self._functions)
        return made

    @takes_options("guard.explain", own=ALL)
    def explain(self, name: str) -> Explanation:
        """The parts of an entry's complete name: see `stampede_guard.values.keys.explained`. Raises `Misuse`."""
        return explain_name(name, namespace=self.namespace)

    def health(self) -> StoreHealth:
        """What this guard knows about its store, in all event loops and tenants. Sends nothing. See `StoreHealth`."""
        return self.engine.store.health()

    async def check_health(self) -> StoreHealth:
        """The same as `health()`, after one read from the store. For readiness probes:
        `stampede_guard.integrations.starlette`.
        """
        return await self.engine.store.check_health()

    @takes_options("guard.add_hook", own=ALL)
    def add_hook(self, hook: Hook) -> None:
        """Add a hook: see `stampede_guard.events`. Raises `Misuse` if it is not callable."""
        self.engine.hooks.add(hook)

    def report(self, event: Event, /) -> None:
        """A hook that passes events on to the hooks of this guard. Leases and jobs take it: `hooks=(guard.report,)`."""
        self.engine.hooks.tell(event)

    @takes_options("guard.install", own=ALL)
    def install(self, app: Any) -> None:
        """For FastAPI and Starlette: close the guard with the app's lifespan. Answer 503 with Retry-After for
        `WaitTimeout`, and for a store that refuses `invalidate()`. 504 for `ComputeTimeout`, and the original's status
        for `ComputeFailed`."""
        fastapi.install(self, app)

    @takes_options("guard.console", own=("allow",))
    def console(
        self,
        *,
        allow: Allow | None = None,
        actions: Iterable[str] = (),
        shows_names: bool = False,
        leases: Any = None,
        jobs: Any = None,
    ) -> AsgiApp:
        """Pages about the running fleet: `app.mount("/ops", guard.console(allow=is_admin))`. Needs the extra `console`.

        `allow(request)` returns True, or the user's name for the audit records; it may be a coroutine function. Without
        it, every answer is 403. `actions` names what may be done, for example `("mode",)`; nothing by default.
        `shows_names`: show names of entries, which contain values of parameters, instead of hashes. `leases`: a client
        of leases, for pages about them and about jobs. `jobs`: the `Jobs` of this process, whose leases are shown then,
        and which can be run by hand. Raises `Misuse`. See docs/operators.md.
        """
        # The pages are a floor above this one, so nothing here imports them. The package loads the class when it is
        # asked for, like its public names.
        app: AsgiApp = sys.modules[__name__.partition(".")[0]].ConsoleApp(
            self, allow=allow, actions=actions, shows_names=shows_names, leases=leases, jobs=jobs
        )
        return app

    @property
    def mode(self) -> Mode | None:
        """The mode of all functions of this guard that do not set their own. None: the mode of the policy.

        It can be changed at any time, but an operator has priority: `stampede-guard mode` and `$STAMPEDE_GUARD_MODE`
        override the value set here. See `stampede_guard.engine.modes.modes`.
        """
        return self.engine.modes.of_all

    @mode.setter
    def mode(self, mode: Mode | None) -> None:
        if self._outer is not None:
            raise Misuse(
                "a tenant's guard has the mode of its outer guard: set the mode there, or on a function"
            )
        self.engine.modes.set_program(mode)

    @takes_options("guard.switch_mode", own=("sample", "lasting"))
    async def switch_mode(
        self,
        function: str,
        mode: Mode | None,
        *,
        sample: float | None = None,
        lasting: Duration | None = None,
        by: str = "switch_mode",
    ) -> int:
        """Switch a function, by its name, or `"*"` for all, in the whole running fleet, as `stampede-guard mode` does.

        It comes before the modes that the program and the environment of each process set. None removes the switch.
        `sample`: with `on` and `shadow`, the share of keys. `lasting`: seconds, or `"30m"`; None: until it is changed.
        `by`: who, for the console. Returns how many connections heard of it; the others read it within about five
        seconds. If this process has called a function that uses the store, it follows before this returns. With
        `memory://`, the fleet is this process. Raises `Misuse`, `PolicyError` and `StoreError`.
        """
        if self._outer is not None:
            raise Misuse("a tenant's guard has the switches of its outer guard: call switch_mode there")
        return await self.engine.modes.switch(function, mode, sample=sample, lasting=lasting, by=by)

    def shadow_report(self) -> dict[str, ShadowCounts]:
        """Results of mode `shadow` in this process, by function. See
        `stampede_guard.engine.modes.shadow.ShadowCounts`.
        """
        return self.engine.modes.shadow_report()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of plain functions: see `close`.

        The guard can be used again afterwards. It then connects again. A tenant's guard does nothing: its connections
        belong to the outer guard.
        """
        if self._outer is None:
            await self.engine.aclose()

    def close(self) -> None:
        """Close the connections of plain functions: drain flights for `drain_timeout` s, release leases, disconnect.

        For a program without an event loop. It also runs when the process ends, and within `await aclose()`.
        """
        if self._outer is None:
            self.engine.close()

    async def __aenter__(self) -> Self:
        running_loop(CLOSE_PLAIN)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def policies(self) -> dict[str, Policy]:
        """The policy of each function that this guard has decorated in this process, by name."""
        named = self._functions.fields_of(self.namespace)
        return {name: self.policy.replace(**fields) for name, fields in named.items()}

    # --- for the decorators, blocks and batches --------------------------------------------------

    def register(self, name: str, definition: Definition) -> None:
        """Register a function that this guard caches. Raises `KeyPartError` if another function has its name."""
        self._functions.add(self.namespace, name, definition, shared=self.engine.store.is_shared)

    def register_all(self, functions: Registry) -> None:
        """Register the functions of bare decorators. Raises `KeyPartError`."""
        self._functions.add_all(self.namespace, functions, shared=self.engine.store.is_shared)


make_with(StampedeGuard.from_url)
