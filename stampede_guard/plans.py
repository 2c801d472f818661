"""The plans of a guard's own keys: those of `get_or_compute` and `single`, which no decorator made."""

from __future__ import annotations

import inspect
import threading
from dataclasses import replace
from typing import Any, TypeVar

from stampede_guard.codec import Codec, codec_for
from stampede_guard.early import refuse_where_it_cannot_be
from stampede_guard.errors import Misuse
from stampede_guard.keys.parts import escape
from stampede_guard.plan import Plan, Run
from stampede_guard.policy import Policy
from stampede_guard.tagged import TaggedCodec
from stampede_guard.verdict import NO_CHOICE, split

__all__ = ["Plans", "computation_of", "entry_key", "escape_key"]

K = TypeVar("K")
V = TypeVar("V")

MOST_PLANS = 256
LONGEST_KEY = 512


class Plans:
    def __init__(self, namespace: str, policy: Policy) -> None:
        self._namespace = namespace
        self._policy = policy
        self._plans: dict[tuple[Any, ...], Plan] = {}
        # Titles with the fingerprints of the types that were used for them. A dict, for its order.
        self._shapes: dict[tuple[str, str], None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def plan(
        self, key: str, type: Any, request_bound: bool, fields: dict[str, Any], *, tagged: bool = False
    ) -> Plan:
        """Raises `Misuse` or `PolicyError`."""
        escape_key(key)
        fields, choice = split(fields)
        if choice is not NO_CHOICE:
            # A lambda written into the call is another one each time, and not worth remembering.
            return replace(self._known(key, type, request_bound, fields, tagged), choice=choice)
        return self._known(key, type, request_bound, fields, tagged)

    def _known(self, key: str, type: Any, request_bound: bool, fields: dict[str, Any], tagged: bool) -> Plan:
        # What stands before the first colon names the entry in logs; without one, the whole key may be somebody's name.
        kind, colon, _ = key.partition(":")
        title = f"{self._namespace}:{kind[:40]}" if colon else f"{self._namespace}:get_or_compute"
        known = (title, type, request_bound, tagged, *sorted(fields.items()))
        try:
            plan = self._plans.get(known)
        except TypeError:  # an annotation, or a field's wrong value, that cannot be hashed
            return self._new(title, type, request_bound, fields, tagged)
        if plan is None:
            plan = self._new(title, type, request_bound, fields, tagged)
            with self._lock:
                _keep(self._plans, known, plan)
        return plan

    def _new(self, title: str, type: Any, request_bound: bool, fields: dict[str, Any], tagged: bool) -> Plan:
        codec: Codec = codec_for(type)
        if type is not Any and (title, codec.fingerprint) not in self._shapes:
            with self._lock:
                _keep(self._shapes, (title, codec.fingerprint), None)
        policy = self._policy.replace(**fields)
        refuse_where_it_cannot_be(fields, request_bound=request_bound)
        if tagged:
            codec = TaggedCodec(codec)
        return Plan(title=title, policy=policy, codec=codec, request_bound=request_bound, direct=not tagged)

    def entries(self, key: str, type: Any) -> list[str]:
        """The key's entry of this type. Without a type, also those of the types that were used for such keys."""
        plan = self.plan(key, type, False, {})
        entries = {entry_key(key, type, plan): None}
        if type is Any:
            seen = [shape for title, shape in list(self._shapes) if title == plan.title]
            entries |= dict.fromkeys(f"{escape_key(key)}#{shape}" for shape in seen)
        return list(entries)

    def leave_the_parents(self) -> None:
        """After a fork, in the child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """What a guard remembers of its calls is bounded: the oldest goes first."""
    if len(kept) >= MOST_PLANS:
        del kept[next(iter(kept))]
    kept[key] = value


def entry_key(key: str, type: Any, plan: Plan) -> str:
    """With the shape of a declared type, so that old and new pods of a rolling deploy use different entries."""
    return escape_key(key) if type is Any else f"{escape_key(key)}#{plan.codec.fingerprint}"


def escape_key(key: Any) -> str:
    """A user's own key as part of a name. Raises `Misuse` when it is no text, empty or too long."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise Misuse(f"a key must be a text of 1 to {LONGEST_KEY} characters")
    return "=" + escape(key)


def computation_of(key: str, compute: Any) -> Run:
    """What `get_or_compute` was given, to be called when there is no value. Raises `Misuse`, now or then."""
    if not callable(compute):
        raise Misuse(
            f"get_or_compute({key!r}, compute) calls compute() when there is no value: give it the async function "
            f"itself, without parentheses, not a {type(compute).__name__}"
        )

    async def run() -> Any:
        given = compute()
        if not inspect.isawaitable(given):
            raise Misuse(
                f"get_or_compute({key!r}, compute) awaits what compute() returns, and a {type(given).__name__} cannot "
                "be awaited: write `async def`, or `lambda: asyncio.to_thread(function)` for a plain function; a plain "
                "function can also be decorated, with @guard.locked_cache"
            )
        return await given

    return run
