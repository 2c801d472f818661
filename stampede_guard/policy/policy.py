"""Every number and choice of a cached function (`Policy`) and of a guard (`Limits`), in frozen objects.

Times are seconds, as floats. A time may be given as `ttl=300`, `ttl="5m"` or `ttl=timedelta(minutes=5)`: see
`durations`. Pass a field of `Policy` to `@locked_cache(...)` for one function. As
`StampedeGuard(..., policy=Policy(...))` it is the default of all functions of the guard.

| field | default | unit | reason |
|---|---|---|---|
| `ttl` | 60 | s | a minute is short enough to be noticed when it is wrong |
| `stale_ttl` | 0 | s | serving stale values is a decision of the user |
| `error_ttl` | 1 | s | callers ask a failing source once a second, not once per call |
| `early_beta` | 0 | factor | 0 = no early refresh; 1 = XFetch's default; more = earlier; see `early.py` |
| `soft_timeout` | 0 | s | a caller with a stale value waits this long for a fresh one; 0 = does not wait |
| `lease_ttl` | 3 | s | how long a vanished holder counts as alive, where its liveness is unknown |
| `wait_timeout` | 30 | s | waiting is right while the holder renews; most proxies give up after 60 s |
| `compute_timeout` | 60 | s | otherwise an endless computation would hold its key for ever |
| `fallback_limit` | 1 | count | computations beside a slow holder, per key, all processes together; 0 = none |
| `fallback_timeout` | 2 | s | a fallback is the last attempt before the caller gets an error |
| `poll_interval` | 0.4 | s | the longest time between two checks of a held lease; a wake-up usually comes first |
| `takeover_gap` | 0.25 | s | two checks, this far apart, must miss the holder: it may only reconnect |
| `uncacheable_ttl` | 10 | s | after an uncacheable value, callers do not wait; a cacheable one ends this |
| `uncacheable_limit` | 16 | count | computations at once of an uncacheable key, all processes together |
| `max_passengers` | 10000 | count | callers that may wait on one flight of one process |
| `max_handovers` | 3 | count | how often a passenger takes over a computation bound to its caller's request |
| `max_value_bytes` | 8 MiB | bytes | callers get a larger value, but it is not stored |
| `inline_bytes` | 16 KiB | bytes | a value up to this size travels inside the wake-up |
| `l1_ttl` | 0 | s | keep hits in the process this long, 0 = off; the longest effect of a lost message |
| `mode` | `"on"` | | also `shadow`; `bypass` = no store, one flight per key per process; `off` = a plain function |
| `sample` | 1 | share | 0.1 = one key in ten is cached, always the same ones; the others call a plain function |
| `share` | False | | True gives all callers of one flight the same mutable object |
| `strict` | False | | True: a result that cannot be stored is an error, not a value that is served uncached |
| `compression` | None | | `"zstd"` compresses values; it needs the extra `compression` |
| `compression_min_bytes` | 4 KiB | bytes | a smaller value is stored as it is: compressing it saves little |

Fields of `Limits` bound what one guard uses in one process, for all its functions together. Pass them as
`StampedeGuard(..., limits=Limits(...))`. The guards of its tenants share them.

| field | default | unit | reason |
|---|---|---|---|
| `max_flights` | 10000 | count | keys that one process may compute or wait for at once |
| `max_local_computations` | 16 | count | computations at once while the store is away, not counting calls within them |
| `max_threads` | 32 | count | plain functions of one guard that compute at once in one process |
| `last_value_bytes` | 16 MiB | bytes | values kept per process while the store is away; 0 = none |
| `l1_bytes` | 32 MiB | bytes | values kept in L1, per event loop |
| `l1_entries` | 10000 | count | the same, in entries |
| `drain_timeout` | 10 | s | how long closing waits for computations under way |
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.options import nearest, options_of
from stampede_guard.policy.fields import check_each, count, flag, number, one_of, time

__all__ = ["Limits", "Mode", "Policy", "PolicyFields", "check_fields", "checked_limits", "checked_policy"]

Mode = Literal["on", "shadow", "bypass", "off"]
Compression = Literal["zstd"]

MOST_MS = 10**12 - 1
"""The longest lifetime in a stored value, in milliseconds: 31 years. A policy allows 20 (`ttl` plus `stale_ttl`)."""
_LARGEST_BETA = 100.0
_OF_GUARDS = ("namespace", "policy", "limits", "hooks", "encryption", "stats")


class PolicyFields(TypedDict, total=False):
    """The fields of `Policy` as keywords. Each face adds `ttl`, which may be a function of the value there."""

    stale_ttl: Duration
    error_ttl: Duration
    early_beta: float
    soft_timeout: Duration
    lease_ttl: Duration
    wait_timeout: Duration
    compute_timeout: Duration
    fallback_limit: int
    fallback_timeout: Duration
    poll_interval: Duration
    takeover_gap: Duration
    uncacheable_ttl: Duration
    uncacheable_limit: int
    max_passengers: int
    max_handovers: int
    max_value_bytes: int
    inline_bytes: int
    l1_ttl: Duration
    mode: Mode
    sample: float
    share: bool
    strict: bool
    compression: Compression | None
    compression_min_bytes: int


class _Fields(PolicyFields, total=False):
    ttl: Duration


class _Given:
    """What `Policy` remembers beside its fields."""

    __slots__ = ("given",)

    given: frozenset[str]
    """The names of the fields that were given. The environment may set the others."""


P = TypeVar("P", bound=type)


def _remembers_given(policy: P) -> P:
    init: Any = policy.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def remembering(self: Any, **fields: Any) -> None:
        init(self, **fields)
        object.__setattr__(self, "given", frozenset(fields))

    policy.__init__ = remembering  # type: ignore[misc]
    return policy


_OF_OTHER_LIBRARIES = {
    "timeout": "ttl", "cache_timeout": "ttl", "expire": "ttl", "expires": "ttl", "expiration": "ttl",
    "expiration_time": "ttl", "max_age": "ttl", "lifetime": "ttl", "stale_while_revalidate": "stale_ttl",
    "key_builder": "key", "make_cache_key": "key", "make_name": "name", "key_prefix": "name",
}  # fmt: skip
"""What Django, Flask-Caching, fastapi-cache, aiocache, dogpile.cache and HTTP call it."""


def check_fields(fields: Mapping[str, object], others: Iterable[str] = ()) -> None:
    """Raise `PolicyError` for an unknown field. `others`: options that the user may have meant instead."""
    known = [field.name for field in dataclasses.fields(Policy)]
    for name, value in fields.items():
        if name not in known:
            raise PolicyError(name, value, _unknown(name, known, others))


def _unknown(name: str, known: list[str], others: Iterable[str]) -> str:
    if name in _OF_GUARDS:
        return f"it belongs to the guard: StampedeGuard.from_url(..., {name}=...)"
    if name in {field.name for field in dataclasses.fields(Limits)}:
        return f"it belongs to the guard: StampedeGuard.from_url(..., limits=Limits({name}=...))"
    near = _OF_OTHER_LIBRARIES.get(name) or nearest(name, [*known, *others])
    hint = f" (do you mean {near}?)" if near else ""
    more = sorted({*others} - {*known})
    of_the_call = f"; the other options are {', '.join(more)}" if more else ""
    return f"there is no such field{hint}; the fields are {', '.join(sorted(known))}{of_the_call}"


@options_of("Policy", own=_Fields.__annotations__, refuse=check_fields)
@_remembers_given
@dataclass(frozen=True, kw_only=True, slots=True)
class Policy(_Given):
    """What one cached function may do, and for how long. See the module's first table for fields and reasons.

    Raises `PolicyError` for a value that cannot work. The error names the field, the value and the rule.
    """

    ttl: float = time(60.0, instead_of_zero='for a function that is not cached at all, write mode="off"')
    stale_ttl: float = time(0.0, least=0)
    error_ttl: float = time(1.0, least=0)
    early_beta: float = number(0.0, "factor", "0", f"{_LARGEST_BETA:g}")
    soft_timeout: float = time(0.0, least=0)
    lease_ttl: float = time(3.0)
    wait_timeout: float = time(30.0)
    compute_timeout: float = time(60.0)
    fallback_limit: int = count(1, least=0)
    fallback_timeout: float = time(2.0)
    poll_interval: float = time(0.4)
    takeover_gap: float = time(0.25)
    uncacheable_ttl: float = time(10.0, least=0)
    uncacheable_limit: int = count(16)
    max_passengers: int = count(10_000)
    max_handovers: int = count(3, least=0)
    max_value_bytes: int = count(8 * 1024 * 1024)
    inline_bytes: int = count(16 * 1024, least=0)
    l1_ttl: float = time(0.0, least=0)
    mode: Mode = one_of("on", *get_args(Mode))
    sample: float = number(1.0, "share", "0 (no key)", "1 (every key)")
    share: bool = flag()
    strict: bool = flag()
    compression: Compression | None = one_of(
        None, None, *get_args(Compression), words='it must be "zstd", or None for no compression'
    )
    compression_min_bytes: int = count(4 * 1024, least=0)

    if TYPE_CHECKING:
        # More types may be given than are read.
        def __init__(self, **fields: Unpack[_Fields]) -> None: ...

    def __post_init__(self) -> None:
        check_each(self)
        self._check_relations()

    def _check_relations(self) -> None:
        if self.lease_ttl < 0.3:
            raise PolicyError(
                "lease_ttl", self.lease_ttl, "it must be at least 0.3 s, or renewal cannot keep up"
            )
        if self.takeover_gap >= self.lease_ttl:
            raise PolicyError(
                "takeover_gap", self.takeover_gap, f"it must be below lease_ttl ({self.lease_ttl:g} s)"
            )
        if self.poll_interval > self.lease_ttl:
            raise PolicyError(
                "poll_interval", self.poll_interval, f"it must not exceed lease_ttl ({self.lease_ttl:g} s)"
            )
        self._check_soft_timeout()
        if self.inline_bytes > self.max_value_bytes:
            raise PolicyError(
                "inline_bytes",
                self.inline_bytes,
                f"it must not exceed max_value_bytes ({self.max_value_bytes} bytes)",
            )

    def _check_soft_timeout(self) -> None:
        if self.soft_timeout and not self.stale_ttl:
            rule = "without a stale value there is nothing to serve instead: give a stale_ttl as well"
            raise PolicyError("soft_timeout", self.soft_timeout, rule)
        if self.soft_timeout >= self.compute_timeout:
            rule = (
                f"it must be below compute_timeout ({self.compute_timeout:g} s), which ends the computation"
            )
            raise PolicyError("soft_timeout", self.soft_timeout, rule)

    def replace(self, **fields: Unpack[_Fields]) -> Policy:
        """The same policy with some fields changed. Raises `PolicyError` for an unknown field."""
        check_fields(fields)
        changed: dict[str, Any] = {**fields}
        made = dataclasses.replace(self, **changed)
        # A policy from another process has its fields only.
        object.__setattr__(made, "given", getattr(self, "given", frozenset()) | fields.keys())
        return made

    @property
    def total_ms(self) -> int:
        """Milliseconds that a stored value exists: first fresh, then stale."""
        return self.ttl_ms + self.stale_ms

    @property
    def ttl_ms(self) -> int:
        return math.ceil(self.ttl * 1000)

    @property
    def stale_ms(self) -> int:
        return math.ceil(self.stale_ttl * 1000)

    @property
    def slot_ms(self) -> int:
        """Milliseconds after which a dead flight no longer counts among the computations of an uncacheable key."""
        return math.ceil((self.compute_timeout + self.lease_ttl) * 1000)

    @property
    def record_ms(self) -> int:
        """Milliseconds that a record lives after its last use: longer than any computation that needs it."""
        longest = self.compute_timeout + self.wait_timeout + self.fallback_timeout + 2 * self.lease_ttl
        return math.ceil(longest * 1000) + 10_000

    @property
    def tag_ms(self) -> int:
        """Milliseconds that a tag's version lives after its last use: longer than any value computed with it."""
        return min(self.total_ms + self.record_ms, MOST_MS)


class _LimitFields(TypedDict, total=False):
    max_flights: int
    max_local_computations: int
    max_threads: int
    last_value_bytes: int
    l1_bytes: int
    l1_entries: int
    drain_timeout: Duration


@options_of("Limits", own=_LimitFields.__annotations__)
@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one guard may use in one process. See the module's second table for fields and reasons.

    Raises `PolicyError` for a value that cannot work. The error names the field, the value and the rule.
    """

    max_flights: int = count(10_000)
    max_local_computations: int = count(16)
    max_threads: int = count(32)
    last_value_bytes: int = count(16 * 1024 * 1024, least=0)
    l1_bytes: int = count(32 * 1024 * 1024)
    l1_entries: int = count(10_000)
    drain_timeout: float = time(10.0, least=0)

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[_LimitFields]) -> None: ...

    def __post_init__(self) -> None:
        check_each(self)


def checked_policy(policy: Policy | None) -> Policy:
    """The given policy, or the defaults. Raises `Misuse`."""
    given: object = policy
    if given is not None and not isinstance(given, Policy):
        raise Misuse(f"policy= is a Policy, not a {type(given).__name__}: write policy=Policy(ttl=300)")
    return policy or Policy()


def checked_limits(limits: Limits | None) -> Limits:
    """The given limits, or the defaults. Raises `Misuse`."""
    given: object = limits
    if given is not None and not isinstance(given, Limits):
        raise Misuse(f"limits= is a Limits, not a {type(given).__name__}: write limits=Limits(max_threads=8)")
    return limits or Limits()
