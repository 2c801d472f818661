"""Decides about a computed value: how long it is stored, or that it is not stored.

Every computation uses it, for `ttl=lambda value: ...`, `should_cache=lambda value: ...` and `UNCHANGED`. If a user's
function fails or returns a meaningless answer, the computation fails. Its callers get the error, and the value is not
stored with a lifetime that the user did not choose.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.engine.previous import Previous, Unchanged
from stampede_guard.errors import Misuse, PolicyError, UnsupportedValue
from stampede_guard.policy import Policy
from stampede_guard.values.codec import encoded
from stampede_guard.values.unstorable import Unstorable

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan

__all__ = ["NO_CHOICE", "Choice", "Ttl", "Verdict", "judge", "judge_or_serve", "split"]

SHORTEST = 0.001
"""Seconds. A shorter lifetime would end before the value is stored."""


class Choice(NamedTuple):
    """The user's functions in addition to the policy. Each is called once per computation, with its value."""

    ttl: Callable[[Any], Any] | None = None
    should_cache: Callable[[Any], Any] | None = None

    def policy_for(self, value: Any, policy: Policy, title: str) -> Policy | None:
        """The policy with this value's lifetimes; None if it may not be stored. Raises `Misuse`."""
        if self.should_cache is not None:
            answer = _ask(self.should_cache, value, f"the should_cache function of {title}")
            _refuse_awaitable(answer, "should_cache", title)
            if not answer:
                return None
        if self.ttl is None:
            return policy
        answer = _ask(self.ttl, value, f"the ttl function of {title}")
        _refuse_awaitable(answer, "ttl", title)
        if answer is None:
            return None
        ttl = seconds(answer)
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or math.isnan(ttl):
            what = "nan" if isinstance(answer, float) else f"a {type(answer).__name__}"
            # A text may be the value's own data, so the error does not contain it.
            forms = advice("" if isinstance(answer, str) else answer)
            raise Misuse(
                f"the ttl function of {title} returned {what}: return the seconds that this value is fresh, or "
                f"0 or None for a value that must not be stored{forms}"
            )
        if ttl < SHORTEST:
            return None
        try:
            return policy.replace(ttl=ttl)
        except PolicyError as error:
            raise Misuse(f"the ttl function of {title} returned {answer!r}: {error.rule}") from None


NO_CHOICE = Choice()

Ttl = Duration | Callable[[Any], Duration | None]


def split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Choice]:
    """The Policy fields among the keywords, and the choice. Raises `PolicyError` for an unusable function."""
    rest = dict(fields)
    should_cache = rest.pop("should_cache", None)
    if should_cache is not None and not callable(should_cache):
        raise PolicyError(
            "should_cache", should_cache, "it must be a function of the value, such as a lambda"
        )
    ttl = rest.pop("ttl") if callable(rest.get("ttl")) else None
    for field, function in (("ttl", ttl), ("should_cache", should_cache)):
        if inspect.iscoroutinefunction(function):
            raise PolicyError(field, function, "it must be a plain function: it receives the whole value")
    return rest, NO_CHOICE if ttl is should_cache is None else Choice(ttl, should_cache)


class Verdict(NamedTuple):
    """`policy` holds the lifetimes for storing the bytes. None: they are only for the present callers."""

    body: bytes
    policy: Policy | None


def judge(plan: Plan, returned: Any, old: Previous | None) -> Verdict:
    """The verdict on the result of a computation that had `old`. Raises `Misuse`, or the error of a user's function."""
    if not isinstance(returned, Unchanged):
        body = _ask(partial(encoded, plan.codec), returned, f"a class in the result of {plan.title}")
        return Verdict(body, _fitting(plan, body, plan.policy_for(returned)))
    if plan.batched:
        raise Misuse(f"{plan.title} returned UNCHANGED for an id: functions of many ids return values only")
    if old is None:
        raise Misuse(
            f"{plan.title} returned UNCHANGED, but there is no value that it could keep: return it only if "
            f"`previous()` is not None"
        )
    # 1. The flight is granted token T. At that moment the old value is stored (`Computation` makes sure of it).
    # 2. The entry is invalidated, so the fence is above T. 3. The computation returns "unchanged". 4. It publishes the
    # old bytes with token T. This is refused, as new bytes would be. An invalidation before 1 leaves no old value.
    return Verdict(old.body, _fitting(plan, old.body, plan.policy_for(old.value)))


def judge_or_serve(
    plan: Plan, returned: Any, old: Previous | None, refused: Callable[[UnsupportedValue], None]
) -> Verdict:
    """The same, but a value that cannot be stored is only for the present callers, unless the policy is `strict`."""
    try:
        return judge(plan, returned, old)
    except UnsupportedValue as error:
        if plan.policy.strict:
            raise
        refused(error)
        return Verdict(Unstorable.of(returned), None)


def _fitting(plan: Plan, body: bytes, policy: Policy | None) -> Policy | None:
    return policy if len(body) <= plan.policy.max_value_bytes else None


def _ask(function: Callable[[Any], Any], value: Any, what: str) -> Any:
    """The answer of a user's function. An exception that ends a generator or looks like a cancellation is an error."""
    try:
        return function(value)
    except (StopIteration, GeneratorExit, asyncio.CancelledError) as error:
        raise RuntimeError(f"{what} raised {type(error).__name__}") from error


def _refuse_awaitable(answer: Any, field: str, title: str) -> None:
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise Misuse(
            f"the {field} function of {title} is asynchronous: it must be a plain function of the value"
        )
