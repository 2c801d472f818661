"""StampedeGuard: a store, a namespace and a policy; everything that is cached goes through one."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from stampede_guard.cached import CacheDecorator, Invalidation, ManyDecorator
from stampede_guard.calls import following
from stampede_guard.environment import NOT_GIVEN, given_namespace
from stampede_guard.errors import Misuse
from stampede_guard.events import Hook
from stampede_guard.health import StoreHealth
from stampede_guard.healthcheck import check_health
from stampede_guard.hooks import Hooks
from stampede_guard.keys.explained import Explanation, explain_name
from stampede_guard.near import Near
from stampede_guard.outdating import outdate_entry, outdate_tag
from stampede_guard.parted import Parted
from stampede_guard.plan import Plan, Run
from stampede_guard.plans import Plans, computation_of, entry_key
from stampede_guard.policy import Mode, Policy, checked_policy
from stampede_guard.portal import portal_loop
from stampede_guard.refreshing import refresh
from stampede_guard.registry import Registry
from stampede_guard.serving import serve, serve_bypassed
from stampede_guard.single import Single
from stampede_guard.sync import SyncGuard
from stampede_guard.tagged import tagged, tags_of
from stampede_guard.tags import checked_tags, tag_key, tag_names
from stampede_guard.verdict import AS_THE_POLICY_SAYS, Ttl, given

if TYPE_CHECKING:
    from stampede_guard.definition import Definition
    from stampede_guard.encryption import Encryption
    from stampede_guard.runtime import Runtime

__all__ = ["StampedeGuard"]

T = TypeVar("T")

NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_BYPASSED: ContextVar[tuple[StampedeGuard, ...]] = ContextVar("stampede_guard_bypassed", default=())


class StampedeGuard(Parted):
    """`client` is your own `redis.asyncio.Redis` or `RedisCluster` (its settings are used, not its pool), or a store.

    `namespace` stands before every key: guards with different namespaces never share an entry. Without it,
    `$STAMPEDE_GUARD_NAMESPACE` decides, which the command reads too; else it is `default`. `policy` is the default
    for all functions of this guard. `hooks` are told what happens: see `stampede_guard.events`. With `encryption` the
    store holds ciphertext only: see docs/encryption.md. Raises `Misuse` for a client, namespace, hook or encryption
    that cannot work.
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
            # By name, so that no module of the runtime depends on a concrete store.
            importlib.import_module("stampede_guard.urls").store_for(client, encryption),
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

        Several hosts have commas in between; see docs/redis.md. Raises `UrlError`; connects when first used.
        """
        return cls(
            importlib.import_module("stampede_guard.urls").store_from_url(url),
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
        """The decorator, for this guard; see `stampede_guard.locked_cache` for its options."""
        # By name: the decorator is a face, and faces stand above the guard.
        decorate: Callable[..., Any] = importlib.import_module("stampede_guard.decorator").locked_cache
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
        """The decorator for functions of many ids, for this guard; see `stampede_guard.cached_many` for its options."""
        decorate: Callable[..., ManyDecorator] = importlib.import_module("stampede_guard.many").cached_many
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
        """The value stored under `key`, or what `compute()` returns; computed once, fleet-wide.

        `fields` are Policy fields (`ttl=300`); `ttl` may be a function of the value, and so is `should_cache`. `type`
        says what the value is, as a return annotation would, and its shape is part of the key; without it builtins come
        back exactly as they went in. Give `request_bound=True` when `compute` uses things that end with the caller's
        request, such as its database session. `tags`: the same in all calls of one key. `name` is what events, logs,
        metrics and switches call it, the same for all calls of one kind; without it that is `get_or_compute`. A part of
        the key it never is: keys hold addresses and names of users.
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

        It does `await entry.set(value)`; all others find `entry.value`. A block that ends without `set` hands over to
        the next caller; one that raises shares its error with the callers that wait.
        """
        names, fields = tag_names(self.prefix, sorted(checked_tags(tags))), fields | given(ttl, should_cache)
        plan = self._plans.plan(key, type, True, fields, tagged=bool(names), name=name)
        return Single(self, plan, entry_key(key, type, plan), names)

    async def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """Drop the entry of `get_or_compute(key)` or `single(key)`, with the same `type`.

        After `"done"` no caller is served an older value, also not by a computation that was under way. Without `type`,
        the entries go of all types that this guard has used for such keys. It knows of no others: a process that does
        nothing but invalidate must name the type. Code without an event loop writes `guard.sync.invalidate(key)`.
        Raises `StoreRefused` when the store does not let this client.
        """
        entries = self._plans.entries(key, type)
        answers = await asyncio.gather(*(self.invalidate_entry(entry, self.policy) for entry in entries))
        return "done" if all(answer == "done" for answer in answers) else "pending"

    async def invalidate_tag(self, tag: str) -> Invalidation:
        """Outdate all entries with this tag in this namespace, however many: see docs/tags.md. Raises `Misuse`."""
        return await outdate_tag(self.runtime(), self._hooks, self.prefix + tag_key(tag))

    @property
    def sync(self) -> SyncGuard:
        """`guard.sync.invalidate(key)` and `guard.sync.invalidate_tag(tag)`: for code without an event loop."""
        return SyncGuard(self)

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do without the store; still one flight per key and process.

        That holds for what they call in turn, too, and for guards `within` this one. Functions that are `off` stay so.
        """
        token = _BYPASSED.set((*_BYPASSED.get(), self))
        try:
            yield
        finally:
            _BYPASSED.reset(token)

    def within(self, tenant: str) -> StampedeGuard:
        """A guard for one tenant: its namespace is this one's and the tenant's name; it opens no connections.

        Everything else is this guard's: policy, modes, flights, limits. Raises `Misuse` for a name that cannot be one.
        """
        from stampede_guard.tenants import within

        return within(self, tenant)

    def explain(self, name: str) -> Explanation:
        """What the complete name of an entry says: see `stampede_guard.keys.explained`. Raises `Misuse`."""
        return explain_name(name, namespace=self.namespace)

    def health(self) -> StoreHealth:
        """What this guard knows of its store, for all its event loops and tenants; asks nothing. See `StoreHealth`."""
        return self._health.look()

    async def check_health(self) -> StoreHealth:
        """As `health()`, after one read from the store: for a readiness probe. See `stampede_guard.apps`."""
        return await check_health(self.runtime(), f"{self.prefix}health")

    def add_hook(self, hook: Hook) -> None:
        """One more hook, from now on; see `stampede_guard.events`. Raises `Misuse` for what cannot be called."""
        self._hooks.add(hook)

    def install(self, app: Any) -> None:
        """For FastAPI and Starlette: close with the app's lifespan; 503 + Retry-After for `WaitTimeout` and for a store
        that refuses `invalidate()`."""
        from stampede_guard.apps import install

        install(self, app)

    # --- what faces are built on ---------------------------------------------------------------

    def register(self, name: str, definition: Definition) -> None:
        """A function that this guard caches. Raises `KeyPartError` if another one has its name."""
        self._functions.add(self.namespace, name, definition, shared=self._store.shared)

    def register_all(self, functions: Registry) -> None:
        """Those of bare decorators. Raises `KeyPartError`."""
        self._functions.add_all(self.namespace, functions, shared=self._store.shared)

    def on(self, plan: Plan) -> Runtime | None:
        """The running event loop's part if the shortest way may be taken: mode `on`, and nothing special; else None."""
        standing = plan.standing
        if standing.said is not self._modes:
            standing = self._settle(plan)
        if not standing.shortest or self._hooks.any or _BYPASSED.get():
            return None
        current = self._current
        if current is not None and current.loop is asyncio.get_running_loop():
            return current
        return self.runtime()

    def near_of_plain_functions(self, plan: Plan) -> Near | None:
        """Where a plain function's caller, in whatever thread, may look for a copy; None if the mode forbids it."""
        self.mode_of(plan)
        if not plan.standing.shortest or self._hooks.any or _BYPASSED.get():
            return None
        runtime = self.part_of(portal_loop())
        return runtime.near if runtime is not None else None

    def call(self, plan: Plan, key: str, run: Run) -> Awaitable[Any]:
        """One call of what `plan` describes; `key` is complete but for the namespace."""
        self.tell_watcher(plan, key, run)
        return self.call_in(self.mode_of_caller(plan, key), plan, key, run)

    def call_in(self, mode: Mode, plan: Plan, key: str, run: Run) -> Awaitable[Any]:
        """The same in a mode that is known: `mode_of_caller` may answer otherwise a moment later."""
        if mode == "off":
            return run()
        name = self.prefix + key
        if mode == "shadow":
            return self.runtime().shadow.call(plan, name, run)
        if mode == "on":
            return serve(self.runtime(), plan, name, run)
        guards = _BYPASSED.get()

        async def bypassed_inside() -> Any:
            # A computation has a context of its own, in which the caller's `with` block would be forgotten.
            _BYPASSED.set(guards)
            return await run()

        compute = tagged(following(bypassed_inside, run), tags_of(run)) if guards else run
        return serve_bypassed(self.runtime(), plan, name, compute, within=self.bypassed_guards())

    def mode_of_caller(self, plan: Plan, key: str | None = None) -> Mode:
        """`mode_of`, and "bypass" within a `bypassed()` block of this guard."""
        mode = self.mode_of(plan, key)
        return "bypass" if mode != "off" and self._is_bypassed() else mode

    def _is_bypassed(self) -> bool:
        guards = _BYPASSED.get()
        return bool(guards) and any(guard._covers(self) for guard in guards)

    def _covers(self, other: StampedeGuard) -> bool:
        """Whether the other guard is this one, or within it. By name: a tenant's may be another object each time."""
        return self._runtimes is other._runtimes and other.prefix.startswith(self.prefix)

    def bypassed_guards(self) -> frozenset[StampedeGuard]:
        """Those whose `bypassed()` block the caller is in: its computations do without their stores."""
        return frozenset(_BYPASSED.get())

    async def refresh_entry(self, plan: Plan, key: str, run: Run) -> Any:
        """Compute anew; callers meanwhile are served the old value. Without the store there is none: a plain call."""
        mode = self.mode_of_caller(plan, key)
        if mode != "on":
            self.tell_watcher(plan, key, run)
            return await self.call_in(mode, plan, key, run)
        return await refresh(self.runtime(), plan, self.prefix + key, run)

    async def invalidate_entry(self, key: str, policy: Policy) -> Invalidation:
        """In every mode: what is stored is served again when the mode is `on` again."""
        return await outdate_entry(self.runtime(), self._hooks, self.prefix + key, policy)

    def _leave_the_parents(self) -> None:
        super()._leave_the_parents()
        self._plans.leave_the_parents()
