"""`@locked_cache(ttl=300)`, the decorator that most users need."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Generic, Never, ParamSpec, TypeVar, cast

from stampede_guard.api.decorators.callables import bound_objects, bound_values, is_coroutine_function
from stampede_guard.api.decorators.methods import in_its_place, taken_from
from stampede_guard.api.decorators.options import Options, refuse_positions
from stampede_guard.api.defaults import default_guard, register_bare
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.api.identity.definition import Definition
from stampede_guard.api.identity.sameness import Given, mark_cached
from stampede_guard.api.types import CacheDecorator, CachedFunction, CachedPlainFunction, Invalidation
from stampede_guard.engine.calls import ArgumentsChanged, Call, served_again
from stampede_guard.engine.early import refuse_where_it_cannot_be
from stampede_guard.engine.modes.modes import checked_mode
from stampede_guard.engine.plan import UNSETTLED, Plan, Run
from stampede_guard.engine.serving import after_failed_read, after_read
from stampede_guard.engine.tags.templates import TagTemplates, tag_names
from stampede_guard.engine.tags.versions import TaggedCodec, tagged
from stampede_guard.engine.verdict import AS_THE_POLICY_SAYS, Ttl, split
from stampede_guard.engine.verdict import given as given_choice
from stampede_guard.errors import Misuse, PolicyError, StoreError, Undecodable
from stampede_guard.policy import Mode, Policy
from stampede_guard.values.annotations import alternatives, live_kind, resolve, root_package
from stampede_guard.values.codec import Codec, function_codec, return_annotation
from stampede_guard.values.keys import KeyBuilder

__all__ = [
    "CachedFunction",
    "CachedPlainFunction",
    "Face",
    "locked_cache",
]

P = ParamSpec("P")
R = TypeVar("R")

_OF_THE_GUARD = frozenset({"max_threads", "l1_bytes", "l1_entries"})
_ONE_CALLERS = frozenset({"Response", "BackgroundTasks", "BackgroundTask"})


def locked_cache(
    *misplaced: Never,
    guard: StampedeGuard | None = None,
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
    """Cache a function or method, so that one expired entry costs one computation, fleet-wide.

    An `async def` function stays one. A plain `def` function stays plain: it computes in one of at most `max_threads`
    threads of the guard, and its caller's thread waits. It needs no event loop. Keys include `self` and `cls`.

    All Policy fields are keywords (`ttl=300, stale_ttl=3600`), in seconds. The `ttl` may be a function of the value. It
    returns the seconds, or 0 or None if the value must not be stored. A function `should_cache` of the value may return
    False. Callers then get the value, but it is not stored. Waiters elsewhere compute beside each other (at most
    `uncacheable_limit`), not one after another. A computation may return `UNCHANGED` to keep the value of `previous()`.
    If one of these functions raises or returns a wrong value, the computation fails. See docs/values.md.

    Parameters in `unkeyed` are not in the key. They may belong to the caller's request (a session), so the computation
    stays within that request. Factories in `resources` open parameters for the computation: each returns a context
    manager, an awaitable, or an object. These parameters leave the signature. The computation sees the ContextVars in
    `context`, and the key includes them. Change `version` when the meaning of the result changes; `"auto"` follows the
    function's code. A `key` function takes the same arguments and returns the parts of the key. A `name` replaces the
    module and qualified name. With `pickle`, values that nothing else can encode are pickled. Anyone who can write to
    the store can then run code here. For `tags` such as `"project:{project}"`, see docs/tags.md. Keys hash the
    parameters in `secret`, as they always hash those called `token` or `email`: see docs/keys.md.

    Raises `PolicyError`, `KeyPartError`, `UnsupportedValue` or `Misuse` at decoration.
    """
    refuse_positions("locked_cache", misplaced)
    options = Options.of(
        unkeyed=unkeyed, resources=resources, context=context, version=version, key=key, name=name, pickle=pickle,
        tags=tags, secret=secret,
    )  # fmt: skip
    fields |= given_choice(ttl, should_cache)

    def decorate(given: Any) -> Any:
        function = taken_from(given)
        if is_coroutine_function(function):
            face: Face[Any, Any] = Face(function, guard, options, fields)
        else:
            from stampede_guard.api.decorators.plain import PlainFace

            face = PlainFace(function, guard, options, fields)
        return in_its_place(given, face.made())

    return cast("CacheDecorator", decorate)


class Face(Generic[P, R]):
    """One decorated function: its key builder, its plan, and how to run it."""

    def __init__(
        self,
        function: Callable[..., Any],
        guard: StampedeGuard | None,
        options: Options,
        fields: dict[str, Any],
    ) -> None:
        self._function = function
        self._guard = guard
        self._options = options
        self._fields, self._choice = split(fields)
        _refuse_one_callers_answer(function, options)
        for field in _OF_THE_GUARD & fields.keys():
            rule = f"it belongs to the guard: StampedeGuard(..., policy=Policy({field}=...))"
            raise PolicyError(field, fields[field], rule)
        self._templates = TagTemplates(
            options.tags, function, unkeyed=options.unkeyed, resources=options.resources
        )
        self._codec = self._make_codec(return_annotation(function))
        if options.tags:
            self._codec = TaggedCodec(self._codec, options.tags)
        self._keys = KeyBuilder(
            function,
            unkeyed=options.unkeyed,
            resources=options.resources,
            version=options.version,
            fingerprint=self._codec.fingerprint + bound_values(function),
            context=(*options.context, *(() if options.key is not None else bound_objects(function))),
            name=options.name,
            key=options.key,
            secret=options.secret,
        )
        # Check now, against the defaults: a mistake is then an error at import, not at the first call.
        base = guard.policy if guard is not None else Policy()
        self._plan = self._make_plan(base)
        refuse_where_it_cannot_be(fields, request_bound=self._plan.request_bound)
        self._planned_for = guard
        self._definition = Definition.of(function, self._told(), named=options.name is not None)
        if guard is not None:
            guard.register(self._keys.name, self._definition)
        else:
            register_bare(self._keys.name, self._definition)

    def _told(self) -> Given:
        """The options of the decorator: functions with different options are different functions."""
        options = self._options
        return Given(
            kind=type(self),
            fields=Given(self._fields),
            choice=tuple(self._choice),
            unkeyed=options.unkeyed,
            resources=Given(options.resources),
            context=options.context,
            version=options.version,
            key=options.key,
            pickle=options.pickle,
            tags=options.tags,
        )

    def _make_codec(self, annotation: Any) -> Codec:
        told = self._options
        return function_codec(self._function, annotation, told.name, told.version, pickle=told.pickle)

    def _make_plan(self, base: Policy) -> Plan:
        return Plan(
            title=self._keys.name,
            policy=base.replace(**self._fields),
            codec=self._codec,
            request_bound=bool(self._options.unkeyed) or self._takes_live_things(),
            variables=self._options.context,
            direct=not self._options.tags,
            # If the key has all arguments and the whole context, the result does not depend on the caller.
            personal=bool(self._options.unkeyed) or self._options.key is not None,
            choice=self._choice,
        )

    def _takes_live_things(self) -> bool:
        """With `key=`, an argument may be anything, also an object that ends with the request."""
        if self._options.key is None:
            return False
        hints = resolve(self._function)
        names = [
            name
            for name in inspect.signature(self._function).parameters
            if name not in self._options.resources
        ]
        return any(
            name not in hints or any(live_kind(kind) is not None for kind in alternatives(hints[name]))
            for name in names
        )

    def _guarded(self) -> StampedeGuard:
        guard = self._guard or default_guard()
        if guard is not self._planned_for:
            guard.register(self._keys.name, self._definition)
            mode = self._plan.mode
            self._plan, self._planned_for = self._make_plan(guard.policy), guard
            self._plan.mode = mode
        return guard

    def _start(self, args: Any, kwargs: Any) -> Run:
        """The computation with these arguments."""
        function = self._function
        if not self._options.resources:
            return lambda: function(*args, **kwargs)
        factories = self._options.resources

        async def with_resources() -> Any:
            async with contextlib.AsyncExitStack() as stack:
                opened = {name: await _open(stack, factory) for name, factory in factories.items()}
                return await function(*args, **(kwargs | opened))

        return with_resources

    def _run(self, args: Any, kwargs: Any, key: str) -> Run:
        """The computation of a call, with the arguments that made its key: see `stampede_guard.engine.calls`."""
        if self._keys.may_change(args, kwargs):
            return Call(self._plan, self._keys, self._start, args, kwargs, key)

        def compute() -> Awaitable[Any]:
            self._keys.fitted.note(args, kwargs)
            return self._start(args, kwargs)()

        return compute

    def _entries(self, args: Any, kwargs: Any) -> list[str]:
        """Keys of a call and of calls with equal arguments. Raises `KeyPartError` if one has the wrong type."""
        first, *others = self._keys.fitted.addressed(args, kwargs)
        keys = {self._keys.build(*first): None}
        for other in others:
            with contextlib.suppress(Exception):  # a `key=` function may refuse what no call passes
                keys[self._keys.build(*other)] = None
        return list(keys)

    def _tags(self, guard: StampedeGuard, args: Any, kwargs: Any) -> tuple[str, ...]:
        """The tags of one call, by their complete names."""
        return tag_names(guard.prefix, self._templates.texts(args, kwargs)) if self._options.tags else ()

    def _with_tags(self, run: Run, guard: StampedeGuard, args: Any, kwargs: Any) -> Run:
        return tagged(run, self._tags(guard, args, kwargs))

    def _tagged_run(self, guard: StampedeGuard, args: Any, kwargs: Any, key: str) -> Run:
        return self._with_tags(self._run(args, kwargs, key), guard, args, kwargs)

    async def _or_again(self, served: Awaitable[Any], run: Run, args: Any, kwargs: Any) -> Any:
        """Await `served`. If the arguments of the call have changed since, make the call again."""
        with contextlib.suppress(ArgumentsChanged):
            return await served
        return await self._again(run, args, kwargs)

    async def _again(self, run: Run, args: Any, kwargs: Any) -> Any:
        def ask() -> tuple[Run, Awaitable[Any]]:
            guard = self._guarded()
            run = self._tagged_run(guard, args, kwargs, key := self._keys.build(args, kwargs))
            return run, guard.call(self._plan, key, run)

        return await served_again(self._plan, run, ask, self._start(args, kwargs))

    async def _refresh(self, args: Any, kwargs: Any) -> Any:
        key, *others = self._entries(args, kwargs)
        args, kwargs = self._keys.fitted.declared(args, kwargs)
        run = self._tagged_run(guard := self._guarded(), args, kwargs, key)
        result = await self._or_again(guard.refresh_entry(self._plan, key, run), run, args, kwargs)
        await self._invalidate(others)
        return result

    def made(self) -> Any:
        """The wrapper, marked with its function: caching the same function again is not an error."""
        made = self.wrapper()
        mark_cached(made, self._guard, self._keys.name, self._definition.parts)
        return made

    def wrapper(self) -> Any:
        """The wrapper that replaces the function, with its other methods."""
        key_of = self._keys.key_of

        @functools.wraps(self._function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            # The hit path of serving.serve, written out. With 64 callers of one key, a second coroutine and an unused
            # closure would add a tenth to the cost of each hit.
            guard, plan = self._guarded(), self._plan
            name = guard.prefix + (key := key_of(*args, **kwargs))
            runtime = guard.on(plan)
            result: R
            if plan.l1 and runtime is not None:
                kept = runtime.l1.get(name)
                if kept is not None and runtime.l1.clock() < kept.until:
                    result = kept.given(plan.share)
                    return result
            if runtime is None or plan.l1 or runtime.away or runtime.refused or name in runtime.flights:
                run = self._tagged_run(guard, args, kwargs, key)
                try:
                    result = await guard.call(plan, key, run)
                except ArgumentsChanged:
                    result = await self._again(run, args, kwargs)
                return result
            try:
                reading = await runtime.read(name)
            except StoreError as error:
                run = self._run(args, kwargs, key)
                served = after_failed_read(runtime, plan, name, run, error)
                return cast("R", await self._or_again(served, run, args, kwargs))
            if reading is not None:
                body, _, total_ms, stale_ms, remaining_ms, _ = reading
                if stale_ms < remaining_ms <= total_ms:
                    try:
                        if reading is runtime.remembered:
                            result = plan.another(body)
                        else:
                            runtime.remember(name, reading)
                            result = plan.decode(body)
                        return result
                    except Undecodable:
                        pass
            run = self._run(args, kwargs, key)
            try:
                result = await after_read(runtime, plan, name, run, reading)
            except ArgumentsChanged:
                result = await self._again(run, args, kwargs)
            return result

        self._give_methods(call)
        return call

    def _give_methods(self, face: Any) -> None:
        build = self._keys.build

        async def invalidate(*args: P.args, **kwargs: P.kwargs) -> Invalidation:
            return await self._invalidate(self._entries(args, kwargs))

        async def refresh(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast("R", await self._refresh(args, kwargs))

        def key(*args: P.args, **kwargs: P.kwargs) -> str:
            return f"{self._guarded().namespace}:{build(args, kwargs)}"

        def explain(*args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]:
            return self._keys.describe(args, kwargs)

        face.invalidate, face.refresh, face.key, face.explain = invalidate, refresh, key, explain
        face.set_mode = self._set_mode
        if self._options.resources:
            face.__signature__ = self._visible_signature()

    async def _invalidate(self, keys: list[str]) -> Invalidation:
        guard, policy = self._guarded(), self._plan.policy
        if len(keys) == 1:
            return await guard.invalidate_entry(keys[0], policy)
        told = await asyncio.gather(*(guard.invalidate_entry(key, policy) for key in keys))
        return "pending" if "pending" in told else "done"

    def _set_mode(self, mode: Mode | None) -> None:
        """Set the mode of this function; None means the guard's."""
        # Do not make the default guard here: `configure` may come later.
        self._plan.mode = checked_mode(mode)
        self._plan.standing = UNSETTLED

    def _visible_signature(self) -> inspect.Signature:
        """The signature without the resources: FastAPI and callers must not pass them."""
        signature = inspect.signature(self._function)
        hidden = self._options.resources
        return signature.replace(
            parameters=[p for p in signature.parameters.values() if p.name not in hidden]
        )


def _refuse_one_callers_answer(function: Callable[..., Any], options: Options) -> None:
    """Refuse FastAPI's Response and BackgroundTasks: what the computation sets on them reaches only one caller."""
    for name, hint in resolve(function).items():
        if name == "return" or name in options.resources:
            continue
        for kind in alternatives(hint):
            bases = kind.__mro__ if isinstance(kind, type) else ()
            if any(root_package(base) == "starlette" and base.__name__ in _ONE_CALLERS for base in bases):
                raise Misuse(
                    f"parameter {name!r} of {function.__qualname__}() is a {kind.__name__}: it belongs to the "
                    f"response of one caller. Callers served from the cache would not get what is set on it. Use it in "
                    f"the endpoint, and cache a function that the endpoint calls."
                )


async def _open(stack: contextlib.AsyncExitStack, factory: Callable[[], Any]) -> Any:
    made = factory()
    if hasattr(made, "__aenter__"):
        return await stack.enter_async_context(made)
    if hasattr(made, "__enter__") and hasattr(made, "__exit__"):
        return stack.enter_context(made)
    if inspect.isawaitable(made):
        return await made
    return made
