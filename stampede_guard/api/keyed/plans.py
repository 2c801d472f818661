"""The plans of a guard's own keys. They are for `get_or_compute` and `single`, which have no decorator."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from stampede_guard.api.keyed.keytypes import KeyTypes
from stampede_guard.api.keywords import ValueOptions
from stampede_guard.engine.engine import TaggedCodec
from stampede_guard.engine.plan import Plan, Run, refuse_early
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.engine.verdict import NO_CHOICE, split
from stampede_guard.errors import Misuse
from stampede_guard.policy import Policy, check_fields
from stampede_guard.stores.switch import LONGEST_TITLE
from stampede_guard.values.codec import Codec, codec_for
from stampede_guard.values.codec.compressed import compressing
from stampede_guard.values.forks import renew_in_children
from stampede_guard.values.keys.kinds import UNNAMED, kind_of
from stampede_guard.values.keys.naming import DOCTOR
from stampede_guard.values.parts.parts import escape

__all__ = ["Plans", "computation_of", "entry_key", "escape_key"]

log = logging.getLogger("stampede_guard")

K = TypeVar("K")
V = TypeVar("V")

MOST_PLANS = 4096
"""Plans that a guard and its tenants remember."""
LONGEST_KEY = 512
_NAMED = (*ValueOptions.__annotations__, "key", "compute", "type", "request_bound", "in_thread")
"""What callers of the methods of keys may name beside the fields of a policy."""


class _Shared:
    """What a guard and its tenants remember together. Plans of one type and one set of fields share an item of
    `common`, because making it costs more than the rest of a hit."""

    def __init__(self) -> None:
        self.plans: dict[tuple[Any, ...], Plan] = {}
        self.common: dict[tuple[Any, ...], tuple[Codec, Policy]] = {}
        self.types = KeyTypes()
        self.lock = PassableLock()
        renew_in_children(self, "lock", PassableLock)


class Plans:
    """The plans of one guard. For a tenant, `parent` holds the outer guard's, with the same policy."""

    def __init__(self, namespace: str, policy: Policy, parent: Plans | None = None) -> None:
        self._namespace = namespace
        self._policy = policy
        self._shared: _Shared = _Shared() if parent is None else parent._shared
        self._plans = self._shared.plans
        self._types = self._shared.types

    def __len__(self) -> int:
        return len(self._plans)

    def plan(
        self,
        key: str,
        type: Any,
        request_bound: bool,
        options: Mapping[str, Any],
        *,
        tagged: bool = False,
    ) -> Plan:
        """The plan of a key. Events, logs and metrics show the option `name`, or `get_or_compute` without one.

        Raises `Misuse` or `PolicyError`.
        """
        escape_key(key)
        fields, choice = split(options)
        name = fields.pop("name", None)
        if name is not None and (not isinstance(name, str) or not 0 < len(name) <= LONGEST_TITLE):
            raise Misuse(
                f"name= is a text of 1 to {LONGEST_TITLE} characters, the same for all calls of one kind"
            )
        kind = kind_of(key)
        if kind == DOCTOR:
            raise Misuse(f"`stampede-guard doctor` uses keys that begin with {DOCTOR!r}: choose another key")
        if choice is not NO_CHOICE:
            # A lambda in a call is a new object each time, so its plan is not remembered.
            plan = replace(self._known(name, type, request_bound, fields, tagged), choice=choice)
        else:
            plan = self._known(name, type, request_bound, fields, tagged)
        if type is not Any:
            self._types.used(kind, plan.codec.fingerprint)
        return plan

    def _known(
        self,
        name: str | None,
        type: Any,
        request_bound: bool,
        fields: dict[str, Any],
        tagged: bool,
    ) -> Plan:
        known = (self._namespace, name, type, request_bound, tagged, *sorted(fields.items()))
        try:
            plan = self._plans.get(known)
        except TypeError:  # an annotation, or a field's wrong value, that cannot be hashed
            return self._new(self._title(name), type, request_bound, fields, tagged, self._made(type, fields))
        if plan is None:
            common = self._shared.common.get(known[2:])
            if common is None:
                common = self._made(type, fields)
                with self._shared.lock:
                    _keep(self._shared.common, known[2:], common)
            plan = self._new(self._title(name), type, request_bound, fields, tagged, common)
            with self._shared.lock:
                _keep(self._plans, known, plan)
        return plan

    def _title(self, name: str | None) -> str:
        return f"{self._namespace}:{UNNAMED if name is None else name}"

    def _made(self, type: Any, fields: dict[str, Any]) -> tuple[Codec, Policy]:
        if isinstance(type, list | dict | set):
            raise Misuse(f"type={type!r} is not a type: write it as an annotation, such as type=list[int]")
        check_fields(fields, others=_NAMED)
        return codec_for(type), self._policy.replace(**fields)

    def _new(
        self,
        title: str,
        type: Any,
        request_bound: bool,
        fields: dict[str, Any],
        tagged: bool,
        common: tuple[Codec, Policy],
    ) -> Plan:
        codec, policy = common
        if not isinstance(request_bound, bool):
            raise Misuse(f"request_bound={request_bound!r} is not allowed: it must be True or False")
        refuse_early(fields, request_bound=request_bound)
        if tagged:
            codec = TaggedCodec(codec)
        codec = compressing(codec, policy)
        return Plan(title=title, policy=policy, codec=codec, request_bound=request_bound, direct=not tagged)

    def entries(self, key: str, type: Any) -> list[str]:
        """The key's entry of this type. Without a type, also its entries of all types used for such keys.

        Raises `Misuse` if these types are not known.
        """
        plan = self.plan(key, type, False, {})
        entries = {entry_key(key, type, plan): None}
        if type is Any:
            seen = self._types.of(kind_of(key))
            entries |= dict.fromkeys(f"{escape_key(key)}#{shape}" for shape in seen)
        return list(entries)

    def note_set(self, key: str, type: Any, plan: Plan) -> None:
        """`set` has stored this key."""
        self._types.note_set(self._key(key), _shape(type, plan), _title_of(type))

    def warn_of_another_type(self, key: str, type: Any, plan: Plan) -> None:
        """`get` has found nothing. Say once if `set` has stored this key under another type: it never will."""
        other = self._types.set_as_another(self._key(key), _shape(type, plan))
        if other is not None and "type" not in plan.warned:
            plan.warned.add("type")
            log.warning(
                "%s: guard.get %s found nothing, because guard.set stored this key %s: values of different types are "
                "apart. Pass the same type= to both",
                plan.title,
                _title_of(type),
                other,
            )

    def _key(self, key: str) -> str:
        return f"{self._namespace}:{key}"


def _shape(type: Any, plan: Plan) -> str:
    return "" if type is Any else plan.codec.fingerprint


def _title_of(type: Any) -> str:
    return "without type=" if type is Any else f"with type={getattr(type, '__name__', type)}"


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Remember a value. The number is bounded: the oldest value goes first."""
    if len(kept) >= MOST_PLANS:
        del kept[next(iter(kept))]
    kept[key] = value


def entry_key(key: str, type: Any, plan: Plan) -> str:
    """The entry of a key. It has the declared type's shape, so old and new pods in a deploy use different entries."""
    return escape_key(key) if type is Any else f"{escape_key(key)}#{plan.codec.fingerprint}"


def escape_key(key: Any) -> str:
    """A user's own key as part of a name. Raises `Misuse` if it is not a text, or is empty or too long."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise Misuse(f"a key must be a text of 1 to {LONGEST_KEY} characters")
    return "=" + escape(key)


def computation_of(compute: Any) -> Run:
    """The computation that `get_or_compute` was given. Raises `Misuse`, now or when it is called."""
    # Do not show the key: it may hold personal data, and logs may show this text.
    if not callable(compute):
        raise Misuse(
            f"get_or_compute(key, compute) calls compute() when there is no value: give it the async function "
            f"itself, without parentheses, not a {type(compute).__name__}"
        )

    async def run() -> Any:
        given = compute()
        if not inspect.isawaitable(given):
            raise Misuse(
                f"get_or_compute(key, compute) awaits what compute() returns, and a {type(given).__name__} cannot "
                "be awaited: write `async def`, or `lambda: asyncio.to_thread(function)` for a plain function; a plain "
                "function can also be decorated, with @guard.locked_cache"
            )
        return await given

    return run
