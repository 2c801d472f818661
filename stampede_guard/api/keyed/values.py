"""The calls of a guard that name their key themselves."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Unpack, overload

from stampede_guard.api.keyed.plans import Plans, computation_of, entry_key
from stampede_guard.api.keyed.single import Single
from stampede_guard.api.keywords import OWN_OF_VALUES, LookOptions, SetOptions, ValueOptions
from stampede_guard.api.results import MISSING, CallInfo, Missing, info
from stampede_guard.api.types import Invalidation
from stampede_guard.engine.engine import NOTHING, Engine, Stored, Told, tagged
from stampede_guard.engine.plan import Plan, Run
from stampede_guard.engine.tags.templates import checked_tags, tag_key, tag_names
from stampede_guard.engine.tasks import together
from stampede_guard.options import ALL, takes_options
from stampede_guard.policy import Policy, check_fields

__all__ = ["KeyedEntry", "KeyedValues"]

T = TypeVar("T")
D = TypeVar("D")
Compute = Callable[[], Awaitable[T]]
OWN_OF_CALLS = (*OWN_OF_VALUES, "key", "compute")
"""What `KeyedValues.entry` checks itself."""


class KeyedEntry(NamedTuple):
    """One key as the engine sees it."""

    plan: Plan
    name: str
    tags: tuple[str, ...]


class KeyedValues:
    """A part of `StampedeGuard`."""

    engine: Engine
    policy: Policy
    prefix: str
    _plans: Plans

    def entry(
        self, key: str, type: Any, options: Mapping[str, Any], request_bound: bool = False
    ) -> KeyedEntry:
        """The entry of a key. Raises `Misuse` or `PolicyError`. For the faces of a guard."""
        fields = dict(options)
        tags = tag_names(self.prefix, sorted(checked_tags(fields.pop("tags", ()))))
        plan = self._plans.plan(key, type, request_bound, fields, tagged=bool(tags))
        return KeyedEntry(plan, self.prefix + entry_key(key, type, plan), tags)

    async def serve_entry(self, entry: KeyedEntry, run: Run, told: Told | None = None) -> Any:
        """One call, with a computation that is made already. For the faces of a guard."""
        return await self.engine.serve(entry.plan, entry.name, tagged(run, entry.tags, told))

    # --- calls -----------------------------------------------------------------------------------

    @overload
    async def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Awaitable[object]],
        *,
        type: builtins.type[T],
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @overload
    async def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Awaitable[T]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @takes_options("guard.get_or_compute", own=OWN_OF_CALLS, refuse=check_fields)
    async def get_or_compute(
        self,
        key: str,
        compute: Callable[[], Awaitable[Any]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> Any:
        """The value stored under `key`, or else the result of `compute()`, computed once, fleet-wide.

        All Policy fields are keywords (`ttl=300`). Both `ttl` and `should_cache` may be functions of the value. Declare
        the value with `type`, as a return annotation does; its shape is part of the key. Without `type`, builtins come
        back exactly as they were stored. Pass `request_bound=True` if `compute` uses objects that end with the caller's
        request, such as its database session. Pass the same `tags` in all calls of one key. Events, logs, metrics and
        switches show `name`, which must be the same for all calls of one kind. Its default is `get_or_compute`, and
        never a part of the key, because keys hold addresses and names of users.
        """
        run = computation_of(compute)
        entry = self.entry(key, type, options, request_bound)
        return await self.engine.serve(entry.plan, entry.name, tagged(run, entry.tags))

    @overload
    async def get_or_compute_with_info(
        self,
        key: str,
        compute: Callable[[], Awaitable[object]],
        *,
        type: builtins.type[T],
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> CallInfo[T]: ...

    @overload
    async def get_or_compute_with_info(
        self,
        key: str,
        compute: Callable[[], Awaitable[T]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> CallInfo[T]: ...

    @takes_options("guard.get_or_compute_with_info", own=OWN_OF_CALLS, refuse=check_fields)
    async def get_or_compute_with_info(
        self,
        key: str,
        compute: Callable[[], Awaitable[Any]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> CallInfo[Any]:
        """The same call. It also tells where its value came from, and the value's age in seconds: see `CallInfo`."""
        run, told = computation_of(compute), Told()
        entry = self.entry(key, type, options, request_bound)
        return info(await self.serve_entry(entry, run, told), told)

    @overload
    async def refresh(
        self,
        key: str,
        compute: Callable[[], Awaitable[object]],
        *,
        type: builtins.type[T],
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @overload
    async def refresh(
        self,
        key: str,
        compute: Callable[[], Awaitable[T]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> T: ...

    @takes_options("guard.refresh", own=OWN_OF_CALLS, refuse=check_fields)
    async def refresh(
        self,
        key: str,
        compute: Callable[[], Awaitable[Any]],
        *,
        type: Any = Any,
        request_bound: bool = False,
        **options: Unpack[ValueOptions],
    ) -> Any:
        """Compute the value of `get_or_compute(key)` again, also a fresh one. Until then, callers get the old one."""
        run = computation_of(compute)
        entry = self.entry(key, type, options, request_bound)
        return await self.engine.refresh(entry.plan, entry.name, tagged(run, entry.tags))

    @overload
    def single(self, key: str, *, type: builtins.type[T], **options: Unpack[ValueOptions]) -> Single[T]: ...

    @overload
    def single(self, key: str, *, type: Any = Any, **options: Unpack[ValueOptions]) -> Single[Any]: ...

    @takes_options("guard.single", own=OWN_OF_CALLS, refuse=check_fields)
    def single(self, key: str, *, type: Any = Any, **options: Unpack[ValueOptions]) -> Single[Any]:
        """`async with guard.single("report:7", ttl=300) as entry`: one caller fleet-wide finds `entry.missing`.

        That caller computes and calls `await entry.set(value)`. All others find `entry.value`. If the block ends
        without `set`, the next caller takes over. If it raises, the waiting callers get the error.
        """
        entry = self.entry(key, type, options, True)
        return Single(self.engine, *entry)

    # --- without a computation -------------------------------------------------------------------

    @overload
    async def get(
        self, key: str, *, type: builtins.type[T], **options: Unpack[LookOptions]
    ) -> T | Missing: ...

    @overload
    async def get(
        self, key: str, *, type: builtins.type[T], default: D, **options: Unpack[LookOptions]
    ) -> T | D: ...

    @overload
    async def get(
        self, key: str, *, type: Any = Any, default: object = MISSING, **options: Unpack[LookOptions]
    ) -> Any: ...

    @takes_options("guard.get", own=OWN_OF_VALUES)
    async def get(
        self, key: str, *, type: Any = Any, default: Any = MISSING, **options: Unpack[LookOptions]
    ) -> Any:
        """The fresh value stored under `key` by `set`, `get_or_compute` or `single`; otherwise the `default`.

        It never computes and takes no lease: one read, or none with a copy in this process. A stored `None` is a value;
        the default is `MISSING`, which is equal to nothing else. A stale value counts as missing, because no call would
        refresh it. So does any value in a mode other than `on`. Pass the `type` and the `tags` of the call that stores
        the value. While the store is away, it is the value that this process saw last, if that is fresh.
        """
        entry = self.entry(key, type, options)
        found = await self.engine.peek(*entry)
        if found is NOTHING:
            self._plans.warn_of_another_type(key, type, entry.plan)
            return default
        return found

    @takes_options("guard.set", own=OWN_OF_VALUES, refuse=check_fields)
    async def set(self, key: str, value: Any, *, type: Any = Any, **options: Unpack[SetOptions]) -> Stored:
        """Store a value that the program has already, for example one that it has just written to the database.

        It counts as newer than every computation that began before, in all processes: their values are not stored any
        more, and their waiting callers get this one. After `"stored"`, no later caller gets an older value. An
        invalidation or a computation that begins during this call may be newer: then the result is `"superseded"`. The
        other results are `"dropped"` and `"pending"`: see docs/calls.md. For a value that was read from a
        database, use `get_or_compute` or `single`: another process may have changed it since.

        The Policy fields are keywords (`ttl="10m"`), and so are `tags` and `name`. Raises `UnsupportedValue` for a
        value that cannot be stored or is larger than `max_value_bytes`, and `StoreRefused` as `invalidate` does.
        """
        entry = self.entry(key, type, options)
        self._plans.note_set(key, type, entry.plan)
        return await self.engine.set(entry.plan, entry.name, value, entry.tags)

    @takes_options("guard.invalidate")
    async def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """Drop the entry of `get_or_compute(key)`, `single(key)` or `set(key)`, with the same `type`.

        After `"done"`, no caller gets an older value, not even from a computation that began earlier. Without `type`,
        it drops the entries of all types that this guard has used for such keys. It does not know other types, so a
        process that only invalidates must pass the type. Code without an event loop calls `guard.sync.invalidate(key)`.
        Raises `StoreRefused` if the store denies access to this client.
        """
        entries = self._plans.entries(key, type)
        invalidate = self.engine.invalidate
        answers = await together(invalidate(self.prefix + entry, self.policy) for entry in entries)
        return "done" if all(answer == "done" for answer in answers) else "pending"

    @takes_options("guard.invalidate_tag", own=ALL)
    async def invalidate_tag(self, tag: str) -> Invalidation:
        """Invalidate all entries with this tag in this namespace: see docs/invalidation.md. Raises `Misuse`."""
        return await self.engine.invalidate_tag(self.prefix + tag_key(tag))
