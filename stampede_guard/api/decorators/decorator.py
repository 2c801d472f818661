"""One decorated function: its key, its plan, and its calls. Plain functions differ as `plain` says."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from stampede_guard.api.apps.routes import Endpoint
from stampede_guard.api.decorators.brought import bound_objects, bound_values
from stampede_guard.api.decorators.dependencies import check_resources
from stampede_guard.api.decorators.options import Options, refuse_one_callers_answer
from stampede_guard.api.decorators.resources import inserted, with_resources
from stampede_guard.api.defaults import default_guard, register_bare
from stampede_guard.api.environment import with_environment
from stampede_guard.api.identity.definition import Definition
from stampede_guard.api.identity.sameness import Given, mark_cached
from stampede_guard.api.results import MISSING, CallInfo, Missing, info
from stampede_guard.api.types import Invalidation
from stampede_guard.engine.calls import ArgumentsChanged, Call, served_again
from stampede_guard.engine.engine import NOTHING, Engine, Stored, TaggedCodec, Told, tagged
from stampede_guard.engine.modes.modes import checked_mode
from stampede_guard.engine.plan import UNSETTLED, Plan, Run, refuse_early
from stampede_guard.engine.tags.templates import TagTemplates, tag_names
from stampede_guard.engine.tasks import together
from stampede_guard.engine.verdict import split
from stampede_guard.errors import StoreError, UnsupportedValue
from stampede_guard.policy import Mode, Policy
from stampede_guard.values.annotations import alternatives, live_kind, resolve
from stampede_guard.values.arguments.binding import parameters_of
from stampede_guard.values.arguments.captured import all_immutable
from stampede_guard.values.codec import Codec, function_codec, return_annotation, settled
from stampede_guard.values.codec.compressed import compressing
from stampede_guard.values.keys import KeyBuilder
from stampede_guard.values.keys.rows import is_row
from stampede_guard.values.keys.sensitive import names_a_user

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["Face"]

P = ParamSpec("P")
R = TypeVar("R")


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
        refuse_one_callers_answer(function, options)
        self._endpoint = Endpoint()
        self._parameters = parameters_of(function)
        check_resources(f"{function.__qualname__}()", options.resources)
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
            context=(*options.context, *(() if callable(options.key) else bound_objects(function))),
            name=options.name,
            key=options.key,
            secret=options.secret,
        )
        self._endpoint.title = self._keys.name
        self._endpoint.left_out = self._keys.left_out
        self._endpoint.key_is_unknown = callable(options.key) or any(
            names_a_user(variable.name) for variable in options.context
        )
        # Check now, against the defaults: a mistake is then an error at import, not at the first call.
        base = guard.policy if guard is not None else with_environment(Policy())
        self._plan = self._make_plan(base)
        refuse_early(fields, request_bound=self._plan.request_bound)
        self._planned_for = guard
        self._definition = Definition.of(
            function, self._told(), named=options.name is not None, fields=self._fields
        )
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
            in_thread=options.in_thread,
            tags=options.tags,
        )

    def _make_codec(self, annotation: Any) -> Codec:
        told, function = self._options, self._function
        try:
            return function_codec(
                function,
                annotation,
                told.name,
                told.version,
                pickle=told.pickle,
                models=self._response_models,
            )
        except UnsupportedValue as error:
            raise UnsupportedValue(f"{function.__qualname__}(): {error}") from error.__cause__

    def _response_models(self) -> tuple[Any, ...]:
        """Of the routes, for what is stored under one key."""
        return self._endpoint()

    def _make_plan(self, base: Policy) -> Plan:
        policy = base.replace(**self._fields)
        return Plan(
            title=self._keys.name,
            policy=policy,
            codec=compressing(self._codec, policy),
            request_bound=bool(self._options.unkeyed) or self._takes_live_things(),
            variables=self._options.context,
            direct=not self._options.tags,
            # If the key has all arguments and the whole context, the result does not depend on the caller.
            personal=bool(self._options.unkeyed) or self._options.key is not None,
            choice=self._choice,
        )

    def _takes_live_things(self) -> bool:
        """A row of a database belongs to a session. With `key=`, an argument may also be a request, or anything."""
        hints = resolve(self._function)
        names = [
            name
            for name in inspect.signature(self._function).parameters
            if name not in self._options.resources
        ]
        replaced = self._options.key is not None
        return any(
            is_row(kind) or (replaced and live_kind(kind) is not None)
            for name in names
            for kind in alternatives(hints.get(name))
        ) or (replaced and any(name not in hints for name in names))

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
        parameters = self._parameters

        async def compute(opened: dict[str, Any]) -> Any:
            own, named = inserted(parameters, args, kwargs, opened)
            # While they are open: the attributes of an ORM row may still have to be loaded.
            return self._settled(await function(*own, **named))

        return lambda: with_resources(self._options.resources, self._endpoint.overridden, compute)

    def _settled(self, result: Any) -> Any:
        return settled(self._codec, result)

    def _starter(self) -> Callable[[Any, Any], Run]:
        """Called in the caller's context. The computation itself begins in a clean one."""
        return self._start

    def _run(self, args: Any, kwargs: Any, key: str) -> Run:
        """The computation of a call, with the arguments that made its key: see `stampede_guard.engine.calls`."""
        start = self._starter()
        if self._keys.varies or not all_immutable(args, kwargs):
            return Call(self._plan, self._keys, start, args, kwargs, key)

        def compute() -> Awaitable[Any]:
            self._keys.fitted.note(args, kwargs)
            return start(args, kwargs)()

        return compute

    def _entries(self, args: Any, kwargs: Any) -> list[str]:
        """Keys of a call and of calls with equal arguments. Raises `KeyPartError` if one has the wrong type."""
        first, *others = self._keys.fitted.addressed(args, kwargs)
        keys = {self._keys.build(*first): None}
        for other in others:
            with contextlib.suppress(Exception):  # a `key=` function may refuse what no call passes
                keys[self._keys.build(*other)] = None
        return list(keys)

    def _tags(self, engine: Engine, args: Any, kwargs: Any) -> tuple[str, ...]:
        """The tags of one call, by their complete names."""
        return tag_names(engine.prefix, self._templates.texts(args, kwargs)) if self._options.tags else ()

    def _tagged_run(self, engine: Engine, args: Any, kwargs: Any, key: str, told: Told | None = None) -> Run:
        run = self._run(args, kwargs, key)
        if told is None and not self._options.tags:
            return run
        return tagged(run, self._tags(engine, args, kwargs), told)

    async def _again(self, run: Run, args: Any, kwargs: Any, told: Told | None = None) -> Any:
        """Make the call again, because its arguments have changed."""

        def ask() -> tuple[Run, Awaitable[Any]]:
            engine = self._guarded().engine
            run = self._tagged_run(engine, args, kwargs, key := self._keys.build(args, kwargs), told)
            return run, engine.serve(self._plan, engine.prefix + key, run)

        return await served_again(self._plan, run, ask, self._starter()(args, kwargs))

    async def _refresh(self, args: Any, kwargs: Any) -> Any:
        key, *others = self._entries(args, kwargs)
        args, kwargs = self._keys.fitted.declared(args, kwargs)
        run = self._tagged_run(engine := self._guarded().engine, args, kwargs, key)
        try:
            result = await engine.refresh(self._plan, engine.prefix + key, run)
        except ArgumentsChanged:
            result = await self._again(run, args, kwargs)
        await self._invalidate(others)
        return result

    async def _informed(self, args: Any, kwargs: Any) -> CallInfo[Any]:
        """One call, on the longer path. Ordinary calls do not pay for what this one wants to know."""
        engine, told = self._guarded().engine, Told()
        run = self._tagged_run(engine, args, kwargs, key := self._keys.build(args, kwargs), told)
        try:
            value = await engine.serve(self._plan, engine.prefix + key, run)
        except ArgumentsChanged:
            value = await self._again(run, args, kwargs, told)
        return info(value, told)

    async def _peek(self, args: Any, kwargs: Any) -> Any:
        engine = self._guarded().engine
        name = engine.prefix + self._keys.build(args, kwargs)
        found = await engine.peek(self._plan, name, self._tags(engine, args, kwargs))
        return MISSING if found is NOTHING else found

    async def _set(self, value: Any, args: Any, kwargs: Any) -> Stored:
        key, *others = self._entries(args, kwargs)
        args, kwargs = self._keys.fitted.declared(args, kwargs)
        engine = self._guarded().engine
        stored = await engine.set(self._plan, engine.prefix + key, value, self._tags(engine, args, kwargs))
        await self._invalidate(others)
        return stored

    def made(self) -> Any:
        """The wrapper, marked with its function: caching the same function again is not an error."""
        made = self.wrapper()
        self._endpoint.is_made(made, self._function)
        mark_cached(made, self._guard, self._keys.name, self._definition.parts)
        return made

    def wrapper(self) -> Any:
        """The wrapper that replaces the function, with its other methods."""
        key_of, given = self._keys.key_of, self._guard

        @functools.wraps(self._function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            hits, plan = (given or self._guarded())._hits, self._plan
            name = hits.prefix + (key := key_of(*args, **kwargs))
            result: R
            if plan.l1:
                result = hits.near(plan, name)
                if result is not NOTHING:
                    return result
            asked = hits.ask(plan, name)
            if asked is None:
                engine = (given or self._guarded()).engine
                run = self._tagged_run(engine, args, kwargs, key)
                serve: Run = partial(engine.serve, plan, name, run)
            else:
                runtime, near, read = asked
                try:
                    reading = await read
                except StoreError as error:
                    run = self._run(args, kwargs, key)
                    serve = partial(hits.unread, runtime, plan, name, run, error)
                else:
                    result = hits.hit(runtime, plan, name, reading, near)
                    if result is not NOTHING:
                        return result
                    run = self._run(args, kwargs, key)
                    serve = partial(hits.found, runtime, plan, name, run, reading)
            try:
                result = await serve()
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

        async def with_info(*args: P.args, **kwargs: P.kwargs) -> CallInfo[R]:
            return await self._informed(args, kwargs)

        async def peek(*args: P.args, **kwargs: P.kwargs) -> R | Missing:
            return cast("R | Missing", await self._peek(args, kwargs))

        async def set(value: Any, /, *args: P.args, **kwargs: P.kwargs) -> Stored:
            return await self._set(value, args, kwargs)

        def key(*args: P.args, **kwargs: P.kwargs) -> str:
            return f"{self._guarded().namespace}:{build(args, kwargs)}"

        def explain(*args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]:
            return self._keys.describe(args, kwargs)

        face.invalidate, face.refresh, face.key, face.explain = invalidate, refresh, key, explain
        face.with_info, face.peek, face.set = with_info, peek, set
        face.set_mode = self._set_mode
        if self._options.resources:
            face.__signature__ = self._visible_signature()

    async def _invalidate(self, keys: list[str]) -> Invalidation:
        engine, policy = self._guarded().engine, self._plan.policy
        if len(keys) == 1:
            return await engine.invalidate(engine.prefix + keys[0], policy)
        told = await together(engine.invalidate(engine.prefix + key, policy) for key in keys)
        return "pending" if "pending" in told else "done"

    async def _outdate(self, keys: Iterable[str]) -> None:
        """After a refresh past the store: it has only older values."""
        engine = self._guarded().engine
        await engine.runs.outdate(self._plan, [engine.prefix + key for key in keys])

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
