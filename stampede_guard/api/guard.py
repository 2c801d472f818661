"""StampedeGuard: a store, a namespace and a policy. Everything that is cached goes through a guard."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from stampede_guard.api import decorators, fastapi, urls
from stampede_guard.api.environment import NOT_GIVEN, given_namespace
from stampede_guard.api.identity.registry import Registry
from stampede_guard.api.plans import Plans, computation_of, entry_key
from stampede_guard.api.single import Single
from stampede_guard.api.sync import SyncGuard
from stampede_guard.api.types import CacheDecorator, Invalidation, ManyDecorator
from stampede_guard.engine.away.health import StoreHealth
from stampede_guard.engine.calls import following
from stampede_guard.engine.healthcheck import check_health
from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.invalidating import outdate_entry, outdate_tag
from stampede_guard.engine.l1 import L1
from stampede_guard.engine.loops.event_loops import PerEventLoop
from stampede_guard.engine.plan import Plan, Run
from stampede_guard.engine.refreshing import refresh
from stampede_guard.engine.serving import serve, serve_bypassed
from stampede_guard.engine.tags.templates import checked_tags, tag_key, tag_names
from stampede_guard.engine.tags.versions import tagged, tags_of
from stampede_guard.engine.threads.portal import portal_loop
from stampede_guard.engine.verdict import AS_THE_POLICY_SAYS, Ttl, given
from stampede_guard.errors import Misuse
from stampede_guard.events import Hook
from stampede_guard.policy import Mode, Policy, checked_policy
from stampede_guard.values.keys.explained import Explanation, explain_name

if TYPE_CHECKING:
    from stampede_guard.api.identity.definition import Definition
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.values.encryption import Encryption

__all__ = ["StampedeGuard"]

T = TypeVar("T")

NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_BYPASSED: ContextVar[tuple[StampedeGuard, ...]] = ContextVar("stampede_guard_bypassed", default=())


class StampedeGuard(PerEventLoop):
    """A cache on `client`: your own `redis.asyncio.Redis` or `RedisCluster`, or a store.

    The guard uses the settings of a Redis client, not its pool. Every key begins with the `namespace`, so guards with
    different namespaces never share an entry. Its default is `$STAMPEDE_GUARD_NAMESPACE`, which the command reads too,
    and otherwise `default`. The `policy` is the default for all functions of this guard. The `hooks` receive the
    events: see `stampede_guard.events`. With `encryption`, the store holds only ciphertext: see docs/encryption.md.
    Raises `Misuse` for a client, namespace, hook or encryption that cannot work.
    """

    def __init__(
        self,
        client: Any,
        *,
        namespace: str = NOT_GIVEN,
        policy: Policy | None = None,
        hooks: Iterable[Hook] = (),
        encryption: Encryption | None = None,
    ) -> None:
        namespace, given_as = given_namespace(namespace)
        if not NAMESPACE.fullmatch(namespace or ""):
            raise Misuse(f"{given_as} is not allowed: write 1 to 64 letters, digits, dots, colons, - or _")
        super().__init__(
            urls.store_for(client, encryption),
            namespace,
            checked_policy(policy),
            Hooks(hooks),
        )
        self._tenants: dict[str, StampedeGuard] = {}
        self._plans = Plans(namespace, self.policy)
        self._functions = Registry()

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        namespace: str = NOT_GIVEN,
        policy: Policy | None = None,
        hooks: Iterable[Hook] = (),
        encryption: Encryption | None = None,
    ) -> Self:
        """`memory://`, `redis://`, `rediss://` (TLS), `unix://`, `redis+cluster://` or `redis+sentinel://`.

        Separate several hosts with commas; see docs/redis.md. The guard connects when it is first used.
        Raises `UrlError`.
        """
        return cls(
            urls.store_from_url(url),
            namespace=namespace,
            policy=policy,
            hooks=hooks,
            encryption=encryption,
        )

    # --- using it ------------------------------------------------------------------------------

    def locked_cache(
        self,
        *misplaced: Never,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        unkeyed: Iterable[str] = (),
        resources: Mapping[str, Callable[[], Any]] | None = None,
        context: Sequence[ContextVar[Any]] = (),
        version: str | int = "",
        key: Callable[..., Any] | None = None,
        name: str | None = None,
        pickle: bool = False,
        tags: Iterable[str] = (),
        secret: Iterable[str] = (),
        **fields: Any,
    ) -> CacheDecorator:
        """The decorator for this guard. It has the options of `stampede_guard.locked_cache`."""
        decorate: Callable[..., Any] = decorators.locked_cache
        made: CacheDecorator = decorate(
            *misplaced,
            guard=self,
            unkeyed=unkeyed,
            resources=resources,
            context=context,
            version=version,
            key=key,
            name=name,
            pickle=pickle,
            tags=tags,
            secret=secret,
            **given(ttl, should_cache),
            **fields,
        )
        return made

    def cached_many(self, *misplaced: Never, **options: Any) -> ManyDecorator:
        """The decorator for functions of many ids. It has the options of `stampede_guard.cached_many`."""
        decorate: Callable[..., ManyDecorator] = decorators.cached_many
        return decorate(*misplaced, guard=self, **options)

    async def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Awaitable[T]],
        *,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        type: Any = Any,
        request_bound: bool = False,
        tags: Iterable[str] = (),
        name: str | None = None,
        **fields: Any,
    ) -> T:
        """The value stored under `key`, or else the result of `compute()`, computed once, fleet-wide.

        All Policy fields are keywords (`ttl=300`). Both `ttl` and `should_cache` may be functions of the value. Declare
        the value with `type`, as a return annotation does; its shape is part of the key. Without `type`, builtins come
        back exactly as they were stored. Pass `request_bound=True` if `compute` uses objects that end with the caller's
        request, such as its database session. Pass the same `tags` in all calls of one key. Events, logs, metrics and
        switches show `name`, which must be the same for all calls of one kind. Its default is `get_or_compute`, and
        never a part of the key, because keys hold addresses and names of users.
        """
        run = computation_of(compute)
        names, fields = tag_names(self.prefix, sorted(checked_tags(tags))), fields | given(ttl, should_cache)
        plan = self._plans.plan(key, type, request_bound, fields, tagged=bool(names), name=name)
        value: T = await self.call(plan, entry_key(key, type, plan), tagged(run, names))
        return value

    def single(
        self,
        key: str,
        *,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        type: Any = Any,
        tags: Iterable[str] = (),
        name: str | None = None,
        **fields: Any,
    ) -> Single:
        """`async with guard.single("report:7", ttl=300) as entry`: one caller fleet-wide finds `entry.missing`.

        That caller computes and calls `await entry.set(value)`. All others find `entry.value`. If the block ends
        without `set`, the next caller takes over. If it raises, the waiting callers get the error.
        """
        names, fields = tag_names(self.prefix, sorted(checked_tags(tags))), fields | given(ttl, should_cache)
        plan = self._plans.plan(key, type, True, fields, tagged=bool(names), name=name)
        return Single(self, plan, entry_key(key, type, plan), names)

    async def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """Drop the entry of `get_or_compute(key)` or `single(key)`, with the same `type`.

        After `"done"`, no caller gets an older value, not even from a computation that began earlier. Without `type`,
        it drops the entries of all types that this guard has used for such keys. It does not know other types, so a
        process that only invalidates must pass the type. Code without an event loop calls `guard.sync.invalidate(key)`.
        Raises `StoreRefused` if the store denies access to this client.
        """
        entries = self._plans.entries(key, type)
        answers = await asyncio.gather(*(self.invalidate_entry(entry, self.policy) for entry in entries))
        return "done" if all(answer == "done" for answer in answers) else "pending"

    async def invalidate_tag(self, tag: str) -> Invalidation:
        """Invalidate all entries with this tag in this namespace: see docs/tags.md. Raises `Misuse`."""
        return await outdate_tag(self.runtime(), self._hooks, self.prefix + tag_key(tag))

    @property
    def sync(self) -> SyncGuard:
        """`guard.sync.invalidate(key)` and `guard.sync.invalidate_tag(tag)`: for code without an event loop."""
        return SyncGuard(self)

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do not use the store. One flight per key and process remains.

        This also holds for calls within their computations, and for guards `within` this one, but not in mode `off`.
        """
        token = _BYPASSED.set((*_BYPASSED.get(), self))
        try:
            yield
        finally:
            _BYPASSED.reset(token)

    def within(self, tenant: str) -> StampedeGuard:
        """A guard for one tenant. Its namespace is this guard's plus the tenant's name. It opens no connections.

        It shares everything else with this guard: policy, modes, flights, limits. Raises `Misuse` for a bad name.
        """
        from stampede_guard.api.tenants import within

        return within(self, tenant)

    def explain(self, name: str) -> Explanation:
        """The parts of an entry's complete name: see `stampede_guard.values.keys.explained`. Raises `Misuse`."""
        return explain_name(name, namespace=self.namespace)

    def health(self) -> StoreHealth:
        """What this guard knows about its store, in all event loops and tenants. Sends nothing. See `StoreHealth`."""
        return self._health.look()

    async def check_health(self) -> StoreHealth:
        """The same as `health()`, after one read from the store. For readiness probes:
        `stampede_guard.integrations.starlette`.
        """
        return await check_health(self.runtime(), f"{self.prefix}health")

    def add_hook(self, hook: Hook) -> None:
        """Add a hook: see `stampede_guard.events`. Raises `Misuse` if it is not callable."""
        self._hooks.add(hook)

    def install(self, app: Any) -> None:
        """For FastAPI and Starlette: close the guard with the app's lifespan. Answer 503 with Retry-After for
        `WaitTimeout`, and for a store that refuses `invalidate()`."""
        fastapi.install(self, app)

    # --- for the decorators, blocks and batches --------------------------------------------------

    def register(self, name: str, definition: Definition) -> None:
        """Register a function that this guard caches. Raises `KeyPartError` if another function has its name."""
        self._functions.add(self.namespace, name, definition, shared=self._store.shared)

    def register_all(self, functions: Registry) -> None:
        """Register the functions of bare decorators. Raises `KeyPartError`."""
        self._functions.add_all(self.namespace, functions, shared=self._store.shared)

    def on(self, plan: Plan) -> Runtime | None:
        """The running event loop's runtime if a hit may take the shortest path: mode `on`, no hooks. Else None."""
        standing = plan.standing
        if standing.said is not self._modes:
            standing = self._settle(plan)
        if not standing.shortest or self._hooks.any or _BYPASSED.get():
            return None
        current = self._current
        if current is not None and current.loop is asyncio.get_running_loop():
            return current
        return self.runtime()

    def l1_of_plain_functions(self, plan: Plan) -> L1 | None:
        """The L1 in which a plain function's caller may look, from any thread. None if the mode forbids it."""
        self.mode_of(plan)
        if not plan.standing.shortest or self._hooks.any or _BYPASSED.get():
            return None
        runtime = self.part_of(portal_loop())
        return runtime.l1 if runtime is not None else None

    def call(self, plan: Plan, key: str, run: Run) -> Awaitable[Any]:
        """One call of the function of `plan`. The namespace is not yet in `key`."""
        self.tell_watcher(plan, key, run)
        return self.call_in(self.mode_of_caller(plan, key), plan, key, run)

    def call_in(self, mode: Mode, plan: Plan, key: str, run: Run) -> Awaitable[Any]:
        """The same in a given mode: `mode_of_caller` may return another one a moment later."""
        if mode == "off":
            return run()
        name = self.prefix + key
        if mode == "shadow":
            return self.runtime().shadow.call(plan, name, run)
        if mode == "on":
            return serve(self.runtime(), plan, name, run)
        guards = _BYPASSED.get()

        async def bypassed_inside() -> Any:
            # A computation has its own context, which does not know the caller's `with` block.
            _BYPASSED.set(guards)
            return await run()

        compute = tagged(following(bypassed_inside, run), tags_of(run)) if guards else run
        return serve_bypassed(self.runtime(), plan, name, compute, within=self.bypassed_guards())

    def mode_of_caller(self, plan: Plan, key: str | None = None) -> Mode:
        """The result of `mode_of`, or "bypass" within a `bypassed()` block of this guard."""
        mode = self.mode_of(plan, key)
        return "bypass" if mode != "off" and self._is_bypassed() else mode

    def _is_bypassed(self) -> bool:
        guards = _BYPASSED.get()
        return bool(guards) and any(guard._covers(self) for guard in guards)

    def _covers(self, other: StampedeGuard) -> bool:
        """Whether the other guard is this one or within it. Compares names: a tenant's guard may be a new object."""
        return self._runtimes is other._runtimes and other.prefix.startswith(self.prefix)

    def bypassed_guards(self) -> frozenset[StampedeGuard]:
        """The guards whose `bypassed()` block the caller is in. Its computations do not use their stores."""
        return frozenset(_BYPASSED.get())

    async def refresh_entry(self, plan: Plan, key: str, run: Run) -> Any:
        """Compute again; until then, callers get the old value. Without the store, this is a plain call."""
        mode = self.mode_of_caller(plan, key)
        if mode != "on":
            self.tell_watcher(plan, key, run)
            return await self.call_in(mode, plan, key, run)
        return await refresh(self.runtime(), plan, self.prefix + key, run)

    async def invalidate_entry(self, key: str, policy: Policy) -> Invalidation:
        """Invalidate in every mode: stored values are served again when the mode returns to `on`."""
        return await outdate_entry(self.runtime(), self._hooks, self.prefix + key, policy)

    def _leave_the_parents(self) -> None:
        super()._leave_the_parents()
        self._plans.leave_the_parents()
