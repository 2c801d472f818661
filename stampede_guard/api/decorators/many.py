"""`@cached_many(ttl=300)`: a function of many ids, cached id by id."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Never, Unpack, cast

from stampede_guard.api.decorators.callables import is_coroutine_function
from stampede_guard.api.decorators.decorator import Face
from stampede_guard.api.decorators.manyids import distinct, id_of, ids_of, kept, like, of_values, value_of
from stampede_guard.api.decorators.methods import in_its_place, taken_from
from stampede_guard.api.decorators.options import Options, check_guard, refuse_positions
from stampede_guard.api.identity.sameness import Given
from stampede_guard.api.keywords import OWN_OF_VALUES, ManyOptions
from stampede_guard.api.types import NO_RESOURCES, Invalidation, ManyDecorator, Opened
from stampede_guard.durations import Duration
from stampede_guard.engine.calls import MOST_ATTEMPTS, ArgumentsChanged
from stampede_guard.engine.engine import NOTHING, Gathering, Question, bypassed_name, tagged, told_when_held
from stampede_guard.engine.plan import Plan, Run
from stampede_guard.engine.tasks import contained, outcome_of
from stampede_guard.errors import Misuse, PolicyError, StoreError
from stampede_guard.options import takes_options
from stampede_guard.policy import Mode, Policy, check_fields
from stampede_guard.values.arguments.captured import IMMUTABLE
from stampede_guard.values.codec import Codec, settled
from stampede_guard.values.codec.batched import ABSENT, ManyCodec, checked

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["cached_many"]

MAX_IDS = 500
ABSENT_TTL = 10.0


@takes_options("cached_many", own=OWN_OF_VALUES, refuse=check_fields)
def cached_many(
    *misplaced: Never,
    guard: StampedeGuard | None = None,
    resources: Opened = NO_RESOURCES,
    **options: Unpack[ManyOptions],
) -> ManyDecorator[Opened]:
    """Cache `async def f(ids: list[int]) -> dict[int, T]` id by id. One call computes all missing ids.

    One read fetches all stored values. If another call or process already computes an id, this call waits for it. The
    result has the ids that exist. An id that the function leaves out is remembered as absent for `absent_ttl` seconds
    (default: 10, or `ttl` if that is shorter). If a computation fails, only its ids fail, and calls that asked for one
    of them raise its error. Functions `ttl` and `should_cache` are called with the value of each id that exists. Do not
    use `UNCHANGED` and `previous()` here: they are an error, because they are for functions of one entry.

    The option `ids` names the parameter with the ids (default: the first possible one). All others are part of each
    id's key. A `key` function gets one id in the place of the ids. More than `max_ids` ids (default 500) are computed
    in several calls, one after the other. In `tags`, the name of the ids means one id. All else, also the errors, is as
    for `locked_cache`.
    """
    refuse_positions("cached_many", misplaced)
    check_guard(guard)
    ids, absent_ttl = options.pop("ids", None), options.pop("absent_ttl", None)
    max_ids = options.pop("max_ids", MAX_IDS)
    if type(max_ids) is not int or max_ids < 1:
        raise PolicyError("max_ids", max_ids, "it must be a whole number of at least 1")
    own, fields = Options.of(options, resources=resources)

    def decorate(given: Any) -> Any:
        function = taken_from(given)
        if not is_coroutine_function(function):
            raise Misuse(f"@cached_many takes an async def function; {function.__qualname__!r} is not one")
        face = ManyFace(function, guard, own, fields, ids=ids, absent_ttl=absent_ttl, max_ids=max_ids)
        return in_its_place(given, face.made())

    return cast("ManyDecorator[Opened]", decorate)


class ManyFace(Face[..., Any]):
    def __init__(
        self,
        function: Callable[..., Any],
        guard: StampedeGuard | None,
        options: Options,
        fields: dict[str, Any],
        *,
        ids: str | None,
        absent_ttl: Duration | None,
        max_ids: int,
    ) -> None:
        self._ids, self._position = ids_of(function, ids, options)
        self._absent_ttl = absent_ttl
        self._max_ids = max_ids
        super().__init__(function, guard, options, fields)
        self._keys.fitted.redeclare(self._ids, id_of(function, self._ids))

    def _told(self) -> Given:
        return Given(super()._told(), ids=self._ids, absent_ttl=self._absent_ttl, max_ids=self._max_ids)

    def _make_codec(self, annotation: Any) -> Codec:
        return ManyCodec(super()._make_codec(value_of(annotation, self._function)))

    def _response_models(self) -> tuple[Any, ...]:
        return of_values(super()._response_models())

    def _settled(self, result: Any) -> Any:
        is_mapping = isinstance(result, collections.abc.Mapping)
        return {id: settled(self._codec, value) for id, value in result.items()} if is_mapping else result

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
        plan.on_wait = told_when_held(self)
        return plan

    # --- ids and their keys --------------------------------------------------------------------

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._position is not None and self._position < len(args):
            return args[self._position]
        if self._ids in kwargs:
            return kwargs[self._ids]
        self._keys.build(args, kwargs)  # raises Python's own error, which names the argument
        return ()

    def _unique(self, given: Any) -> list[Any]:
        return distinct(given, self._ids, self._plan.title)

    def _placed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with `value` in the place of the ids."""
        if self._position is not None and self._position < len(args):
            return (*args[: self._position], value, *args[self._position + 1 :]), kwargs
        return args, kwargs | {self._ids: value}

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> str:
        return self._keys.build(*self._placed(args, kwargs, value))

    def _keys_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], ids: list[Any]) -> dict[Any, str]:
        """The key of each id. `_key` for each of them would take the arguments apart each time."""
        key_of, place = self._keys.key_of, self._position
        if place is None or place >= len(args):
            return {id: key_of(*args, **kwargs | {self._ids: id}) for id in ids}
        before, after = args[:place], args[place + 1 :]
        return {id: key_of(*before, id, *after, **kwargs) for id in ids}

    def _group(self, call: _ManyCall) -> collections.abc.Hashable:
        """Equal for calls that may be computed together. One of them runs, with its own arguments and context.

        With `key=`, the other arguments are unknown, so each call is computed separately.
        """
        if self._plan.request_bound or self._options.key is not None:
            return object()
        guard, key = call.guard, self._key(call.args, call.kwargs, ())
        return guard.prefix, call.mode, guard.engine.modes.bypassed_by(), type(call.given), key

    def wrapper(self) -> Any:
        """The wrapper that replaces the function, with its other methods."""

        @functools.wraps(self._function)
        async def call(*args: Any, **kwargs: Any) -> dict[Any, Any]:
            return await self._as_it_is(args, kwargs, self._serve)

        async def refresh(*args: Any, **kwargs: Any) -> dict[Any, Any]:
            return await self._as_it_is(args, kwargs, self._refresh)

        async def invalidate(*args: Any, **kwargs: Any) -> Invalidation:
            ids = self._unique(self._given(args, kwargs))
            keys = [key for id in ids for key in self._entries(*self._placed(args, kwargs, id))]
            return await self._invalidate(list(dict.fromkeys(keys)))

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

    async def _as_it_is(self, args: Any, kwargs: Any, serve: Callable[..., Any]) -> dict[Any, Any]:
        """Serve the ids, again if an argument that cannot be copied changed during the computation."""
        given = self._given(args, kwargs)
        if (again := kept(given)) is not given:
            args, kwargs = self._placed(args, kwargs, again)
        for _ in range(MOST_ATTEMPTS):
            try:
                return await self._in_chunks(args, kwargs, serve)
            except ArgumentsChanged:
                continue
        ids = self._unique(again)
        directly = await _ManyCall(self, self._guarded(), "off", ids, args, kwargs).plain(ids)
        return {id: value for id, value in directly.items() if value is not ABSENT}

    async def _in_chunks(self, args: Any, kwargs: Any, serve: Callable[..., Any]) -> dict[Any, Any]:
        guard = self._guarded()
        ids = self._unique(given := self._given(args, kwargs))
        mode = guard.engine.modes.of_caller(self._plan)
        if mode in ("off", "shadow"):
            run = self._start(*self._placed(args, kwargs, like(given, ids)))
            result: dict[Any, Any] = await (
                run() if mode == "off" else self._shadow(guard, args, kwargs, ids, run)
            )
            if serve == self._refresh:
                await self._outdate(self._keys_of(args, kwargs, ids).values())
            return result
        args, kwargs = self._keys.copies(*self._placed(args, kwargs, ()))
        found: dict[Any, Any] = {}
        for each, those in self._by_mode(guard, mode, args, kwargs, ids).items():
            call = _ManyCall(self, guard, each, given, args, kwargs)
            for begin in range(0, len(those), self._max_ids):
                chunk = those[begin : begin + self._max_ids]
                found |= await (serve(call, chunk) if each in ("on", "bypass") else call.plain(chunk))
                if serve == self._refresh and each not in ("on", "bypass"):
                    await self._outdate(self._keys_of(args, kwargs, chunk).values())
        return {id: found[id] for id in ids if found[id] is not ABSENT}

    def _by_mode(
        self, guard: StampedeGuard, mode: Mode, args: Any, kwargs: Any, ids: list[Any]
    ) -> dict[Mode, list[Any]]:
        """The ids by the mode of their keys, looked up only once: an operator may switch it at any time."""
        if not guard.engine.modes.samples(self._plan):
            return {mode: ids}
        found: dict[Mode, list[Any]] = {}
        for id in ids:
            name = guard.prefix + self._key(args, kwargs, id)
            found.setdefault(guard.engine.modes.of_caller(self._plan, name), []).append(id)
        return found

    def _shadow(
        self, guard: StampedeGuard, args: Any, kwargs: Any, ids: list[Any], run: Run
    ) -> collections.abc.Awaitable[Any]:
        keys = {id: self._key(args, kwargs, id) for id in ids}
        entries = {
            id: (guard.prefix + key, self._tags(guard.engine, *self._placed(args, kwargs, id)))
            for id, key in keys.items()
            if guard.engine.modes.of(self._plan, guard.prefix + key) == "shadow"
        }
        return guard.engine.runs.compare_many(self._plan, entries, run)

    async def _serve(self, call: _ManyCall, ids: list[Any]) -> dict[Any, Any]:
        return await call.serve(self._keys_of(call.args, call.kwargs, ids))

    async def _refresh(self, call: _ManyCall, ids: list[Any]) -> dict[Any, Any]:
        return await call.refresh(self._keys_of(call.args, call.kwargs, ids))


class _ManyCall:
    """One call. It serves each id like a separate call, and computes the missing ids together."""

    def __init__(
        self, face: ManyFace, guard: StampedeGuard, mode: Mode, given: Any, args: Any, kwargs: Any
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.guard = guard
        self.mode: Mode = mode
        self.given = given
        self._face = face
        self._plan = face._plan
        self._engine = guard.engine
        self._tasks: dict[Any, asyncio.Task[Any]] = {}
        self._asked: dict[Any, Question] = {}
        self._keys: dict[Any, str] = {}
        self._names: dict[Any, str] = {}
        self._places: dict[Any, str] = {}
        """Names of the flights that may compute these ids."""

    async def plain(self, ids: list[Any]) -> dict[Any, Any]:
        """Call the function in the caller's context, as if there were no cache. It never joins a batch."""
        result = checked(await self._start(ids), ids, self._plan.title)
        return {id: result.get(id, ABSENT) for id in ids}

    async def serve(self, keys: dict[Any, str]) -> dict[Any, Any]:
        engine, hits, plan, found = self._engine, self._engine.hits, self._plan, dict[Any, Any]()
        group, is_on = self._gathering(keys), self.mode == "on"
        try:
            wanted = self._names
            if plan.l1 and is_on:
                near = {id: hits.near(plan, name) for id, name in wanted.items()}
                found = {id: value for id, value in near.items() if value is not NOTHING}
                wanted = {id: name for id, name in wanted.items() if id not in found}
            group.expect([self._places[id] for id in wanted] if found else self._places.values())
            asked = hits.ask_all(plan, wanted.values()) if is_on else [None] * len(wanted)
            for (id, name), question in zip(wanted.items(), asked, strict=True):
                if question is not None:
                    self._asked[id] = question
                else:
                    run = self._run(group, id)
                    self._begin(id, group, partial(engine.serve, plan, name, run, mode=self.mode))
            await self._read(group, found)
            return found | await self._computed() if self._tasks else found
        finally:
            await self._leave(group)

    async def refresh(self, keys: dict[Any, str]) -> dict[Any, Any]:
        group = self._gathering(keys)
        try:
            group.expect(self._places.values())
            for id, name in self._names.items():
                run = self._run(group, id)
                self._begin(id, group, partial(self._engine.refresh, self._plan, name, run, mode=self.mode))
            return await self._computed()
        finally:
            await self._leave(group)

    async def _read(self, group: Gathering, found: dict[Any, Any]) -> None:
        """Put fresh values into `found`. Serve all other ids like calls whose read is done."""
        hits, plan, names = self._engine.hits, self._plan, self._names
        fresh: list[str] = []
        for id, (runtime, near, read) in self._asked.items():
            name = names[id]
            if fresh and not read.done():
                # Batches wait for what is decided here.
                group.settle(fresh)
                fresh = []
            try:
                reading = await read
            except StoreError as error:
                run = self._run(group, id)
                self._begin(id, group, partial(hits.unread, runtime, plan, name, run, error))
                continue
            value = hits.hit(runtime, plan, name, reading, near)
            if value is not NOTHING:
                found[id] = value
                fresh.append(name)
            else:
                run = self._run(group, id)
                self._begin(id, group, partial(hits.found, runtime, plan, name, run, reading))
        group.settle(fresh)
        self._asked = {}

    def _run(self, group: Gathering, id: Any) -> Run:
        compute, face = partial(group.compute, self._places[id], id, self._start), self._face
        if not face._options.tags:
            return compute
        return tagged(compute, face._tags(self._engine, *face._placed(self.args, self.kwargs, id)))

    async def _start(self, ids: list[Any]) -> Any:
        args, kwargs = self._face._keys.copies(self.args, self.kwargs)  # the function may change them
        args, kwargs = self._face._placed(args, kwargs, like(self.given, ids))
        for id in {type(id): id for id in ids}.values():
            self._face._keys.fitted.note(*self._face._placed(self.args, self.kwargs, id))
        result = await self._face._start(args, kwargs)()
        if self.mode in ("on", "bypass") and not self._unchanged(ids):
            raise ArgumentsChanged
        return result

    def _unchanged(self, ids: list[Any]) -> bool:
        """Whether the keys still fit. Copies do not change; an id, a context variable or `self` may."""
        own = (id for id in ids if id in self._keys)
        looked_at = [id for index, id in enumerate(own) if index == 0 or type(id) not in IMMUTABLE]
        return all(self._face._key(self.args, self.kwargs, id) == self._keys[id] for id in looked_at)

    def _begin(self, id: Any, group: Gathering, serve: Run) -> None:
        task = asyncio.create_task(contained(serve), name="stampede_guard id")
        place = self._places[id]
        task.add_done_callback(lambda _: group.settle((place,)))
        self._tasks[id] = task

    async def _computed(self) -> dict[Any, Any]:
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        return {id: outcome_of(task) for id, task in self._tasks.items()}

    def _gathering(self, keys: dict[Any, str]) -> Gathering:
        """The calls that this one may be computed with. It must `_leave` them, in whatever way it ends."""
        self._keys |= keys
        face, prefix = self._face, self._engine.prefix
        self._names = self._places = {id: prefix + key for id, key in keys.items()}
        if self.mode == "bypass":
            self._places = {id: bypassed_name(name) for id, name in self._names.items()}
        return self._engine.runs.batch(face, self._plan, face._group(self), most=face._max_ids)

    async def _leave(self, group: Gathering) -> None:
        """The caller leaves, perhaps early: cancel its reads and tasks, and free the places of its ids."""
        begun = [*(read for _, _, read in self._asked.values()), *self._tasks.values()]
        for future in begun:
            future.cancel()
        group.leave()
        try:
            if any(not task.done() for task in self._tasks.values()):
                await asyncio.wait(self._tasks.values())
        finally:
            group.settle(self._places.values())
            for future in begun:
                if future.done() and not future.cancelled():
                    future.exception()
            self._asked, self._tasks = {}, {}
