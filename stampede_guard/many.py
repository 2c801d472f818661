"""`@cached_many(ttl=300)`: a function of many ids, cached id by id."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import inspect
import itertools
import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Never, cast

from stampede_guard.annotations import resolve, unwrap
from stampede_guard.batch import ABSENT, Batches, Gathering, ManyCodec
from stampede_guard.cached import Invalidation, ManyDecorator
from stampede_guard.codec import Codec, codec_for
from stampede_guard.decorator import Face
from stampede_guard.errors import Misuse, PolicyError, StoreError, UnsupportedValue
from stampede_guard.guard import StampedeGuard
from stampede_guard.methods import in_its_place, taken_from
from stampede_guard.near import NOTHING, Asked
from stampede_guard.options import Options, refuse_positions
from stampede_guard.plan import Plan, Run
from stampede_guard.policy import Policy
from stampede_guard.runtime import Runtime
from stampede_guard.serving import after_read, hit, keep_near, read_failed
from stampede_guard.verdict import AS_THE_POLICY_SAYS, Ttl
from stampede_guard.verdict import given as given_choice

__all__ = ["cached_many"]

MAX_IDS = 500
ABSENT_TTL = 10.0
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_COLLECTIONS = (list, tuple, set, frozenset)


def cached_many(
    *misplaced: Never,
    guard: StampedeGuard | None = None,
    ttl: Ttl = AS_THE_POLICY_SAYS,
    should_cache: Callable[[Any], object] | None = None,
    ids: str | None = None,
    absent_ttl: float | None = None,
    max_ids: int = MAX_IDS,
    unkeyed: Iterable[str] = (),
    resources: Mapping[str, Callable[[], Any]] | None = None,
    context: Sequence[ContextVar[Any]] = (),
    version: str | int = "",
    key: Callable[..., Any] | None = None,
    name: str | None = None,
    pickle: bool = False,
    tags: Iterable[str] = (),
    **fields: Any,
) -> ManyDecorator:
    """Cache `async def f(ids: list[int]) -> dict[int, T]` id by id: it is called once, with the ids that are missing.

    What is stored is read in one go. Ids that another call or process computes already are waited for and not computed
    again. The result has the ids that exist; one that the function leaves out is remembered as absent for `absent_ttl`
    seconds (default: 10, or `ttl` if that is shorter). A computation that fails fails for its ids only, and a call that
    asked for one of them raises its error. `ttl` and `should_cache` as functions of the value are asked for each id
    that exists; `UNCHANGED` and `previous()` are for functions of one entry, and an error here.

    `ids` names the parameter with the ids (default: the first that can be it); all others are part of each id's key.
    `key` is called with one id in the place of the ids. `max_ids` (default 500): more are computed in several calls,
    one after the other. In `tags` the name of the ids stands for one id. All else is as for `locked_cache`; it raises
    the same errors.
    """
    refuse_positions("cached_many", misplaced)
    options = Options.of(
        unkeyed=unkeyed,
        resources=resources,
        context=context,
        version=version,
        key=key,
        name=name,
        pickle=pickle,
        tags=tags,
    )
    if type(max_ids) is not int or max_ids < 1:
        raise PolicyError("max_ids", max_ids, "it must be a whole number of at least 1")

    fields |= given_choice(ttl, should_cache)

    def decorate(given: Any) -> Any:
        function = taken_from(given)
        if not inspect.iscoroutinefunction(inspect.unwrap(function)):
            raise Misuse(f"@cached_many takes an async def function; {function.__qualname__!r} is none")
        face = ManyFace(function, guard, options, fields, ids=ids, absent_ttl=absent_ttl, max_ids=max_ids)
        return in_its_place(given, face.wrapper())

    return cast("ManyDecorator", decorate)


class ManyFace(Face[..., Any]):
    def __init__(
        self,
        function: Callable[..., Any],
        guard: StampedeGuard | None,
        options: Options,
        fields: dict[str, Any],
        *,
        ids: str | None,
        absent_ttl: float | None,
        max_ids: int,
    ) -> None:
        self._ids, self._position = _ids_of(function, ids, options)
        self._absent_ttl = absent_ttl
        self._max_ids = max_ids
        super().__init__(function, guard, options, fields)

    def _make_codec(self, annotation: Any) -> Codec:
        return ManyCodec(codec_for(_value_of(annotation, self._function), pickle=self._options.pickle))

    def _make_plan(self, base: Policy) -> Plan:
        plan = super()._make_plan(base)
        seconds = min(ABSENT_TTL, plan.policy.ttl) if self._absent_ttl is None else self._absent_ttl
        try:
            absent = plan.policy.replace(ttl=seconds, stale_ttl=0.0, soft_timeout=0.0)
        except PolicyError as error:
            raise PolicyError("absent_ttl", seconds, error.rule) from None
        plan.batched = True
        chosen = plan.policy_for
        plan.policy_for = lambda value: absent if value is ABSENT else chosen(value)
        plan.on_wait = self._held
        return plan

    def _held(self, runtime: Runtime, name: str) -> None:
        batches = runtime.batches.get(self)
        if batches is not None:
            batches.decided(name)

    # --- ids and their keys --------------------------------------------------------------------

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._position is not None and self._position < len(args):
            return args[self._position]
        if self._ids in kwargs:
            return kwargs[self._ids]
        self._keys.build(args, kwargs)  # says what is missing, in Python's own words
        return ()

    def _unique(self, given: Any) -> list[Any]:
        if isinstance(given, str | bytes) or not isinstance(given, collections.abc.Iterable):
            raise Misuse(
                f"{self._ids!r} of {self._plan.title}() must be a list of ids, not a {type(given).__name__}"
            )
        try:
            return list(dict.fromkeys(given))
        except TypeError as error:
            raise Misuse(
                f"{self._ids!r} of {self._plan.title}() holds an id that is not hashable: {error}"
            ) from None

    def _placed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with this in the place of the ids."""
        if self._position is not None and self._position < len(args):
            return (*args[: self._position], value, *args[self._position + 1 :]), kwargs
        return args, kwargs | {self._ids: value}

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> str:
        return self._keys.build(*self._placed(args, kwargs, value))

    def _group(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> collections.abc.Hashable:
        """Equal for calls that may be computed together. With `key=` nothing is known of the other arguments."""
        if self._plan.request_bound or self._options.key is not None:
            return object()
        return self._key(args, kwargs, ())

    # --- calls -----------------------------------------------------------------------------------

    def wrapper(self) -> Any:
        """What takes the function's place, with its other methods."""

        @functools.wraps(self._function)
        async def call(*args: Any, **kwargs: Any) -> dict[Any, Any]:
            return await self._in_chunks(args, kwargs, self._serve)

        async def refresh(*args: Any, **kwargs: Any) -> dict[Any, Any]:
            return await self._in_chunks(args, kwargs, self._refresh)

        async def invalidate(*args: Any, **kwargs: Any) -> Invalidation:
            guard, policy = self._guarded(), self._plan.policy
            ids = self._unique(self._given(args, kwargs))
            told = await asyncio.gather(
                *(guard.invalidate_entry(self._key(args, kwargs, id), policy) for id in ids)
            )
            return "pending" if "pending" in told else "done"

        def keys(*args: Any, **kwargs: Any) -> dict[Any, str]:
            namespace = self._guarded().namespace
            ids = self._unique(self._given(args, kwargs))
            return {id: f"{namespace}:{self._key(args, kwargs, id)}" for id in ids}

        face: Any = call
        face.invalidate, face.refresh, face.keys = invalidate, refresh, keys
        face.set_mode = self._set_mode
        if self._options.resources:
            face.__signature__ = self._visible_signature()
        return call

    async def _in_chunks(self, args: Any, kwargs: Any, serve: Callable[..., Any]) -> dict[Any, Any]:
        guard = self._guarded()
        given = self._given(args, kwargs)
        ids = self._unique(given)
        mode = guard.mode_of(self._plan)
        if mode in ("off", "shadow"):
            run = self._run(*self._placed(args, kwargs, _like(given, ids)))
            result: dict[Any, Any] = await (
                run() if mode == "off" else self._shadow(guard, args, kwargs, ids, run)
            )
            return result
        call = _ManyCall(self, guard, given, args, kwargs)
        found: dict[Any, Any] = {}
        for begin in range(0, len(ids), self._max_ids):
            found |= await serve(call, ids[begin : begin + self._max_ids])
        return {id: found[id] for id in ids if found[id] is not ABSENT}

    def _shadow(
        self, guard: StampedeGuard, args: Any, kwargs: Any, ids: list[Any], run: Run
    ) -> Coroutine[Any, Any, Any]:
        keys = {id: self._key(args, kwargs, id) for id in ids}
        entries = {
            id: (guard.prefix + key, self._tags(guard, *self._placed(args, kwargs, id)))
            for id, key in keys.items()
            if guard.mode_of(self._plan, key) == "shadow"
        }
        return guard.runtime().shadow.call_many(self._plan, entries, run, ABSENT)

    async def _serve(self, call: _ManyCall, ids: list[Any]) -> dict[Any, Any]:
        return await call.serve({id: self._key(call.args, call.kwargs, id) for id in ids})

    async def _refresh(self, call: _ManyCall, ids: list[Any]) -> dict[Any, Any]:
        return await call.refresh({id: self._key(call.args, call.kwargs, id) for id in ids})


class _ManyCall:
    """One call. Its ids are served one by one, each like a call of its own; they are computed together."""

    def __init__(self, face: ManyFace, guard: StampedeGuard, given: Any, args: Any, kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        self._face = face
        self._guard = guard
        self._given = given
        self._plan = face._plan
        runtime = guard.runtime()
        batches = runtime.batches.get(face)
        if batches is None:
            batches = runtime.batches[face] = Batches(runtime, self._plan.title, face._max_ids)
        self._batches: Batches = batches
        self._tasks: dict[Any, asyncio.Task[Any]] = {}
        self._looks: dict[Any, asyncio.Future[Any]] = {}
        self._asked: dict[Any, Asked | None] = {}

    async def serve(self, keys: dict[Any, str]) -> dict[Any, Any]:
        group = self._batches.gathering(self._face._group(self.args, self.kwargs))
        found: dict[Any, Any] = {}
        try:
            on = self._guard.on(self._plan)
            for id, key in keys.items():
                name = self._guard.prefix + key
                if on is not None and self._plan.near:
                    value = on.near.find(name)
                    if value is not NOTHING:
                        found[id] = value
                        continue
                    self._asked[id] = on.near.ask(name)
                self._batches.expect(name, group)
                if on is not None and not (on.away or on.refused or name in on.flights):
                    self._looks[id] = on.read(name)
                else:
                    self._begin(id, name, self._guard.call(self._plan, key, self._run(group, name, id)))
            if on is not None:
                await self._read(on, keys, group, found)
            await self._all_begun()
            return found | {id: task.result() for id, task in self._tasks.items()}
        finally:
            await self._end(keys, group)

    async def refresh(self, keys: dict[Any, str]) -> dict[Any, Any]:
        group = self._batches.gathering(self._face._group(self.args, self.kwargs))
        try:
            for id, key in keys.items():
                name = self._guard.prefix + key
                self._batches.expect(name, group)
                self._begin(id, name, self._guard.refresh_entry(self._plan, key, self._run(group, name, id)))
            await self._all_begun()
            return {id: task.result() for id, task in self._tasks.items()}
        finally:
            await self._end(keys, group)

    async def _read(
        self, runtime: Runtime, keys: dict[Any, str], group: Gathering, found: dict[Any, Any]
    ) -> None:
        """What is fresh goes into `found`; all else is served as any call whose read is done."""
        for id, look in self._looks.items():
            name = self._guard.prefix + keys[id]
            try:
                reading = await look
            except StoreError:
                read_failed(runtime, name)
                reading = None
            value, fresh = hit(runtime, self._plan, name, reading)
            if fresh:
                found[id] = value
                self._batches.decided(name)
                if id in self._asked:
                    keep_near(runtime, self._plan, name, reading, self._asked[id])
            else:
                run = self._run(group, name, id)
                self._begin(id, name, after_read(runtime, self._plan, name, run, reading))

    def _run(self, group: Gathering, name: str, id: Any) -> Run:
        def compute() -> collections.abc.Awaitable[Any]:
            return group.compute(name, id, self._start)

        return self._face._with_tags(compute, self._guard, *self._face._placed(self.args, self.kwargs, id))

    async def _start(self, ids: list[Any]) -> Any:
        args, kwargs = self._face._placed(self.args, self.kwargs, _like(self._given, ids))
        return await self._face._run(args, kwargs)()

    def _begin(self, id: Any, name: str, served: collections.abc.Awaitable[Any]) -> None:
        task = asyncio.create_task(cast("Coroutine[Any, Any, Any]", served), name="stampede_guard id")
        task.add_done_callback(lambda _: self._batches.decided(name))
        self._tasks[id] = task

    async def _all_begun(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _end(self, keys: dict[Any, str], group: Gathering) -> None:
        """The caller goes, perhaps before its time: each id's place is given up in order."""
        for future in itertools.chain(self._looks.values(), self._tasks.values()):
            future.cancel()
        self._batches.leave(group)
        try:
            if any(not task.done() for task in self._tasks.values()):
                await asyncio.wait(self._tasks.values())
        finally:
            for key in keys.values():
                self._batches.decided(self._guard.prefix + key)
            for future in itertools.chain(self._looks.values(), self._tasks.values()):
                if future.done() and not future.cancelled():
                    future.exception()
            self._looks, self._tasks, self._asked = {}, {}, {}


def _like(given: Any, ids: list[Any]) -> Any:
    """The ids in the kind of collection that the caller gave."""
    return type(given)(ids) if type(given) in _COLLECTIONS else ids


def _ids_of(function: Callable[..., Any], ids: str | None, options: Options) -> tuple[str, int | None]:
    """The name of the parameter with the ids, and its position if it has one."""
    parameters = inspect.signature(function).parameters
    taken = {"self", "cls", *options.unkeyed, *options.resources}
    named = ids if ids is not None else next((name for name in parameters if name not in taken), "")
    parameter = parameters.get(named)
    single = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if parameter is None or parameter.kind in single or named in taken:
        known = ", ".join(parameters) or "none"
        raise Misuse(
            f"@cached_many needs a parameter with a list of ids, for example `ids: list[int]`; "
            f"{function.__qualname__}() has: {known}" + (f", and not ids={ids!r}" if ids is not None else "")
        )
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return named, None
    return named, list(parameters).index(named)


def _value_of(annotation: Any, function: Callable[..., Any]) -> Any:
    """T of `-> dict[K, T]`; Any if nothing is said."""
    kind = unwrap(annotation)
    origin = typing.get_origin(kind) or kind
    if kind is Any or origin is Any:
        return Any
    if origin not in _MAPPINGS:
        written = resolve(function).get("return")
        raise UnsupportedValue(
            f"{function.__qualname__}() is annotated to return {written!r}; @cached_many needs a dict from id to "
            f"value, for example dict[int, Product]"
        )
    parts = typing.get_args(kind)
    return parts[1] if len(parts) == 2 else Any
