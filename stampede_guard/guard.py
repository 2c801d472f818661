"""StampedeGuard: a store, a namespace and a policy; everything that is cached goes through one.

A guard may be made before there is an event loop and used from several. It keeps a `Runtime` per event loop, made at
the first call there; after a fork the child makes its own and leaves the parent's sockets alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar

from stampede_guard.cached import CacheDecorator, Invalidation, ManyDecorator
from stampede_guard.errors import Misuse
from stampede_guard.events import Hook, Invalidated
from stampede_guard.hooks import Hooks
from stampede_guard.modes import checked_mode, mode_from_environment
from stampede_guard.plan import Plan, Run
from stampede_guard.plans import Plans, entry_key
from stampede_guard.policy import Mode, Policy
from stampede_guard.portal import at_end, portal, portal_loop
from stampede_guard.runtime import Runtime
from stampede_guard.serving import bypassed_name, refresh, serve, serve_bypassed
from stampede_guard.single import Single
from stampede_guard.verdict import AS_THE_POLICY_SAYS, Ttl, given
from stampede_guard.workers import warn_if_one_of_several

if TYPE_CHECKING:
    from stampede_guard.encryption import Encryption
    from stampede_guard.stores.protocol import Store

__all__ = ["StampedeGuard"]

T = TypeVar("T")

MOST_ROUNDS = 8
"""Of closing: so deep may calls of cached functions within each other be while the guard closes."""
_NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_BYPASSED: ContextVar[tuple[StampedeGuard, ...]] = ContextVar("stampede_guard_bypassed", default=())
_GUARDS: weakref.WeakSet[StampedeGuard] = weakref.WeakSet()


class StampedeGuard:
    """`client` is your own `redis.asyncio.Redis` or `RedisCluster` (its settings are used, not its pool), or a store.

    `namespace` stands before every key: guards with different namespaces never share an entry. `policy` is the default
    for all functions of this guard. `hooks` are told what happens: see `stampede_guard.events`. With `encryption` the
    store holds ciphertext only: see docs/encryption.md. Raises `Misuse` for a client, namespace, hook or encryption
    that cannot work.
    """

    def __init__(
        self,
        client: Any,
        *,
        namespace: str = "default",
        policy: Policy | None = None,
        hooks: Iterable[Hook] = (),
        encryption: Encryption | None = None,
    ) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            raise Misuse(
                f"namespace={namespace!r} is not allowed: write 1 to 64 letters, digits, dots, colons, - or _"
            )
        # By name, so that no module of the runtime depends on a concrete store.
        self._store: Store = importlib.import_module("stampede_guard.urls").store_for(client, encryption)
        self.namespace = namespace
        self.policy = policy or Policy()
        self._hooks = Hooks(hooks)
        self.prefix = f"{namespace}:"
        self._mode: Mode | None = mode_from_environment()
        # The runtime used last. Its loop is asked of itself: two attributes could be read in between by another thread.
        self._current: Runtime | None = None
        self._runtimes: dict[asyncio.AbstractEventLoop, Runtime] = {}
        self._lock = threading.Lock()
        self._plans = Plans(namespace, self.policy)
        _GUARDS.add(self)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        namespace: str = "default",
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
        *,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        unkeyed: Iterable[str] = (),
        resources: Mapping[str, Callable[[], Any]] | None = None,
        context: Sequence[ContextVar[Any]] = (),
        version: str | int = "",
        key: Callable[..., Any] | None = None,
        name: str | None = None,
        pickle: bool = False,
        **fields: Any,
    ) -> CacheDecorator:
        """The decorator, for this guard; see `stampede_guard.locked_cache` for its options."""
        # By name: the decorator is a face, and faces stand above the guard.
        decorate: Callable[..., Any] = importlib.import_module("stampede_guard.decorator").locked_cache
        made: CacheDecorator = decorate(
            guard=self,
            unkeyed=unkeyed,
            resources=resources,
            context=context,
            version=version,
            key=key,
            name=name,
            pickle=pickle,
            **given(ttl, should_cache),
            **fields,
        )
        return made

    def cached_many(self, **options: Any) -> ManyDecorator:
        """The decorator for functions of many ids, for this guard; see `stampede_guard.cached_many` for its options."""
        decorate: Callable[..., ManyDecorator] = importlib.import_module("stampede_guard.many").cached_many
        return decorate(guard=self, **options)

    async def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Awaitable[T]],
        *,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        type: Any = Any,
        request_bound: bool = False,
        **fields: Any,
    ) -> T:
        """The value stored under `key`, or what `compute()` returns; computed once, fleet-wide.

        `fields` are Policy fields (`ttl=300`); `ttl` may be a function of the value, and so is `should_cache`. `type`
        says what the value is, as a return annotation would, and its shape is part of the key; without it builtins come
        back exactly as they went in. Give `request_bound=True` when `compute` uses things that end with the caller's
        request, such as its database session.
        """
        if not callable(compute):
            raise Misuse(
                f"get_or_compute({key!r}, compute) calls compute() when there is no value: give it the async function "
                f"itself, without parentheses, not a {compute.__class__.__name__}"
            )
        plan = self._plans.plan(key, type, request_bound, fields | given(ttl, should_cache))
        value: T = await self.call(plan, entry_key(key, type, plan), compute)
        return value

    def single(
        self,
        key: str,
        *,
        ttl: Ttl = AS_THE_POLICY_SAYS,
        should_cache: Callable[[Any], object] | None = None,
        type: Any = Any,
        **fields: Any,
    ) -> Single:
        """`async with guard.single("report:7", ttl=300) as entry`: one caller fleet-wide finds `entry.missing`.

        It does `await entry.set(value)`; all others find `entry.value`. A block that ends without `set` hands over to
        the next caller; one that raises shares its error with the callers that wait.
        """
        plan = self._plans.plan(key, type, True, fields | given(ttl, should_cache))
        return Single(self, plan, entry_key(key, type, plan))

    async def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """Drop the entry of `get_or_compute(key)` or `single(key)`, with the same `type`.

        After `"done"` no caller is served an older value, also not by a computation that was under way. Without `type`,
        the entries go of all types that this guard has used for such keys. It knows of no others: a process that does
        nothing but invalidate must name the type.
        """
        entries = self._plans.entries(key, type)
        answers = await asyncio.gather(*(self.invalidate_entry(entry, self.policy) for entry in entries))
        return "done" if all(answer == "done" for answer in answers) else "pending"

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do without the store; still one flight per key and process.

        That holds for what they call in turn, too. Functions that are `off` stay so.
        """
        token = _BYPASSED.set((*_BYPASSED.get(), self))
        try:
            yield
        finally:
            _BYPASSED.reset(token)

    @property
    def mode(self) -> Mode | None:
        """The mode of all functions of this guard that do not set their own; None = as the policy says.

        Can be changed at any time. `$STAMPEDE_GUARD_MODE` sets it at the start.
        """
        return self._mode

    @mode.setter
    def mode(self, mode: Mode | None) -> None:
        self._mode = checked_mode(mode)

    def add_hook(self, hook: Hook) -> None:
        """One more hook, from now on; see `stampede_guard.events`. Raises `Misuse` for what cannot be called."""
        self._hooks.add(hook)

    def install(self, app: Any) -> None:
        """For FastAPI and Starlette: close with the app's lifespan, and answer 503 + Retry-After to `WaitTimeout`."""
        from stampede_guard.apps import install

        install(self, app)

    async def aclose(self) -> None:
        """End this event loop's part and that of plain functions: see `close`.

        The guard can be used again afterwards; it then connects anew.
        """
        await self._close_here()
        if portal_loop() in self._runtimes:
            await portal().elsewhere(self._close_here)

    def close(self) -> None:
        """End the part of plain functions: flights drain for `drain_timeout` s, leases go back, connections close.

        Done by itself when the process ends. For a program without an event loop; `await aclose()` does it too.
        """
        if portal_loop() in self._runtimes:
            portal().call(self._close_here)

    async def _close_here(self) -> None:
        loop = asyncio.get_running_loop()
        # More than once, because a computation that drains may call other cached functions, for which a new part opens.
        for _ in range(MOST_ROUNDS):
            with self._lock:
                runtime = self._runtimes.pop(loop, None)
            if runtime is None:
                return
            if self._current is runtime:
                self._current = None
            await runtime.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- what faces are built on ---------------------------------------------------------------

    def on(self, plan: Plan) -> Runtime | None:
        """The running event loop's part if the shortest way may be taken: mode `on`, and nothing special; else None."""
        if (
            not plan.direct
            or self._hooks
            or (plan.mode or self._mode or plan.policy.mode) != "on"
            or _BYPASSED.get()
        ):
            return None
        current = self._current
        if current is not None and current.loop is asyncio.get_running_loop():
            return current
        return self.runtime()

    def mode_of(self, plan: Plan) -> Mode:
        """But for `bypassed()`, which is the caller's and not the function's."""
        return plan.mode or self._mode or plan.policy.mode

    def call(self, plan: Plan, key: str, run: Run) -> Awaitable[Any]:
        """One call of what `plan` describes; `key` is complete but for the namespace."""
        mode = self.mode_of(plan)
        if mode == "off":
            return run()
        if mode == "bypass" or _BYPASSED.get():
            return self._call_without_store(plan, key, run, mode)
        return serve(self.runtime(), plan, self.prefix + key, run)

    def _call_without_store(self, plan: Plan, key: str, run: Run, mode: Mode) -> Awaitable[Any]:
        guards = _BYPASSED.get()
        if mode != "bypass" and self not in guards:
            return serve(self.runtime(), plan, self.prefix + key, run)

        async def bypassed_inside() -> Any:
            # A computation has a context of its own, in which the caller's `with` block would be forgotten.
            _BYPASSED.set(guards)
            return await run()

        compute = bypassed_inside if guards else run
        return serve_bypassed(self.runtime(), plan, self.prefix + key, compute)

    async def refresh_entry(self, plan: Plan, key: str, run: Run) -> Any:
        """Compute anew; callers meanwhile are served the old value. Without the store there is none: a plain call."""
        mode = self.mode_of(plan)
        if mode != "on" or self in _BYPASSED.get():
            return await self.call(plan, key, run)
        return await refresh(self.runtime(), plan, self.prefix + key, run)

    async def invalidate_entry(self, key: str, policy: Policy) -> Invalidation:
        """In every mode: what is stored is served again when the mode is `on` again."""
        name = self.prefix + key
        runtime = self.runtime()
        for loop, other in list(self._runtimes.items()):
            if other is not runtime:
                with contextlib.suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(other.forget_local, name)
                    loop.call_soon_threadsafe(other.forget_local, bypassed_name(name))
        runtime.forget_local(bypassed_name(name))
        done = await runtime.invalidate(name, policy)
        if self._hooks:
            self._hooks.tell(Invalidated(name, done))
        return "done" if done else "pending"

    def runtime(self) -> Runtime:
        """The running event loop's part of this guard."""
        loop = asyncio.get_running_loop()
        current = self._current
        if current is not None and current.loop is loop:
            return current
        with self._lock:
            runtime = self._runtimes.get(loop)
            if runtime is None:
                self._forget_closed_loops()
                if not self._store.shared:
                    warn_if_one_of_several()
                runtime = self._runtimes[loop] = Runtime(self._store, self.policy, self._hooks)
        self._current = runtime
        return runtime

    def _forget_closed_loops(self) -> None:
        """A loop that ended without `aclose()` leaves its connections behind, and nobody else would close them."""
        for loop in [loop for loop in self._runtimes if loop.is_closed()]:
            self._runtimes.pop(loop).abandon()

    def _leave_the_parents(self) -> None:
        for runtime in list(self._runtimes.values()):
            runtime.abandon()
        self._runtimes.clear()
        self._current = None
        # Another thread of the parent may have held it.
        self._lock = threading.Lock()
        self._plans.leave_the_parents()


def _close_all() -> None:
    for guard in list(_GUARDS):
        guard.close()


at_end(_close_all)


def _after_fork() -> None:
    for guard in list(_GUARDS):
        guard._leave_the_parents()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
